"""Last layer kept back, as the house has it."""

from leaklab.defenses.lrp import HiddenClassifier

PLUGIN = HiddenClassifier()
