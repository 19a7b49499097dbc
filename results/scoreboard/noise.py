"""Gaussian noise, sigma 0.1, as the house has it."""

from leaklab.defenses.noise import AdditiveNoise

PLUGIN = AdditiveNoise(sigma=0.1)
