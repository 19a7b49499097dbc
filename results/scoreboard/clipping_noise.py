"""Clipping to norm 4, noise of 0.1, as the house has it."""

from leaklab.defenses.noise import ClippingNoise

PLUGIN = ClippingNoise(bound=4.0, sigma=0.1)
