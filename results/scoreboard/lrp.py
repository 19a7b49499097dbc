"""LRP, rate from U(0, 2 mean), as the house has it."""

from leaklab.defenses.lrp import LearningRatePerturbation

PLUGIN = LearningRatePerturbation()
