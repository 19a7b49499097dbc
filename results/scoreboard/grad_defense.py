"""GradDefense, 10 slices, half of them noised, as the house has it."""

from leaklab.defenses.grad_defense import GradDefense

PLUGIN = GradDefense()
