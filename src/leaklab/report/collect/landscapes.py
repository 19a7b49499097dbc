"""Result rows of landscapes: the loss and the distances at every point, as series; ``index`` numbers the points.

The adaptive attacker's landscape is that of the loss with his transform, around the latent that he finds with it; its
rows carry ``attacker = adaptive`` and name the transform.
"""

from collections.abc import Iterator, Sequence

from leaklab.records.errors import UserError
from leaklab.records.expand import PlannedRun
from leaklab.records.files import read_json, read_table
from leaklab.records.ids import run_folder, run_id
from leaklab.records.landscape_spec import LandscapeSpec
from leaklab.report.collect.source import Source
from leaklab.report.numbers.results import ADAPTIVE, AS_PRINTED, INDEX, ResultRow, canonical

TRANSFORM = "transform"


def landscape_rows(source: Source, runs: Sequence[PlannedRun]) -> Iterator[ResultRow]:
    """Yield one row per point and quantity, then one without a value per metric that could not be computed.

    Raises:
        UserError: two runs would share a cell.
    """
    seen: set[tuple[str, str]] = set()
    for run in runs:
        attacker = ADAPTIVE if run.adaptive else AS_PRINTED
        keys = source.row(run)
        place = (canonical(keys), attacker)
        if place in seen:
            raise UserError(
                f"config/items/{source.item.key}.yaml: runs.{run.block}: a landscape has one paper's and one adaptive "
                f"attacker, and {place[0]} has two of one kind: choose one transform"
            )
        seen.add(place)
        yield from _rows(source, run, keys, attacker)


def _rows(source: Source, run: PlannedRun, keys: dict[str, object], attacker: str) -> Iterator[ResultRow]:
    spec = run.spec
    assert isinstance(spec, LandscapeSpec)
    row = {**keys, TRANSFORM: spec.attack.transform.name} if attacker == ADAPTIVE else keys
    shared = {"attacker": attacker, "variant": run.variant, "substitutes": source.substitutes(spec),
              "runs": (run_id(spec),)}  # fmt: skip
    for metric, values in read_table(run_folder(spec) / "landscape.csv").items():
        for index, value in enumerate(values):
            name = source.shown_as(run, str(metric))
            yield source.number(name, row={**row, INDEX: index}, value=float(value), n=1, **shared)
    for metric, reason in read_json(run_folder(spec) / "cards.json")["not_available"].items():
        name = source.shown_as(run, metric)
        yield source.number(name, row=row, value=None, n=0, note=f"not available: {reason}", **shared)
