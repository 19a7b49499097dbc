"""Local steps drawn from 1 to 2 E - 1, as the house has it."""

from leaklab.defenses.lrp import LocalStepPerturbation

PLUGIN = LocalStepPerturbation()
