"""How close readings come to the truth, which the auditor holds, beside the best guess of who saw no update.

A guess is the best of three of each sample: the mean of the public samples, the mean of those of its class, and the one
number that fits it best. The last one stands for any blank picture, so that nobody is said to read who returns one.
Readings and samples are paired so that the errors add up to least. A sample counts as *read* if a reading of it was
proven and is right, or if one gains more than the bar (``metrics.gains``).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import inf
from statistics import fmean
from typing import Any

import torch
from torch import Tensor

from leaklab.metrics.gains import BARS, Gain, gain, rounded
from leaklab.metrics.pixel import EXACT_DB
from leaklab.probing.case import Case
from leaklab.probing.measure import Measure, measure_of
from leaklab.probing.reading import Reading
from leaklab.probing.seen import layer_rows
from leaklab.records.errors import UserError

EXACT = {"dB": EXACT_DB, "%": 99.99}
"""Score above which a reading is exact."""


@dataclass(frozen=True)
class Attacker:
    """What all readings of one proof or search come to.

    Attributes:
        by: its name.
        scores: of each sample in their order, of the reading that is paired with it; that of the guess where there is
            none. In dB or percent.
        found: how many samples have a reading.
        proven: readings that were proven right without the truth.
        false: those of them that are not exact.
        read: which samples it reads.
        gain: mean over the samples, with an interval that speaks of samples like these and not of other updates.
        paired: the reading of each sample; None where there is none.
    """

    by: str
    scores: tuple[float, ...]
    found: int
    proven: int
    false: int
    read: tuple[bool, ...]
    gain: Gain
    paired: tuple[Reading | None, ...]


@dataclass(frozen=True)
class OfLayer:
    """Readings of what one layer saw.

    Attributes:
        by: name of the proof or search.
        layer: name of the layer.
        readings: how many there are.
        exact: how many of them are what the layer saw of a sample.
        proven: readings that were proven right without the truth.
        false: those of them that are not exact.
    """

    by: str
    layer: str
    readings: int
    exact: int
    proven: int
    false: int


@dataclass(frozen=True)
class Grades:
    """How close readings come to the samples of a case.

    Attributes:
        measure: how samples were compared.
        guessed: the best guess of each sample, [N, ...].
        guesses: its score.
        attackers: those who read samples, in the order of their first reading.
        layers: readings of layers.
    """

    measure: Measure
    guessed: Tensor
    guesses: tuple[float, ...]
    attackers: tuple[Attacker, ...]
    layers: tuple[OfLayer, ...]

    @property
    def read(self) -> tuple[bool, ...]:
        """Which samples any attacker reads."""
        return tuple(any(flags) for flags in zip(*(one.read for one in self.attackers), strict=True)) or tuple(
            False for _ in self.guesses
        )

    @property
    def share(self) -> float:
        """Share of the samples that are read."""
        return fmean(self.read)

    @property
    def exact(self) -> int:
        """Number of samples that any attacker reads exactly."""
        return sum(
            any(one.scores[place] > EXACT[self.measure.sign] for one in self.attackers)
            for place in range(len(self.guesses))
        )

    @property
    def false(self) -> int:
        """Number of readings that were said to be proven and are not exact."""
        return sum(one.false for one in self.attackers) + sum(one.false for one in self.layers)

    def lines(self) -> tuple[str, ...]:
        """Return what came out, in sentences."""
        unit, number = self.measure.sign, len(self.guesses)
        guess = f"the best guess without any update has {rounded(fmean(self.guesses)):g} {unit}"
        said = [
            f"{sum(self.read)} of {number} samples are read: proven and right, or more than {BARS[unit]:g} {unit} "
            f"above the best guess; {self.exact} of them exactly ({self.measure.name}; {guess})."
        ]
        said += [_line(one, unit) for one in self.attackers]
        said += [
            f"{one.by}: {one.exact} of {one.readings} readings of what {one.layer} sees are exact, {one.proven} were "
            f"proven." + (f" {one.false} proofs are false." if one.false else "")
            for one in self.layers
        ]
        return tuple(said)

    def record(self) -> dict[str, Any]:
        """Return the same as JSON-able data."""
        return {
            "measure": self.measure.name,
            "unit": self.measure.sign,
            "bar": BARS[self.measure.sign],
            "samples": len(self.guesses),
            "read": sum(self.read),
            "exact": self.exact,
            "false": self.false,
            "guesses": [rounded(one) for one in self.guesses],
            "attackers": [_record(one) for one in self.attackers],
            "layers": [dict(vars(one)) for one in self.layers],
        }


def graded(case: Case, readings: Sequence[Reading]) -> Grades:
    """Return how close readings come to the samples of a case.

    Where somebody gives more readings than there are samples, those that are proven come first, then those of the
    smallest loss: nobody is helped by the truth to choose.

    Raises:
        UserError: the case has no samples, or a reading has not the shape of one.
    """
    if case.inputs is None or not len(case.inputs):
        raise UserError("nothing can be graded without the private samples: give the case its inputs")
    measure = measure_of(case.inputs, None if case.public is None else case.public[0])
    guessed, guesses = best_guesses(case, measure)
    of_samples = [one for one in readings if one.of == "input"]
    for one in of_samples:
        if one.values.numel() != case.inputs[0].numel():
            raise UserError(
                f"a reading by {one.by} has shape {list(one.values.shape)}, a sample {list(case.inputs.shape[1:])}: "
                "say of which layer it is, or give it the shape of a sample"
            )
    names = dict.fromkeys(one.by for one in of_samples)
    own = [[one for one in of_samples if one.by == by] for by in names]
    attackers = tuple(_attacker(case.inputs, some, measure, guesses, len(names)) for some in own)
    return Grades(measure, guessed, tuple(guesses), attackers, _of_layers(case, readings))


def share_read(find: Callable[[Case], Sequence[Reading]]) -> Callable[[Case], float]:
    """Return the share of a case's samples that an attack reads, as a function: what ``stopping`` turns knobs of."""
    return lambda case: graded(case, find(case)).share


