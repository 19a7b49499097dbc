"""Result rows of clients' embeddings: where they lie in the plane, and whether groups of classes lie together."""

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from leaklab.data.partitions.groups import GROUPS, ClassGroups
from leaklab.items.expand import PlannedRun
from leaklab.metrics.statistics import summarise
from leaklab.records import linear_algebra, plugins
from leaklab.records.draws import draws
from leaklab.records.errors import UserError
from leaklab.records.files import read_tensors
from leaklab.report.collect.source import Source
from leaklab.report.numbers.results import ResultRow
from leaklab.specs.base import run_folder, run_id
from leaklab.specs.training import TrainSpec

Floats = NDArray[np.float64]
DEALS, ROUNDING = 999, 1e-12
LISTED = 4
"""Classes that a group's name lists; of more, the first and the last."""


def embedding_rows(source: Source, run: PlannedRun, name: str) -> Iterator[ResultRow]:
    """Yield the numbers of what clients keep under ``name`` at the end of a training.

    ``embedding_x`` and ``embedding_y`` by client and group of classes: the two main directions over the clients of the
    first replicate. ``cosine_within`` and ``cosine_between``, over all replicates: the mean cosine distance of clients
    of one group, and of different ones. ``grouping_chance``: how often groups that are drawn anew lie at least as near
    together as the true ones, in the first replicate; near 1 / 1000 the groups are told apart, near 1 / 2 they are not.

    Raises:
        UserError: clients keep no such thing, or the deal has no groups of classes.
    """
    assert isinstance(run.spec, TrainSpec)
    kept = read_tensors(run_folder(run.spec) / "weights.safetensors").get(f"clients/{name}")
    if kept is None:
        raise UserError(f"config/items/{source.item.key}.yaml: cells.embedding: clients of these runs keep no '{name}'")
    replicates: Floats = kept.double().flatten(2).numpy()
    groups = _groups(source, run.spec, replicates.shape[1])
    shared = {"variant": run.variant, "substitutes": source.substitutes(run.spec), "runs": (run_id(run.spec),)}
    for client, point in enumerate(plane(replicates[0])):
        row = {**source.row(run), "client": client, "group": groups[client]}
        for metric, value in zip(("embedding_x", "embedding_y"), point.tolist(), strict=True):
            yield source.number(metric, row=row, value=value, n=1, clusters=1, **shared)
    pairs = [distances(embeddings, groups) for embeddings in replicates]
    for metric, values in zip(("cosine_within", "cosine_between"), zip(*pairs, strict=True), strict=True):
        summary = summarise(values)
        yield source.number(
            metric, row=source.row(run), value=summary.mean, std=summary.std, n=summary.n, clusters=summary.n, **shared
        )
    found = chance(replicates[0], groups)
    yield source.number("grouping_chance", row=source.row(run), value=found, n=1, clusters=1, **shared)


def plane(embeddings: Floats) -> Floats:
    """Return the points [N, 2] of centered embeddings [N, V] along their two main directions.

    Directions have no sign of their own: that of the largest number is made positive.
    """
    centered = embeddings - embeddings.mean(0)
    scores, sizes, _ = linear_algebra.svd(centered)
    points = np.zeros((len(embeddings), 2))
    found = (scores * sizes)[:, :2]
    points[:, : found.shape[1]] = found * np.sign(found[np.abs(found).argmax(0), range(found.shape[1])])
    return points


def distances(embeddings: Floats, groups: list[str]) -> tuple[float, float]:
    """Return the mean cosine distances (1 - cosine) over pairs within a group, and over pairs of different groups.

    Raises:
        UserError: there are no pairs of one kind.
    """
    unit = embeddings / np.linalg.norm(embeddings, axis=1, keepdims=True)
    first, second = np.triu_indices(len(unit), 1)
    apart = 1 - (unit[first] * unit[second]).sum(1)
    same = np.array(groups)[first] == np.array(groups)[second]
    if same.all() or not same.any():
        raise UserError("embeddings: clients of one group and of several are needed: deal to more clients")
    return float(apart[same].mean()), float(apart[~same].mean())


def chance(embeddings: Floats, groups: list[str]) -> float:
    """Return the share of random deals of the groups to the clients with as large a gap as the true one, or larger.

    The gap is the mean distance between groups less that within; the true deal counts as one of the random ones.
    """

    def gap(order: Sequence[int]) -> float:
        within, between = distances(embeddings, [groups[place] for place in order])
        return between - within

    source, true = draws(0, "deals of groups"), gap(range(len(groups)))
    # a deal that only renames the groups has the same gap up to rounding
    as_large = sum(gap(source.permutation(len(groups)).tolist()) >= true - ROUNDING for _ in range(DEALS))
    return (1 + as_large) / (1 + DEALS)


def _groups(source: Source, spec: TrainSpec, clients: int) -> list[str]:
    deal = plugins.load("data/partitions", spec.partition.name, spec.partition.settings)
    if not isinstance(deal, ClassGroups):
        raise UserError(
            f"config/items/{source.item.key}.yaml: cells.embedding: partition '{spec.partition.name}' has no groups of "
            "classes: use class-groups"
        )
    groups = GROUPS[deal.groups]
    return [_named(groups[client % len(groups)]) for client in range(clients)]


def _named(group: Sequence[int]) -> str:
    return ", ".join(map(str, group)) if len(group) <= LISTED else f"{group[0]} to {group[-1]}"
