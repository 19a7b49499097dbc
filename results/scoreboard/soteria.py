"""Soteria, 80 % of features pruned, as the house has it."""

from leaklab.defenses.soteria import Soteria

PLUGIN = Soteria()
