"""The words of the pages for what result tables and specs abbreviate."""

from collections.abc import Collection, Mapping

from leaklab.report.numbers.results import BLIND, KNOWING, PAPER

PAPER_ATTACKER = "paper's attacker"
KNOWING_ATTACKER = "attacker who knows the defense"
BLIND_ATTACKER = "paper's attack without its own transforms"
ATTACKERS = {PAPER: PAPER_ATTACKER, BLIND: BLIND_ATTACKER, KNOWING: KNOWING_ATTACKER}
"""The attackers of a result table, by the name that stands in its column."""
STRONGEST_ATTACKER = "strongest attacker tried"
"""Its name where nobody among those who were tried was made for the defense."""


def attackers_of(strangers: Collection[str]) -> Mapping[str, str]:
    """Return the attackers' names on a page; ``strangers`` are its defenses for which no attack was made."""
    return {**ATTACKERS, KNOWING: STRONGEST_ATTACKER} if strangers else ATTACKERS


def nobody_knows(defense: str) -> str:
    """Return the sentence about a defense for which no attack that was tried was made."""
    return f"No attacker here was made for {defense}: what all of them miss, one who knows it may read."
