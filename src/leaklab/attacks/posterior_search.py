"""Search of a posterior in stages: where its starts lie, how they descend, and which images came out.

Shared by the attacks that anneal; what narrows from stage to stage is theirs.
"""

from collections.abc import Callable

import torch
from torch import Tensor

from leaklab.attacks.backtracking import Descent, descend
from leaklab.attacks.base import Budget, Reconstruction, Streams
from leaklab.attacks.neighbours import near_posterior
from leaklab.attacks.posterior import Posterior
from leaklab.attacks.starts import StartRecord
from leaklab.records.errors import UserError


def latent_starts(
    posterior: Posterior, trials: tuple[int, ...], restarts: int, streams: Streams, spread: float
) -> Tensor:
    """Return the first unknowns of all starts, those of one trial after another: [T * R, n]."""
    alone = posterior.classes.shape[1] == 1

    def start_of(trial: int, number: int) -> Tensor:
        width = 0.0 if alone and number == 0 else spread
        return width * streams("start", trial, number).normal(posterior.unknowns)

    points = [start_of(trial, number) for trial in trials for number in range(restarts)]
    return torch.stack(points).to(posterior.classes)


def narrowed(posteriors: list[Posterior], starts: Tensor, iterations: int, history: int) -> list[Descent]:
    """Return where the starts [T * R, n] ended under each posterior; each begins where the one before ended.

    Args:
        posteriors: of the same T trials and unknowns, the widest first.
        starts: see ``latent_starts``.
        iterations: evaluations per posterior.
        history: pairs kept by L-BFGS.
    """
    trials = torch.arange(len(posteriors[0].classes), device=starts.device)
    rows = trials.repeat_interleave(len(starts) // len(trials))
    stages: list[Descent] = []
    for posterior in posteriors:
        points = stages[-1].points if stages else starts
        stages.append(descend(posterior, points, rows, iterations, history))
    return stages


def require_one_guess(attack: str, budget: Budget) -> None:
    """Refuse several starts of a search that is to be refined.

    Raises:
        UserError: says what to set.
    """
    if budget.restarts > 1:
        raise UserError(f"{attack} refines a single guess: set restarts: 1, or refinements: 0")


def refined(
    posterior: Posterior,
    stages: list[Descent],
    refinements: int,
    neighbours: int,
    narrow: Callable[[Posterior, Tensor], list[Descent]],
) -> tuple[Posterior, list[Descent]]:
    """Return the posterior under the prior of the public images nearest to what was found, and all stages so far.

    Args:
        posterior: of T trials, with the labels that its inversion has.
        stages: of one start per trial.
        refinements: how often the neighbours are looked up; 0 for never.
        neighbours: see ``neighbours.near_posterior``.
        narrow: searches such a posterior from unknowns [T, n].

    Raises:
        UserError: the generator keeps no images.
    """
    of_class, labels = posterior, posterior.classes.argmax(-1)
    rows = torch.arange(len(labels), device=labels.device)
    for _ in range(refinements):
        with torch.no_grad():
            guess = posterior.images(stages[-1].points, rows)
        posterior = near_posterior(of_class, guess, labels, neighbours)
        stages = [*stages, *narrow(posterior, guess.new_zeros(len(labels), posterior.unknowns))]
    return posterior, stages


def likeliest(
    posterior: Posterior, stages: list[Descent], labels: Tensor, trials: tuple[int, ...], *, kept: bool
) -> Reconstruction:
    """Return the images of all starts, and of each trial those of the likeliest one.

    Args:
        posterior: that of the last stage.
        stages: see ``narrowed``.
        labels: [T, B].
        trials: number of each trial within the capture.
        kept: whether the latents are those of a generator that is kept, as those of a refined search are not.
    """
    number, last = len(trials), stages[-1]
    rows = torch.arange(number, device=labels.device)
    losses = last.losses.view(number, -1)
    points = last.points.view(number, losses.shape[1], -1)
    with torch.no_grad():
        images = torch.stack([posterior.images(one, rows) for one in points.unbind(1)], 1)
        candidates = posterior.scene.as_inputs(images)
    latents = posterior.latents(points[rows, losses.argmin(1)]) if kept else None
    return Reconstruction.of_starts(candidates, losses, labels, _records(stages, trials), latents=latents)


def _records(stages: list[Descent], trials: tuple[int, ...]) -> tuple[StartRecord, ...]:
    """Return one record per start, with the work of all its stages and the loss of the last."""
    last = stages[-1]
    restarts = len(last.losses) // len(trials)
    steps, evaluations = (sum(getattr(stage, name) for stage in stages) for name in ("iterations", "evaluations"))
    return tuple(
        StartRecord(
            trial=trials[place // restarts],
            start=place % restarts,
            matching_loss=float(last.losses[place]),
            iterations=int(steps[place]),
            evaluations=int(evaluations[place]),
            diverged=not bool(last.losses[place].isfinite()),
            stopped=_reason(last, place),
        )
        for place in range(len(last.losses))
    )


def _reason(last: Descent, place: int) -> str:
    """Return why a start ended; see ``starts.STOPPED``."""
    if not bool(last.losses[place].isfinite()):
        return "diverged"
    return "stagnated" if bool(last.stalled[place]) else "budget"
