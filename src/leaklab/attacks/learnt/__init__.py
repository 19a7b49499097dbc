"""Laws of a defense that are learnt from rehearsals: pairs of a gradient and what was sent of it."""
