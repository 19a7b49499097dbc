"""Malicious servers: one file each, what it changes in the weights that it sends and how it reads the answer."""
