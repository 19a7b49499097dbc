"""OUTPOST, 80 % pruned, 40 % noised, as the house has it."""

from leaklab.defenses.outpost import Outpost

PLUGIN = Outpost()
