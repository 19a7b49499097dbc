"""The inquiry into a description that does not give what was sent."""

from collections.abc import Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import replace
from itertools import chain
from time import thread_time
from typing import Any

import torch
from torch import Tensor

from leaklab.probing.case import Case
from leaklab.probing.grids import grid_of
from leaklab.probing.inputs import relative
from leaklab.probing.replay import marks
from leaklab.probing.replay.bench import REFUSED, Bench, Fit
from leaklab.probing.replay.correction import corrected
from leaklab.probing.replay.losses import class_count, loss_mistakes
from leaklab.probing.replay.mistake import Mistake, Setting
from leaklab.probing.replay.naming import Named, explanation, named_noise, plain_step
from leaklab.probing.replay.result import Explanation, Replay
from leaklab.probing.replay.rows import row_fits
from leaklab.probing.replay.samples import sample_mistakes
from leaklab.probing.replay.search import equals, in_pairs, pairs_of, singles, with_parts
from leaklab.probing.replay.sent import freezing, sent_mistakes, thawing, weight_mistakes
from leaklab.probing.replay.span import whose
from leaklab.probing.replay.target import Target
from leaklab.probing.replay.training import draws, training_mistakes

ON_GRID = 1.3
"""Times a grid's expected error up to which a replay that was not rounded agrees with what was."""
FINE = 1e-7
"""Error at which a fit ends."""
FURTHER = 40
"""Pairs that are tried after one was found, for its equals."""
HELPS = 0.7
"""Share of the description's error below which something unexplained is worth telling."""
RESERVED = 0.1
"""Share of the time that is left for the parts of a pair that the search ended with."""
KINDS = {"weights": "the weights", "delta": "the difference of the weights", "gradient": "the gradient"}


