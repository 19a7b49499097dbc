"""Probes of somebody else's training: does the update leak, what is proven, what is found, what would stop it."""