def best_guesses(case: Case, measure: Measure) -> tuple[Tensor, list[float]]:
    """Return the best guess of each sample of a case, [N, ...], and its score; see above."""
    assert case.inputs is not None
    inputs = case.inputs.detach().to("cpu")
    guesses = [_constant(inputs, measure)]
    if case.public is not None and len(case.public[0]):
        public, labels = (one.detach().to("cpu") for one in case.public)
        guesses.append(_typical(public, measure).expand_as(inputs))
        targets = None if case.targets is None else case.targets.detach().to("cpu")
        if targets is not None and targets.dim() == 1 and not targets.is_floating_point():
            own = [public[labels == label] if labels.dim() == 1 else public[:0] for label in targets]
            guesses.append(torch.stack([_typical(one if len(one) else public, measure) for one in own]))
    scores = [torch.stack([_pair(guess, inputs, measure, row) for row in range(len(inputs))]) for guess in guesses]
    best = torch.stack(scores).max(0)
    shown = [guesses[number][row] for row, number in enumerate(best.indices.tolist())]
    return torch.stack([one.to(inputs.dtype) for one in shown]), [float(one) for one in best.values]


def _pair(found: Tensor, truth: Tensor, measure: Measure, row: int) -> Tensor:
    return measure.scores(measure.errors(found[row : row + 1], truth[row : row + 1]))[0, 0]


def _typical(samples: Tensor, measure: Measure) -> Tensor:
    """Return the mean of samples [N, ...]; of tokens the most frequent one of each position."""
    return samples.mode(0).values if measure.kind == "tokens" else samples.double().mean(0)


def _constant(inputs: Tensor, measure: Measure) -> Tensor:
    """Return samples of one number each, in each channel of a picture, that fits best."""
    flat = inputs.flatten(1)
    if measure.kind == "tokens":
        return flat.mode(1).values[:, None].expand_as(flat).view_as(inputs)
    flat = inputs.double().flatten(2) if inputs.dim() > 3 else flat.double()
    return flat.mean(-1, keepdim=True).expand_as(flat).reshape(inputs.shape)


def _attacker(
    inputs: Tensor, readings: Sequence[Reading], measure: Measure, guesses: Sequence[float], tried: int
) -> Attacker:
    from scipy.optimize import linear_sum_assignment  # slow to import

    first = sorted(readings, key=lambda one: (not one.proven, inf if one.loss is None else one.loss))
    kept = [*[one for one in first if one.proven], *[one for one in first if not one.proven][: len(inputs)]]
    found = torch.stack([one.values.reshape(inputs.shape[1:]) for one in kept])
    errors = measure.errors(found, inputs)
    every, exact = measure.scores(errors), EXACT[measure.sign]
    scores, read = list(guesses), [False] * len(guesses)
    paired: list[Reading | None] = [None] * len(guesses)
    pairs = list(zip(*(side.tolist() for side in linear_sum_assignment(errors.numpy())), strict=True))
    for row, column in pairs:
        scores[row], paired[row] = float(every[row, column]), kept[column]
        right = kept[column].proven and scores[row] > exact
        read[row] = right or scores[row] - guesses[row] > BARS[measure.sign]
    proven = torch.tensor([one.proven for one in kept])
    false = int((proven & (every.amax(0) <= exact)).sum())
    own = gain(scores, guesses, tried, measure.sign)
    return Attacker(kept[0].by, tuple(scores), len(pairs), int(proven.sum()), false, tuple(read), own, tuple(paired))


def _of_layers(case: Case, readings: Sequence[Reading]) -> tuple[OfLayer, ...]:
    keys = dict.fromkeys((one.by, one.of) for one in readings if one.of != "input")
    rows = layer_rows(case, {layer for _, layer in keys}) if keys else {}
    found = []
    for by, layer in keys:
        own = [one for one in readings if (one.by, one.of) == (by, layer)]
        exact = [_is_row(one.values, rows[layer]) for one in own]
        false = sum(one.proven and not right for one, right in zip(own, exact, strict=True))
        found.append(OfLayer(by, layer, len(own), sum(exact), sum(one.proven for one in own), false))
    return tuple(found)


def _is_row(values: Tensor, rows: Sequence[Tensor]) -> bool:
    """Return whether values are those of one of the rows, exactly."""
    flat = values.detach().to("cpu").double().flatten()
    for row in rows:
        if row.numel() == len(flat):
            size = float(row.square().mean()) or 1.0
            if float((row.flatten() - flat).square().mean()) < size * 10 ** (-EXACT_DB / 10):
                return True
    return False


def _line(one: Attacker, unit: str) -> str:
    own = one.gain
    between = "" if own.low is None else f", interval {own.low:g} to {own.high:g}"
    proven = f" {one.proven} readings were proven" + (f", {one.false} of them falsely." if one.false else ".")
    return (
        f"{one.by} reads {sum(one.read)} of {len(one.scores)} samples, {rounded(fmean(one.scores)):g} {unit} on "
        f"average, a gain of {own.mean:g} {unit}{between}." + (proven if one.proven else "")
    )


def _record(one: Attacker) -> dict[str, Any]:
    return {
        "by": one.by,
        "scores": [rounded(score) for score in one.scores],
        "found": one.found,
        "proven": one.proven,
        "false": one.false,
        "read": list(one.read),
        "gain": {"mean": one.gain.mean, "low": one.gain.low, "high": one.gain.high},
    }
