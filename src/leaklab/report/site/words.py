"""The words of the pages for what result tables and specs abbreviate."""

from leaklab.report.numbers.results import BLIND, KNOWING, PAPER

PAPER_ATTACKER = "paper's attacker"
KNOWING_ATTACKER = "attacker who knows the defense"
BLIND_ATTACKER = "paper's attack without its own transforms"
ATTACKERS = {PAPER: PAPER_ATTACKER, BLIND: BLIND_ATTACKER, KNOWING: KNOWING_ATTACKER}
"""The attackers of a result table, by the name that stands in its column."""