class Inquiry:
    """Looks for what explains an update, first in the update itself, then in mistakes alone, then in pairs."""

    def __init__(
        self,
        case: Case,
        setting: Setting,
        target: Target,
        found: Replay,
        others: Mapping[str, Mapping[str, Tensor]],
        until: float,
    ) -> None:
        self.case, self.setting, self.whole, self.found, self.others = case, setting, target, found, others
        self.until = until
        self.shown: list[Named] = []
        self.frozen: tuple[Setting, str] | None = None
        self.runs = 1

    def run(self) -> Replay:
        """Return what was found with what explains it, or what does not."""
        flat = self._read()
        grid = grid_of({name: self.whole.exchange.sent[name] for name in self.whole.names})
        self.grid, cost = None if grid is None else grid.name, relative(grid, float(self.whole.sent.norm()))
        self.tolerance = max(self.found.tolerance, ON_GRID * cost)
        self.finest = max(self.found.tolerance, cost / 3)
        rows = marks.support(self.whole, flat)
        self.sparse = rows is not None
        every = torch.arange(len(self.whole.sent), device=flat.device)
        now = thread_time()
        searching = now + (1 - RESERVED) * (self.until - now)
        self.bench = Bench(self.setting, self.whole.at(every if rows is None else rows), searching)
        base = self.bench.fit(())
        if base is None:
            return self.found
        explained = self._explain(base)
        return replace(explained, runs=self.bench.runs + self.runs)

    def _read(self) -> Tensor:
        """Take over what the update shows of its kind and of what was trained; return the replay [P]."""
        exchange, names = self.whole.exchange, self.whole.names
        kind = marks.kind_of(exchange, names)
        if kind != exchange.kind:
            self.whole = Target.of(marks.as_kind(exchange, kind), names)
            self.shown.append(("sends", f"{KINDS[kind]} sent where {KINDS[exchange.kind]} is described"))
            self.setting = self.setting.of(sends=kind)
        flat = self._replayed(self.setting)
        trained = self.setting.client.trained()
        thawed = [n for n in names if n not in trained and bool(self.whole.exchange.direction(n).any())]
        still = marks.still(self.whole, flat)
        for mistake in ([thawing(thawed)] if thawed else []) + ([freezing(still)] if still else []):
            if mistake.change is not None and len(still) < len(names):
                self.setting = mistake.change(self.setting, ())
                self.shown.append((mistake.name, mistake.phrase(())))
                flat = self._replayed(self.setting)
        return flat

    def _replayed(self, setting: Setting) -> Tensor:
        self.runs += 1
        return self.whole.flat(setting.client.round(setting.inputs, setting.targets))

    def _explain(self, base: Fit) -> Replay:
        if good := self._good([base]):
            return good
        fits = singles(self.bench, self._mistakes(), FINE, self.tolerance)
        explaining = [fit.numbers for fit in fits if fit.error <= self.tolerance]
        # several numbers, as weights of classes, also stand for a sample that was left out or came twice
        rows = list(self._rows()) if min(explaining, default=0) > 1 else []
        if good := self._good([*fits, *rows]):
            return good
        drawn = singles(self.bench, draws(self.setting), FINE, self.tolerance) if self._draws() else []
        rows = list(self._rows())
        if good := self._good([*drawn, *rows]):
            return good
        if good := self._good(list(self._with_factor([*fits, *drawn, *rows]))):
            return good
        if noise := marks.noise(self.bench.target, [base, *fits]):
            length = float(self.bench.target.sent.norm())
            told = named_noise(noise, self.setting, self.shown, length)
            return self._ended([told], noise.fit, noise)
        together: list[Fit] = []
        after, tried = FURTHER, 0
        for fit in in_pairs(self.bench, base, fits, FINE):
            together.append(fit)
            tried += 1
            after -= any(one.error <= self.tolerance for one in together[-1:]) or after < FURTHER
            if not after:
                break
        if good := self._good(together):
            return good
        return self._unexplained(base, [*fits, *drawn, *rows], together, (tried, len(pairs_of(fits))))

    def _rows(self) -> Iterator[Fit]:
        return row_fits(self.bench, self._classes(), self.found.tolerance)

    def _mistakes(self) -> Iterator[Mistake]:
        """Yield all mistakes that are tried alone, those of sending first."""
        setting, output = self.setting, self._output()
        yield from self._sending()
        yield from weight_mistakes(self.others)
        every = chain(
            loss_mistakes(setting, output),
            sample_mistakes(setting),
            training_mistakes(setting, self._gradient_norm()),
        )
        # a factor stands for all numbers that only change the length of one step
        yield from (one for one in every if not (one.lengthens and plain_step(setting)))

    def _sending(self) -> Iterator[Mistake]:
        names, exchange = self.whole.names, self.whole.exchange
        size = float(self.bench.target.sent.abs().mean())
        ways: dict[str, Tensor] = {}
        if exchange.kind != "gradient":
            for name, state in self.others.items():
                parts = [(exchange.before[n] - state.get(n, exchange.before[n])).double().flatten() for n in names]
                way = torch.cat(parts)
                ways[name] = way if self.bench.target.rows is None else way[self.bench.target.rows]
        yield from sent_mistakes(self.setting, ways, size)

    def _output(self) -> Any:
        client = self.setting.client
        try:
            with torch.no_grad():
                return client.output(deepcopy(client.model), self.setting.inputs)
        except REFUSED:
            return None

    def _classes(self) -> int | None:
        return class_count(self._output(), self.setting.targets)

    def _gradient_norm(self) -> float:
        """Return the norm of the first gradient, before clipping."""
        client = replace(
            self.setting.client, sends="gradient", steps=1, clip=None, defense=None, shares=None, optimizer=None
        )
        got = client.round(self.setting.inputs, self.setting.targets)
        return float(sum(float(value.square().sum()) for value in got.sent.values()) ** 0.5)

    def _draws(self) -> bool:
        """Return whether the model draws at random, so that its seed matters."""
        other = self._replayed(self.setting.of(seed=self.setting.client.seed + 1))
        return self.whole.error(other) != self.whole.error(self._replayed(self.setting))

    def _with_factor(self, fits: Sequence[Fit]) -> Iterator[Fit]:
        """Yield the fits that a factor completes."""
        factor = self._factor()
        for fit in fits:
            (mistake, _), *_ = fit.hypothesis
            if fit.aligned <= self.tolerance and not mistake.groups & factor.groups:
                made = (factor, (self.bench.target.factor(fit.flat),))
                joined = self.bench.fit((*fit.hypothesis, made))
                if joined is not None:
                    yield joined

    def _good(self, fits: Sequence[Fit]) -> Replay | None:
        """Return the replay with all fits that explain what was sent, or None."""
        rounding = self.tolerance if self.grid else self.found.tolerance / 20
        told: list[Explanation] = []
        first: Fit | None = None
        searching, self.bench.until = self.bench.until, self.until
        candidates = with_parts(self.bench, fits, self.tolerance, FINE)
        self.bench.until = searching
        for fit in equals(candidates, self.tolerance, rounding):
            one = self._finished(fit)
            if one is not None and one.says not in [other.says for other in told]:
                told.append(one)
                first = first or fit
        return self._ended(told, first) if told and first is not None else None

    def _finished(self, fit: Fit) -> Explanation | None:
        """Return an explanation with its residual over all entries; None where these do not bear it out."""
        flat = self.bench.directions(fit.hypothesis, self.whole)
        if flat is None:
            return None
        shown = [*self.shown]
        # a grid has a zero of its own: what it explains alone was not set to zero
        rounded = self.grid is not None and self.whole.error(self._on_grid(flat)) <= self.finest
        if self.sparse and not rounded and self.whole.error(flat) > self.found.tolerance:
            shown.append(("pruned", marks.pruned(self.whole, flat)))
            flat = torch.where(self.whole.sent == 0, 0.0, flat)
        if self.grid is not None and self.whole.error(self._on_grid(flat)) < self.whole.error(flat):
            shown.append(("rounding", f"what is sent rounded to {self.grid}"))
            flat = self._on_grid(flat)
        residual = self.whole.error(flat)
        if residual > self.finest or not (fit.hypothesis or shown):
            return None
        return explanation(fit, self.setting, shown, residual)

    def _on_grid(self, flat: Tensor) -> Tensor:
        return flat if self.grid is None else marks.on_grid(self.whole, flat, self.grid)

    def _ended(self, told: Sequence[Explanation], first: Fit, noise: marks.Noise | None = None) -> Replay:
        names, made = told[0].names, first.hypothesis
        if noise is not None and noise.factor != 1.0:
            made = (*made, (self._factor(), (noise.factor,)))
        case = corrected(
            self.case, self.setting, made, self.whole.exchange, self.grid if "rounding" in names else None,
            pruned="pruned" in names, noise=0.0 if noise is None else noise.deviation,
        )  # fmt: skip
        return replace(self.found, explanations=tuple(told), corrected=case)

    def _factor(self) -> Mistake:
        return next(one for one in sent_mistakes(self.setting, {}, 1.0) if one.name == "factor")

    def _unexplained(self, base: Fit, alone: Sequence[Fit], together: Sequence[Fit], pairs: tuple[int, int]) -> Replay:
        best = min([*alone, *together], key=lambda fit: fit.error, default=base)
        nearest = None
        if best.error < HELPS * base.error:
            nearest = explanation(best, self.setting, self.shown, best.error)
        names = dict.fromkeys(mistake.name for fit in alone for mistake, _ in fit.hypothesis)
        notes = [*whose(self.setting, self.whole), *self._random()]
        if not self.others:
            notes.append("No weights of other rounds were given: pass them as others, the commonest mistake is these.")
        return replace(
            self.found,
            corrected=None,
            nearest=nearest,
            excluded=tuple(names),
            pairs=pairs,
            notes=tuple(notes),
        )

    def _random(self) -> Iterator[str]:
        """Yield how far replays of other seeds are from each other, if the model draws at random."""
        if not self._draws():
            return
        flats = [self._replayed(self.setting.of(seed=1000 + seed)) for seed in range(3)]
        size = self.whole.sent.norm()
        apart = [float((flats[i] - flats[j]).norm() / size) for i, j in ((0, 1), (0, 2), (1, 2))]
        yield (
            f"The model draws at random: replays of other seeds are {min(apart):.2g} to {max(apart):.2g} of the norm "
            f"from each other, this one {self.found.error:.2g} from what was sent. Give the seed, or what was drawn."
        )
