"""How near a reconstruction comes to the private data; each number with its metric card."""
