"""Defense-aware transforms: what an attacker who knows the defense does to the observation before attacking."""
