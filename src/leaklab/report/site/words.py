"""The words of the pages for what result tables and specs abbreviate."""

import re

from leaklab.report.numbers.results import ADAPTIVE, AS_PRINTED

PAPER_ATTACKER = "paper's attacker"
KNOWING_ATTACKER = "attacker who knows the defense"
ATTACKERS = {AS_PRINTED: PAPER_ATTACKER, ADAPTIVE: KNOWING_ATTACKER}
"""The attackers of a result table, by the name that stands in its column."""
NO_DOWNLOAD = re.compile(
    r"(?:not available: )?https?://\S*/([\w.-]+) cannot be downloaded \(.*?\): put it into \S+ by hand or set \w+"
)


def for_readers(text: str) -> str:
    """Return a reason without what is of use only where it arose: an address, an error, what to do there."""
    return NO_DOWNLOAD.sub(r"not available: the weights \1 could not be had where this was made", text)
