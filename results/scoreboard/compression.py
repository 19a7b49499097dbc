"""Gradient compression, 90 % dropped, as the house has it."""

from leaklab.defenses.outpost import GradientCompression

PLUGIN = GradientCompression(dropped=0.9)
