"""The metric cards of an item, from the records of its scores."""

from collections.abc import Sequence
from pathlib import Path

from leaklab.records.files import read_json
from leaklab.records.ledger import Entry
from leaklab.report.numbers.unavailable import unavailable
from leaklab.report.site.publication import MetricCard

ACCURACY = MetricCard(
    "test_accuracy",
    {
        "domain": "global model after the last round, official test part, in percent",
        "averaging": "mean over seeds; spread is the sample standard deviation (n - 1), and from six seeds on there is "
        "Student's 95 % interval",
        "diverged": "replicates whose loss is no longer finite are counted under diverged_runs and left out",
    },
)


def cards_of(entries: Sequence[Entry], root: Path = Path()) -> tuple[MetricCard, ...]:
    """Return each card once; metrics that could not be computed say why.

    Args:
        entries: the jobs' records.
        root: folder below which their files lie.
    """
    cards: dict[str, MetricCard] = {}
    for entry in entries:
        if entry.rule == "train_federated":
            cards[ACCURACY.metric] = ACCURACY
        for path in entry.outputs if entry.rule in ("score_attack", "score_text", "map_landscape") else ():
            if Path(path).name == "cards.json":
                cards |= _from_file(root / path)
    return tuple(cards.values())


def _from_file(path: Path) -> dict[str, MetricCard]:
    content = read_json(path)
    found = {
        name: MetricCard(
            name, {key: str(value) for key, value in facts.items() if key != "name" and value not in ("", None)}
        )
        for name, facts in content["metrics"].items()
    }
    absent = {name: MetricCard(name, {"not available": why}) for name, why in unavailable(content).items()}
    return {**found, **absent}
