"""Clipping to norm 4, as the house has it."""

from leaklab.defenses.noise import GradientClipping

PLUGIN = GradientClipping(bound=4.0)
