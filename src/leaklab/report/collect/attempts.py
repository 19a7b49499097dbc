"""The attacks that were tried in one cell of an item's table, and which of them is the strongest by a metric.

A cell may have one attack of the paper, one blind one and any number by attackers who know the defense. The knowing
attacker of a number is the strongest of all of them by that very number; of equal ones the paper's.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import pandas as pd

from leaklab.items.expand import PlannedRun
from leaklab.metrics.intervals import summarise_for
from leaklab.metrics.statistics import Summary
from leaklab.records.errors import UserError
from leaklab.records.files import read_json, read_table
from leaklab.report.collect.source import NO_INFORMATION, TRAINING, Source, Updates
from leaklab.report.numbers.results import BLIND, KNOWING, PAPER, canonical
from leaklab.specs.base import run_folder, run_id

OWN_CHOICE, ORACLE = "best-by-loss", "oracle"


@dataclass(frozen=True, eq=False)
class Attempt:
    """One attack with its scores.

    Attributes:
        run: what ran.
        scores: ``scores.csv`` of it.
        name: attack and transform, e.g. ``ggl, clip emulation``.
        others: runs of the same on images, deals or trainings of other seeds, whose scores are among these.
    """

    run: PlannedRun
    scores: pd.DataFrame
    name: str
    others: tuple[PlannedRun, ...] = ()

    @property
    def ids(self) -> tuple[str, ...]:
        """The ids of its runs."""
        return tuple(run_id(run.spec) for run in (self.run, *self.others) if run.spec is not None)

    @property
    def undefended(self) -> bool:
        """Whether the attacked clients had no defense."""
        return bool(self.run.spec.attack.capture.defense.name == "none")  # type: ignore[union-attr]

    @property
    def data(self) -> tuple[str, str]:
        """The data set of the private samples, and its split."""
        capture = self.run.spec.attack.capture  # type: ignore[union-attr]
        return capture.dataset, str(getattr(getattr(capture, "images", None), "split", ""))

    @cached_property
    def updates(self) -> Updates:
        """The updates behind the scores."""
        return Updates.of(self.scores)

    @property
    def count(self) -> int:
        """How many updates it has, silent ones too and draws of one as one; of several trainings how many these are."""
        trainings, updates = {_training(run) for run in (self.run, *self.others)}, self.updates
        if len(trainings) > 1:
            return len(trainings)
        if not updates.silent:
            return len(set(updates.held.values()))
        return (len(updates.held) + updates.silent) // int(self.run.spec.attack.capture.draws)  # type: ignore[union-attr]

    @property
    def metrics(self) -> list[str]:
        """The metrics of the attack's own choice, in the order of the file; the count of silent updates is none."""
        return [name for name in dict.fromkeys(self.scores["metric"]) if name != NO_INFORMATION]

    @property
    def references(self) -> list[str]:
        """The selections that need no update at all."""
        return [kind for kind in dict.fromkeys(self.scores["selection"]) if kind not in (OWN_CHOICE, ORACLE)]

    def of(self, metric: str, selection: str = OWN_CHOICE) -> pd.DataFrame:
        """Return the lines of a metric and selection."""
        chosen = (self.scores["metric"] == metric) & (self.scores["selection"] == selection)
        return self.scores[chosen]

    def summary(self, metric: str, selection: str = OWN_CHOICE) -> Summary:
        """Summarise a metric over the updates: a share as one, by the metric's name in the scores."""
        group = self.of(metric, selection)
        return summarise_for(metric, group["value"].to_numpy(), self.updates.clusters_of(group))


@dataclass(frozen=True)
class Statistic:
    """A summary that a table shows of a metric.

    Attributes:
        suffix: what it adds to the metric's name.
        mean: whether it is the mean; else the median.
    """

    suffix: str
    mean: bool

    def of(self, summary: Summary) -> float:
        """Return the number."""
        return summary.mean if self.mean else summary.median

    def interval(self, summary: Summary) -> tuple[float | None, float | None]:
        """Return its interval."""
        return (summary.ci_low, summary.ci_high) if self.mean else (summary.median_low, summary.median_high)


@dataclass(frozen=True, eq=False)
class Cell:
    """All attacks that were tried in one setting, the paper's first.

    Attributes:
        row: the setting's keys.
        variant: of its lines.
        attempts: the attacks.
    """

    row: dict[str, Any]
    variant: str
    attempts: tuple[Attempt, ...]

    def by(self, attacker: str) -> Attempt | None:
        """Return the attack of the paper or the blind one, if the cell has it."""
        return next((one for one in self.attempts if one.run.attacker == attacker), None)

    def strongest(self, metric: str, statistic: Statistic, better: str) -> Attempt | None:
        """Return the attack that leaves the least privacy by a metric; None for a metric without direction."""
        if better not in ("higher", "lower"):
            return None
        sign = 1 if better == "higher" else -1
        other = replace(statistic, mean=not statistic.mean)

        def rank(attempt: Attempt) -> tuple[float, bool, float]:
            summary = attempt.summary(metric)
            return sign * statistic.of(summary), attempt.run.attacker != PAPER, sign * other.of(summary)

        return min((one for one in self.attempts if metric in one.metrics), key=rank, default=None)


