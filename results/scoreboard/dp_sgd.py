"""DP-SGD, clipping to 0.04, multiplier 10.62, as the house has it."""

from leaklab.defenses.dp_sgd import DpSgd

PLUGIN = DpSgd(bound=0.04, sigma=10.62)
