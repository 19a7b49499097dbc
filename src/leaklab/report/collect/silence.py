"""How many updates of an attack say nothing of their samples, and why, in words."""

from collections import Counter

from leaklab.records.files import read_json
from leaklab.records.ids import run_folder
from leaklab.report.collect.attempts import Attempt
from leaklab.report.collect.updates import NO_INFORMATION


def noted(attempt: Attempt) -> tuple[int, str]:
    """Return how many updates an attack had in all its runs, and a sentence on those of them that say nothing."""
    specs = [run.spec for run in (attempt.run, *attempt.others) if run.spec is not None]
    cards = [read_json(run_folder(spec) / "cards.json") for spec in specs]
    count, silent = sum(card["trials"] for card in cards), attempt.updates.silent
    reasons: Counter[str] = Counter()
    for card in cards:
        reasons.update(card.get(NO_INFORMATION, {}))
    several = len(reasons) > 1
    why = ", ".join(f"{reason} ({number})" if several else reason for reason, number in reasons.most_common())
    says = "says nothing of its samples" if silent == 1 else "say nothing of their samples"
    return count, f"{silent} of {count} update{'' if count == 1 else 's'} {says}: {why}"
