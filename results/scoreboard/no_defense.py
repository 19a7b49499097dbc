"""No defense, as the house has it."""

from leaklab.defenses.base import NoDefense

PLUGIN = NoDefense()
