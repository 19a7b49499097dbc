"""Result rows of landscapes: the loss and the distances at every point, as series; ``index`` numbers the points.

Each attacker's landscape is that of the loss that he minimises, with his transform, around the latent that he finds
with it; those who know the defense name their attack under ``by``.
"""

from collections.abc import Iterator, Sequence

from leaklab.records.errors import UserError
from leaklab.records.expand import PlannedRun
from leaklab.records.files import read_json, read_table
from leaklab.records.ids import run_folder, run_id
from leaklab.records.landscape_spec import LandscapeSpec
from leaklab.report.collect.attempts import attack_name
from leaklab.report.collect.source import Source
from leaklab.report.numbers.results import BY, INDEX, KNOWING, ResultRow, canonical


def landscape_rows(source: Source, runs: Sequence[PlannedRun]) -> Iterator[ResultRow]:
    """Yield one row per point and quantity, then one without a value per metric that could not be computed.

    Raises:
        UserError: two runs would share a cell.
    """
    seen: set[tuple[str, str]] = set()
    for run in runs:
        keys = source.row(run)
        place = (canonical(keys), run.attacker)
        if place in seen:
            raise UserError(
                f"config/items/{source.item.key}.yaml: runs.{run.block}: a landscape has one run per attacker, and "
                f"{place[0]} has two of '{run.attacker}': choose one transform"
            )
        seen.add(place)
        yield from _rows(source, run, keys)


def _rows(source: Source, run: PlannedRun, keys: dict[str, object]) -> Iterator[ResultRow]:
    spec = run.spec
    assert isinstance(spec, LandscapeSpec)
    row = {**keys, BY: attack_name(run)} if run.attacker == KNOWING else keys
    shared = {"attacker": run.attacker, "variant": run.variant, "substitutes": source.substitutes(spec),
              "runs": (run_id(spec),)}  # fmt: skip
    for metric, values in read_table(run_folder(spec) / "landscape.csv").items():
        for index, value in enumerate(values):
            name = source.shown_as(run, str(metric))
            yield source.number(name, row={**row, INDEX: index}, value=float(value), n=1, clusters=1, **shared)
    for metric, reason in read_json(run_folder(spec) / "cards.json")["not_available"].items():
        name = source.shown_as(run, metric)
        yield source.number(name, row=row, value=None, n=0, clusters=0, note=f"not available: {reason}", **shared)
