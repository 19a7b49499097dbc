"""Searches for the samples behind an update of any client: simulation, beliefs, labels, attackers."""
