"""How many sentences are read exactly from updates of transformers, and whether a certificate is ever false."""
