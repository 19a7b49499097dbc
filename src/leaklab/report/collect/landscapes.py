"""Result rows of landscapes: the loss and the distance at every point, and per image what the points say.

Points are series; ``index`` numbers them, and ``alpha`` (``beta``) say where they lie. Of a plane only the typical
image has points. The other numbers are one per image, and their median over the images:

* ``rho_<distance>``: Spearman's rank correlation of loss and distance over all points;
* ``lowest_loss``, ``highest_loss``, and ``lowest_loss_offset``: how far the point of the lowest loss lies from the
  attack's latent, in lengths of the line;
* ``<distance>_at_lowest_loss``: share of the points whose distance is smaller than that where the loss is lowest;
* ``loss_shape``, ``<distance>_shape``: Spearman's rank correlation with that of the same image without defense.

Each attacker's landscape is that of the loss that he minimises, with his transform, around the latent that he finds
with it; those who know the defense name their attack under ``by``. Those of planted images carry ``selection =
planted``.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from leaklab.items.expand import PlannedRun
from leaklab.metrics.statistics import spearman, summarise
from leaklab.records.errors import UserError
from leaklab.records.files import read_json, read_table
from leaklab.records.record import canonical_json
from leaklab.report.collect.attempts import attack_name
from leaklab.report.collect.source import Source
from leaklab.report.numbers.results import BY, INDEX, KNOWING, ResultRow, canonical
from leaklab.report.numbers.words import typical, unavailable
from leaklab.specs.attack import LandscapeSpec
from leaklab.specs.base import run_folder, run_id

SELECTION, PLANTED = "selection", "planted"
IMAGE, ALPHA, BETA, RHO = "image", "alpha", "beta", "rho_"
AT_LOWEST = "_at_lowest_loss"
# columns of landscape.csv; the module that computes them brings torch
LOSS, PROFILED = "matching_loss", "profiled_loss"
UNDEFENDED = "none"


def landscape_rows(source: Source, runs: Sequence[PlannedRun]) -> Iterator[ResultRow]:
    """Yield the points, the numbers per image and their medians, then a row per metric that could not be computed.

    Raises:
        UserError: two runs would share a cell.
    """
    tables = {run_id(spec): read_table(run_folder(spec) / "landscape.csv") for spec in map(_spec, runs)}
    plain = {_private(spec): tables[run_id(spec)] for spec in map(_spec, runs) if _is_plain(spec)}
    seen: set[tuple[str, str]] = set()
    for run in runs:
        keys = _keys(source, run)
        place = (canonical(keys), run.attacker)
        if place in seen:
            raise UserError(
                f"config/items/{source.item.key}.yaml: runs.{run.block}: a landscape has one run per attacker, and "
                f"{place[0]} has two of '{run.attacker}': choose one transform"
            )
        seen.add(place)
        yield from _rows(source, run, keys, tables[run_id(_spec(run))], plain.get(_private(_spec(run))))


def _rows(
    source: Source, run: PlannedRun, keys: Mapping[str, Any], table: pd.DataFrame, plain: pd.DataFrame | None
) -> Iterator[ResultRow]:
    spec = _spec(run)
    row = {**keys, BY: attack_name(run)} if run.attacker == KNOWING else dict(keys)
    shared = {"attacker": run.attacker, "variant": run.variant,
              "substitutes": source.substitutes(spec), "runs": (run_id(spec),)}  # fmt: skip
    measured = [str(name) for name in table.columns if name not in (IMAGE, ALPHA, BETA, PROFILED)]
    shown_as = {name: source.shown_as(run, name) for name in measured}
    tables = {image: table[table[IMAGE] == image] for image in table[IMAGE].unique().tolist()}
    found = {image: _of_image(own, shown_as, image, plain) for image, own in tables.items()}
    yield from _points(source, row, shared, shown_as, tables, found)
    for metric in next(iter(found.values())):
        values = {image: own[metric] for image, own in found.items()}
        for image, value in values.items():
            yield source.number(metric, row={**row, IMAGE: image}, value=value, n=1, clusters=1, **shared)
        summary = summarise(list(values.values()))
        yield source.number(
            f"{metric}_median",
            row=row,
            value=summary.median,
            std=summary.std,
            n=summary.n,
            clusters=summary.clusters,
            ci_low=summary.median_low,
            ci_high=summary.median_high,
            **shared,
        )
    for metric, reason in unavailable(read_json(run_folder(spec) / "cards.json")).items():
        name = source.shown_as(run, metric)
        yield source.number(name, row=row, value=None, n=0, clusters=0, note=f"not available: {reason}", **shared)


def _points(
    source: Source,
    row: Mapping[str, Any],
    shared: Mapping[str, Any],
    shown_as: Mapping[str, str],
    tables: Mapping[int, pd.DataFrame],
    found: Mapping[int, Mapping[str, float]],
) -> Iterator[ResultRow]:
    """Yield the loss and the distance that is shown at every point."""
    layout = source.item.landscape
    distance = next((name for name in (layout.distance if layout else ()) if name in shown_as.values()), "")
    series = {name: shown for name, shown in shown_as.items() if shown in (LOSS, distance)}
    columns = next(iter(tables.values())).columns
    if layout and layout.profiled and PROFILED in columns:
        series[PROFILED] = PROFILED
    images = list(tables)
    if BETA in columns and distance:
        images = [typical({image: own[RHO + distance] for image, own in found.items()})]
    for image in images:
        points = tables[image].to_dict("records")
        for name, shown in series.items():
            for index, point in enumerate(points):
                where = {name: round(point[name], 9) for name in (ALPHA, BETA) if name in point}
                place = {**row, IMAGE: image, INDEX: index, **where}
                yield source.number(shown, row=place, value=float(point[name]), n=1, clusters=1, **shared)


def _of_image(
    own: pd.DataFrame, shown_as: Mapping[str, str], image: int, plain: pd.DataFrame | None
) -> dict[str, float]:
    """Return the numbers of one image."""
    loss = own[LOSS].to_list()
    lowest = int(np.argmin(loss))
    distances = {shown: own[name] for name, shown in shown_as.items() if name != LOSS}
    found = {RHO + shown: _correlation(loss, values.to_list()) for shown, values in distances.items()}
    found |= {"lowest_loss": min(loss), "highest_loss": max(loss)}
    found |= {
        f"{shown}{AT_LOWEST}": float((values < values.iloc[lowest]).mean()) for shown, values in distances.items()
    }
    if BETA not in own:
        found["lowest_loss_offset"] = abs(float(own[ALPHA].iloc[lowest]))
    if plain is not None:
        same = plain[plain[IMAGE] == image]
        shapes = {"loss": LOSS, **{shown: name for name, shown in shown_as.items() if name != LOSS}}
        found |= {
            f"{shown}_shape": _correlation(own[name].to_list(), same[name].to_list())
            for shown, name in shapes.items()
            if name in same
        }
    return found


def _correlation(first: list[float], second: list[float]) -> float:
    """Return Spearman's rank correlation; 0 where a series is constant and so follows nothing."""
    return spearman(first, second) if len(set(first)) > 1 and len(set(second)) > 1 else 0.0


def _keys(source: Source, run: PlannedRun) -> dict[str, Any]:
    return {**source.row(run), **({SELECTION: PLANTED} if _is_planted(_spec(run)) else {})}


def _is_planted(spec: LandscapeSpec) -> bool:
    return spec.attack.capture.images.planted is not None


def _is_plain(spec: LandscapeSpec) -> bool:
    """Return whether neither the client nor the attacker does anything beyond the plain exchange."""
    return spec.attack.capture.defense.name == UNDEFENDED and spec.attack.transform.name == UNDEFENDED


def _private(spec: LandscapeSpec) -> str:
    """Return what landscapes of the same private images share."""
    return canonical_json(spec.projection)


def _spec(run: PlannedRun) -> LandscapeSpec:
    assert isinstance(run.spec, LandscapeSpec)
    return run.spec
