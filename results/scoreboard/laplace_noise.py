"""Laplace noise, variance 0.1, as the house has it."""

from leaklab.defenses.noise import LaplaceNoise

PLUGIN = LaplaceNoise(variance=0.1)
