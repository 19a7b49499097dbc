"""Bounds: what an exchange can tell at most, tensor by tensor, and what it tells at first sight; nothing is searched.

A matrix [a, b] of rank r holds r (a + b - r) numbers: no more equations of a batch can come of it. Of an affine layer
that sees each sample at P places, each sample adds at most P to the rank, so the rank counts samples from below.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from leaklab.probing.algebra.applications import Application, watched
from leaklab.probing.algebra.batch_statistics import BatchStatistics, batch_statistics
from leaklab.probing.algebra.output_labels import OutputLabels, output_labels
from leaklab.probing.algebra.rehearsal import FAILURES, SAMPLES, Rehearsal, rehearse
from leaklab.probing.algebra.rounding import SKETCH, Rank, as_matrix, floor, rank
from leaklab.probing.case import Case
from leaklab.records import tensor_algebra
from leaklab.records.errors import UserError

NAMED = 6
"""Tensors that one line names at most."""


@dataclass(frozen=True)
class TensorBound:
    """What one tensor can tell.

    Attributes:
        name: of the parameter.
        shape: its shape.
        state: ``sent``, ``zero`` (nothing above rounding), ``missing`` (trained and not sent).
        rank: of its matrix.
        equations: how many numbers it holds at most.
    """

    name: str
    shape: tuple[int, ...]
    state: str
    rank: Rank
    equations: int


@dataclass(frozen=True)
class Counted:
    """Samples counted from below, by the rank of a tensor whose layer sees each of them at ``places`` places."""

    least: int
    by: str
    places: int


@dataclass(frozen=True, eq=False)
class Bounds:
    """What an exchange can tell at most, and what it tells at first sight.

    Attributes:
        tensors: every trained parameter.
        unknowns: numbers of one sample; None where nobody holds one.
        samples: how many the client says that it used; None where nobody says.
        counted: the best count of samples by rank; None for none.
        labels: what the last layer says of them; None for nothing.
        statistics: of batches, exact.
        unread: why something was not looked at, one line each.
    """

    tensors: tuple[TensorBound, ...]
    unknowns: int | None
    samples: int | None
    counted: Counted | None
    labels: OutputLabels | None
    statistics: tuple[BatchStatistics, ...]
    unread: tuple[str, ...] = field(default=())

    @property
    def equations(self) -> int:
        """Return the equations of all tensors together, an upper bound on those that differ."""
        return sum(one.equations for one in self.tensors)

    def lines(self) -> tuple[str, ...]:
        """Return what there is to say, a sentence each."""
        return (*self._equations(), *self._silent(), *self._count(), *self._labels(), *self._statistics(), *self.unread)

    def _equations(self) -> list[str]:
        said = f"What was sent holds at most {self.equations:,} equations"
        if self.unknowns is None:
            return [f"{said}; nobody holds a sample, so the unknowns are not counted."]
        if self.samples is None:
            return [f"{said}; each sample has {self.unknowns:,} unknowns."]
        unknowns = self.samples * self.unknowns
        last = (
            "they cannot determine the batch without knowing what samples look like."
            if self.equations < unknowns
            else "their number does not protect the batch."
        )
        whose = "the sample has" if self.samples == 1 else f"the {self.samples} samples have"
        return [f"{said}, {whose} {unknowns:,} unknowns: {last}"]

    def _silent(self) -> list[str]:
        reasons = {
            "zero": "show nothing, as all of their update is zero or rounding",
            "missing": "show nothing, as they are trained and not sent",
        }
        found = []
        for state, reason in reasons.items():
            names = [one.name for one in self.tensors if one.state == state]
            if names:
                found.append(f"{_names(names)} {reason}.")
        return found

    def _count(self) -> list[str]:
        if self.counted is None:
            return []
        places = "" if self.counted.places == 1 else f", which sees a sample at {self.counted.places} places,"
        noun = "sample" if self.counted.least == 1 else "samples"
        return [f"The rank of {self.counted.by}{places} says that there are at least {self.counted.least} {noun}."]

    def _labels(self) -> list[str]:
        if self.labels is None:
            return []
        found = []
        if self.labels.present:
            listed = ", ".join(str(one) for one in self.labels.present)
            found.append(f"{self.labels.by} proves that the batch has samples of these classes: {listed}.")
        if self.labels.counts is not None:
            counts = ", ".join(f"{number} of class {one}" for one, number in self.labels.counts.items())
            found.append(f"By {self.labels.by} the labels are most likely these, which is not proven: {counts}.")
        return found

    def _statistics(self) -> list[str]:
        if not self.statistics:
            return []
        names = _names([one.layer for one in self.statistics])
        return [f"The running statistics of {names} give the exact mean and variance of what they saw of the batch."]

    def record(self) -> dict[str, Any]:
        """Return all of it for JSON."""
        labels = self.labels
        return {
            "equations": self.equations,
            "unknowns_per_sample": self.unknowns,
            "samples": self.samples,
            "samples_at_least": None if self.counted is None else vars(self.counted),
            "labels": None
            if labels is None
            else {
                "by": labels.by,
                "present": list(labels.present),
                "counts": None if labels.counts is None else {str(key): one for key, one in labels.counts.items()},
            },
            "tensors": [
                {
                    "name": one.name,
                    "shape": list(one.shape),
                    "state": one.state,
                    "rank": one.rank.value,
                    "rank_is_lower_bound": one.rank.capped,
                    "equations": one.equations,
                }
                for one in self.tensors
            ],
            "statistics": [
                {"layer": one.layer, "mean": one.mean.tolist(), "variance": one.variance.tolist()}
                for one in self.statistics
            ],
            "unread": list(self.unread),
        }


def _names(names: Sequence[str]) -> str:
    """Return some names in one phrase."""
    shown = ", ".join(names[:NAMED])
    return shown if len(names) <= NAMED else f"{shown} and {len(names) - NAMED} more"


def bounds(case: Case, rehearsal: Rehearsal | None = None) -> Bounds:
    """Return what an exchange can tell at most.

    Args:
        case: the exchange, with a sample held by somebody where samples and labels are to be counted.
        rehearsal: of its client, where there is one already.
    """
    held = case.inputs if case.inputs is not None else case.public[0] if case.public is not None else None
    samples = case.told()
    counted, labels, unread = None, None, list[str]()
    try:
        rehearsal = rehearsal or rehearse(case)
    except FAILURES as failed:
        unread.append(f"The client was not rehearsed: {failed}")
    tensors = tuple(_tensor(case, name, rehearsal) for name in case.client.trained())
    try:
        if rehearsal is not None:
            counted = _counted(case, rehearsal, {one.name: one for one in tensors})
            labels = output_labels(case, rehearsal, samples)
    except FAILURES as failed:
        unread.append(f"Samples and labels are not counted: {failed}")
    return Bounds(
        tensors,
        None if held is None else held[0].numel(),
        samples,
        counted,
        labels,
        batch_statistics(case),
        tuple(unread),
    )


def _tensor(case: Case, name: str, rehearsal: Rehearsal | None) -> TensorBound:
    """Return the bound of one parameter.

    Raises:
        UserError: it is sent in another shape than it has.
    """
    if name not in case.exchange.sent:
        return TensorBound(name, tuple(case.exchange.before[name].shape), "missing", Rank(0), 0)
    sent, before = case.exchange.direction(name), case.exchange.before[name]
    shape = tuple(sent.shape)
    if shape != tuple(before.shape):
        raise UserError(f"'{name}' was sent with shape {shape} and given with {tuple(before.shape)}: send it as it is")
    error = floor(case, name)
    if rehearsal is not None:
        sent = rehearsal.plain(case.exchange, name)
    matrix = as_matrix(sent)
    if not bool((sent.abs() > 2 * error).any()):
        return TensorBound(name, shape, "zero", Rank(0), 0)
    if sent.dim() < 2:
        number = int((sent.abs() > error).sum())
        return TensorBound(name, shape, "sent", Rank(1), number)
    found = rank(matrix, error)
    rows, columns = int(matrix.any(1).sum()), int(matrix.any(0).sum())
    number = min(rows, columns) if found.capped else min(found.value, rows, columns)
    return TensorBound(name, shape, "sent", found, number * (rows + columns - number))


def _counted(case: Case, rehearsal: Rehearsal, tensors: dict[str, TensorBound]) -> Counted | None:
    """Return the largest number of samples that a rank proves; None where no layer counts them."""
    client = rehearsal.client
    seen, _ = watched(lambda model: client.output(model, rehearsal.inputs), rehearsal.model(), seed=client.seed)
    best: Counted | None = None
    names = [one.name for one in seen]
    for one in seen:
        bound = tensors.get(one.name)
        if bound is None or bound.state != "sent" or names.count(one.name) > 1 or one.name not in rehearsal.sent.sent:
            continue
        places = _places(one)
        if places is None or not _adds_up(one, places, rehearsal):
            continue
        least = -(-bound.rank.value // places)
        if best is None or least > best.least:
            best = Counted(least, one.name, places)
    return best


def _places(one: Application) -> int | None:
    """Return at how many places of a sample an application is; None where it is none of rows."""
    if one.kind not in ("product", "convolution") or one.given.numel() % SAMPLES or one.given.shape[0] % SAMPLES:
        return None
    return int(one.rows(SAMPLES).shape[1])


def _adds_up(one: Application, places: int, rehearsal: Rehearsal) -> bool:
    """Return whether the client's own round on noise gave no higher rank than its samples have places."""
    sent = one.upright(rehearsal.sent.direction(one.name))
    if one.name not in rehearsal.factors and min(sent.shape) <= SAMPLES * places:
        return False  # nothing that the experiment could show
    if one.name in rehearsal.factors:
        return True
    found = tensor_algebra.singular_values(sent) if min(sent.shape) <= SKETCH else None
    above = rehearsal.tolerance**2
    return found is not None and int((found > above * found[0]).sum()) <= SAMPLES * places
