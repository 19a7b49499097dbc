"""Federated algorithms, one file each; see ``base``."""
