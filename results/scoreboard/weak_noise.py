"""Gaussian noise, sigma 0.01, as the house has it."""

from leaklab.defenses.noise import AdditiveNoise

PLUGIN = AdditiveNoise(sigma=0.01)
