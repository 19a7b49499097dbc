"""How much of a sentence an attack found."""