def cells_of(source: Source, runs: Sequence[PlannedRun]) -> list[Cell]:
    """Return the cells of an item's attacks, in the order of the item.

    Raises:
        UserError: two attacks of the paper (or two blind ones, or two of one name) share a cell.
    """
    found: dict[tuple[str, str], list[PlannedRun]] = {}
    for run in runs:
        found.setdefault((canonical(source.row(run)), run.variant), []).append(run)
    return [_cell(source, own) for own in found.values()]


def _cell(source: Source, runs: list[PlannedRun]) -> Cell:
    where = f"config/items/{source.item.key}.yaml: {canonical(source.row(runs[0]))}"
    attacks = _by_attack(runs)
    first = [own[0] for own in attacks]
    for attacker in (PAPER, BLIND):
        blocks = [run.block for run in first if run.attacker == attacker]
        if len(blocks) > 1:
            raise UserError(
                f"{where} has {len(blocks)} attacks of the attacker '{attacker}' (runs.{', runs.'.join(blocks)}): mark "
                f"the others with 'attacker: {KNOWING}', or add a key to cells.row"
            )
    names = _names(first)
    if len(set(names)) < len(names):
        raise UserError(f"{where} has two attacks {Counter(names).most_common(1)[0][0]!r}: add a key to cells.row")
    attempts = [Attempt(own[0], _scores(own), name, tuple(own[1:])) for own, name in zip(attacks, names, strict=True)]
    attempts.sort(key=lambda one: (PAPER, BLIND, KNOWING).index(one.run.attacker))
    return Cell(source.row(runs[0]), runs[0].variant, tuple(attempts))


def _by_attack(runs: Sequence[PlannedRun]) -> list[list[PlannedRun]]:
    """Return the runs with those together that differ in seeds of their updates alone: more updates of one attack."""
    found: dict[str, list[PlannedRun]] = {}
    for run in runs:
        spec = run.spec.model_dump(mode="json")  # type: ignore[union-attr]
        _without_draws(spec["attack"]["capture"])
        found.setdefault(canonical({"block": run.block, "attacker": run.attacker, "spec": spec}), []).append(run)
    return list(found.values())


def _without_draws(capture: dict[str, Any]) -> None:
    """Take from a capture which images, which deal and which replicate of a training it is of."""
    images, state = capture.get("images") or {}, capture.get("state") or {}
    training = state.get("train") or {}
    for place, key in ((images, "seed"), (state, "replicate"), (training, "seeds")):
        place.pop(key, None)
    for choice in (images, training):
        (choice.get("partition") or {}).pop("seed", None)


def _scores(runs: Sequence[PlannedRun]) -> pd.DataFrame:
    """Return the scores of runs one after another, their trials numbered through."""
    tables: list[pd.DataFrame] = []
    for run in runs:
        assert run.spec is not None
        table = read_table(run_folder(run.spec) / "scores.csv")
        before = 1 + max((int(other["trial"].max()) for other in tables), default=-1)
        tables.append(table.assign(trial=table["trial"] + before))
    trainings = [_training(run) for run in runs]
    if len(set(trainings)) > 1:
        tables = [table.assign(**{TRAINING: name}) for table, name in zip(tables, trainings, strict=True)]
    return pd.concat(tables, ignore_index=True)


def _training(run: PlannedRun) -> str:
    """Return the training in which the attacked clients take part; empty for first weights and for sentences."""
    capture = run.spec.attack.capture  # type: ignore[union-attr]
    train = getattr(getattr(capture, "state", None), "train", None)
    return run_id(train) if train else ""


def _names(runs: Sequence[PlannedRun]) -> list[str]:
    """Return what the attacks are called: by attack and transform, where that is not enough by what else differs."""
    plain = [attack_name(run) for run in runs]
    alike = {name: [run for run, other in zip(runs, plain, strict=True) if other == name] for name in plain}
    words = {name: _differences(same) for name, same in alike.items() if len(same) > 1}
    return [f"{name} ({words[name].pop(0)})" if name in words else name for name in plain]


def _differences(runs: Sequence[PlannedRun]) -> list[str]:
    """Return in what attacks of one name differ: settings, e.g. ``total variation 0.01``; else the words of a block."""
    parts: list[Any] = [run.spec.attack for run in runs]  # type: ignore[union-attr]
    settings = [{**getattr(part, "transform", part.attack).settings, **part.attack.settings} for part in parts]
    keys = sorted({key for one in settings for key in one if any(one.get(key) != other.get(key) for other in settings)})
    found = [", ".join(f"{key.replace('_', ' ')} {one[key]}" for key in keys if key in one) for one in settings]
    values = [value for one in settings for value in one.values()]
    told = len(set(found)) == len(found) and all(found) and all(isinstance(v, str | int | float) for v in values)
    return found if told else [run.block.replace("-", " ") for run in runs]


def attack_name(run: PlannedRun) -> str:
    """Return attack and transform of a run, e.g. ``ggl, clip emulation``."""
    attack: Any = run.spec.attack  # type: ignore[union-attr]
    transform = getattr(attack, "transform", None)
    known = "" if transform is None or transform.name == "none" else f", {transform.name.replace('-', ' ')}"
    return f"{attack.attack.name}{known}"


# How many updates of an attack say nothing of their samples, and why, in words.


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
