"""Search over the latents of a generator for many trials side by side: without gradients by CMA-ES, or by Adam.

Every start of every trial is a search of its own: its draws come from its own named stream, it sees only the losses of
its own points, and CMA-ES uses nothing but their order. So a trial's result does not depend on the others.

Sources: N. Hansen, "The CMA Evolution Strategy: A Tutorial"; D. Kingma, J. Ba, "Adam".
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from math import nan

import cma  # type: ignore[import-untyped]
import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from leaklab.attacks.search.restarts import Objective, SearchResult
from leaklab.attacks.search.savepoints import savepoint
from leaklab.attacks.starts import STOPPED, StartRecord
from leaklab.records.errors import UserError
from leaklab.records.streams import Stream

Evaluate = Callable[[Tensor, Tensor], tuple[Tensor, Tensor]]
"""``points`` [S, n], ``rows`` [S] -> losses [S] and the points [S, n] that have these losses: the points themselves, or
what a local search made of them (CMA-ES then looks for good points to start from)."""

StartOf = Callable[[int, int], Tensor]
"""(row, start) -> first point [n]."""

SMALLEST_POPULATION = 4


@dataclass(frozen=True)
class CmaSettings:
    """How CMA-ES searches.

    Attributes:
        generations: largest number of generations per start.
        restarts: starts per trial; all of them run.
        population: candidates per generation.
        sigma: standard deviation of the first generation around the start.
        squash: whether a latent is the tanh of what is searched, so that it stays within (-1, 1).
    """

    generations: int
    restarts: int = 1
    population: int = 50
    sigma: float = 1.0
    squash: bool = True

    def __post_init__(self) -> None:
        """Refuse a search that could not run."""
        _check_counts(self.generations, self.restarts)
        if self.population < SMALLEST_POPULATION or not self.sigma > 0:
            raise UserError(f"CMA-ES needs a population of at least {SMALLEST_POPULATION} and a sigma above 0")


@dataclass(frozen=True)
class AdamSettings:
    """How Adam searches.

    Attributes:
        iterations: steps per start.
        restarts: starts per trial; all of them run.
        rate: Adam's rate.
    """

    iterations: int
    restarts: int = 1
    rate: float = 0.1

    def __post_init__(self) -> None:
        """Refuse a search that could not run."""
        _check_counts(self.iterations, self.restarts)
        if not self.rate > 0:
            raise UserError(f"Adam needs a rate above 0, not {self.rate}")


def cma_search(
    evaluate: Evaluate,
    start_of: StartOf,
    stream_of: Callable[[int, int], Stream],
    trials: int,
    settings: CmaSettings,
) -> SearchResult:
    """Minimise the loss of each trial by CMA-ES; all candidates of a generation are evaluated in one batch.

    Args:
        evaluate: see ``Evaluate``; it gets latents, squashed where the settings ask for it.
        start_of: centre of the first generation, before squashing; its dtype and device are those of the latents.
        stream_of: (row, start) -> the stream of the candidates' draws.
        trials: T.
        settings: see ``CmaSettings``.

    Returns:
        The best latent of every start, squashed where the settings ask for it.

    Raises:
        UserError: a start has fewer than two numbers or is not finite.
    """
    runs = [
        _CmaRun(row, start, start_of(row, start), stream_of(row, start), settings)
        for row in range(trials)
        for start in range(settings.restarts)
    ]
    with savepoint() as saved:
        state = saved.found()
        for number, run in enumerate(runs if state else []):
            run.go_on(state, f"{number}/")
        for generation in range(int(state.get("generation", 0)), settings.generations):
            running = [run for run in runs if run.stopped == "budget"]
            if not running:
                break
            like = running[0].point
            points = torch.as_tensor(np.concatenate([run.ask() for run in running])).to(like)
            rows = torch.tensor([run.row for run in running], device=like.device)
            rows = rows.repeat_interleave(settings.population)
            losses, reached = evaluate(torch.tanh(points) if settings.squash else points, rows)
            parts = torch.split(losses, settings.population), torch.split(reached, settings.population)
            for run, loss, latents in zip(running, *parts, strict=True):
                run.tell(loss, latents)
            saved.offer(partial(_cma_state, runs, generation + 1))
    points = torch.stack([run.point for run in runs]).view(trials, settings.restarts, -1)
    found = points.new_tensor([run.loss for run in runs]).view(trials, settings.restarts)
    return SearchResult(points, found, [run.record() for run in runs])


class _CmaRun:
    """One start of one trial; ``stopped`` is ``budget`` as long as it runs."""

    def __init__(self, row: int, start: int, first: Tensor, stream: Stream, settings: CmaSettings) -> None:
        if first.dim() != 1 or len(first) < 2 or not bool(first.isfinite().all()):
            raise UserError("CMA-ES needs finite starts [n] of at least two numbers: choose another generator")
        self.row, self.start, self.settings = row, start, settings
        self.point, self.loss = torch.tanh(first) if settings.squash else first.clone(), float("inf")
        self.evaluations, self.stopped = 0, "budget"
        self._strategy = cma.CMAEvolutionStrategy(
            first.double().cpu().numpy(), settings.sigma, _options(stream, settings.population)
        )
        self._asked: list[NDArray[np.float64]] = []
        self._told: list[NDArray[np.float64]] = []  # losses of each generation

    def state(self) -> dict[str, Tensor]:
        """Return what ``go_on`` needs: what the strategy was told brings it to where it is."""
        told = torch.as_tensor(np.array(self._told)).view(-1, self.settings.population)
        loss, stopped = torch.tensor(self.loss, dtype=torch.float64), torch.tensor(STOPPED.index(self.stopped))
        evaluations = torch.tensor(self.evaluations)
        return {"told": told, "point": self.point, "loss": loss, "stopped": stopped, "evaluations": evaluations}

    def go_on(self, found: Mapping[str, Tensor], prefix: str) -> None:
        """Go to the state of ``state``, found under names with a prefix; the strategy asks and is told once more."""
        for values in found[prefix + "told"].numpy():
            self.ask()
            self._learn(values)
        self.point = found[prefix + "point"].to(self.point)
        self.loss, self.evaluations = float(found[prefix + "loss"]), int(found[prefix + "evaluations"])
        self.stopped = STOPPED[int(found[prefix + "stopped"])]

    def ask(self) -> NDArray[np.float64]:
        self._asked = self._strategy.ask()
        return np.stack(self._asked)

    def tell(self, losses: Tensor, latents: Tensor) -> None:
        values = losses.detach().double().cpu().numpy()
        finite = np.isfinite(values)
        self.evaluations += len(values)
        if not finite.any():
            self.stopped = "diverged"
            return
        worst = values[finite].max()
        # the order alone counts: what is not finite comes last
        values = np.where(finite, values, worst + abs(worst) + 1)
        best = int(values.argmin())
        if values[best] < self.loss:
            self.loss, self.point = float(values[best]), latents[best].detach().clone()
        if self._learn(values):
            self.stopped = "stagnated"

    def _learn(self, values: NDArray[np.float64]) -> bool:
        """Tell the strategy the losses of what it asked last, and return whether it wants to stop."""
        self._told.append(values)
        self._strategy.tell(self._asked, values.tolist())
        return bool(self._strategy.stop())

    def record(self) -> StartRecord:
        generations = self.evaluations // self.settings.population
        return StartRecord(
            self.row, self.start, self.loss, generations, self.evaluations, self.stopped == "diverged", self.stopped
        )


def _cma_state(runs: list[_CmaRun], generation: int) -> dict[str, Tensor]:
    """Return the state before a generation."""
    named = {f"{number}/{name}": value for number, run in enumerate(runs) for name, value in run.state().items()}
    return {**named, "generation": torch.tensor(generation)}


def _options(stream: Stream, population: int) -> dict[str, object]:
    """Return the library's options: own draws, silence, and no stop rule that depends on the loss's size."""
    # without a seed the library leaves numpy's global generator alone; all its draws then come from ``randn``
    draws = {"seed": nan, "randn": lambda *shape: stream.normal(*shape).numpy()}
    return {**draws, "popsize": population, "tolfun": 0, "tolfunhist": 0, "verbose": -9, "verb_log": 0}


def adam_search(objective: Objective, start_of: StartOf, trials: int, settings: AdamSettings) -> SearchResult:
    """Minimise the loss of each trial by Adam; the best point on the way counts.

    Args:
        objective: see ``attacks.search.Objective``.
        start_of: see ``StartOf``.
        trials: T.
        settings: see ``AdamSettings``.
    """
    pairs = [(row, start) for row in range(trials) for start in range(settings.restarts)]
    runs = _AdamRuns(torch.stack([start_of(*pair) for pair in pairs]).detach().clone(), settings.rate)
    rows = torch.tensor([row for row, _ in pairs], device=runs.points.device)
    with savepoint() as saved:
        runs.go_on(saved.found())
        while runs.evaluated <= settings.iterations:
            losses, derivative = objective(runs.points, rows)
            runs.remember(losses, derivative)
            if runs.evaluated <= settings.iterations and bool(runs.alive.any()):
                runs.step(derivative)
            saved.offer(runs.state)
    records = [
        StartRecord(
            row, start, loss, max(evaluations - 1, 0), evaluations, not going, "budget" if going else "diverged"
        )
        for (row, start), loss, evaluations, going in zip(
            pairs, runs.best.tolist(), runs.used.tolist(), runs.alive.tolist(), strict=True
        )
    ]
    shape = trials, settings.restarts
    return SearchResult(runs.best_points.view(*shape, -1), runs.best.view(shape), records)


class _AdamRuns:
    """All starts of all trials, S of them: their points and the best on their way."""

    ADAM = ("step", "exp_avg", "exp_avg_sq")

    def __init__(self, points: Tensor, rate: float) -> None:
        self.points = points  # [S, n]
        self.best, self.best_points = points.new_full((len(points),), float("inf")), points.clone()
        self.used = torch.zeros(len(points), dtype=torch.int64, device=points.device)  # evaluations of each
        self.alive = torch.ones_like(self.used, dtype=torch.bool)
        self.evaluated = 0
        self._optimizer = torch.optim.Adam([points], lr=rate)

    def remember(self, losses: Tensor, derivative: Tensor) -> None:
        self.evaluated += 1
        self.used += self.alive
        self.alive = self.alive & losses.isfinite() & derivative.isfinite().all(1)
        better = self.alive & (losses < self.best)
        self.best = torch.where(better, losses, self.best)
        self.best_points = torch.where(better[:, None], self.points, self.best_points)

    def step(self, derivative: Tensor) -> None:
        self.points.grad = torch.where(self.alive[:, None], derivative, 0)
        self._optimizer.step()

    def state(self) -> dict[str, Tensor]:
        """Return the state before the next evaluation."""
        own = {name: value for name, value in vars(self).items() if isinstance(value, Tensor)}
        return {**own, **self._optimizer.state[self.points], "evaluated": torch.tensor(self.evaluated)}

    def go_on(self, found: Mapping[str, Tensor]) -> None:
        """Take over a state; stay at the beginning where there is none."""
        if not found:
            return
        state = {name: value.to(self.points.device) for name, value in found.items()}
        self.points.copy_(state["points"])
        self.best, self.best_points, self.used, self.alive = (
            state[name] for name in ("best", "best_points", "used", "alive")
        )
        self.evaluated = int(found["evaluated"])
        if "step" in found:  # Adam has taken one; it counts its steps on the CPU
            self._optimizer.state[self.points] = {name: state[name] for name in self.ADAM} | {"step": found["step"]}


def _check_counts(iterations: int, restarts: int) -> None:
    if iterations < 1 or restarts < 1:
        raise UserError("a search needs at least one iteration and one restart: raise iterations or restarts")
