"""The words of the pages for what result tables and specs abbreviate."""

from leaklab.report.numbers.results import ADAPTIVE, AS_PRINTED

PAPER_ATTACKER = "paper's attacker"
KNOWING_ATTACKER = "attacker who knows the defense"
ATTACKERS = {AS_PRINTED: PAPER_ATTACKER, ADAPTIVE: KNOWING_ATTACKER}
"""The attackers of a result table, by the name that stands in its column."""
