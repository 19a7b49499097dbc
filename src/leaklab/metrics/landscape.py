"""What an attack's loss and the distance from the private image look like around the attack's latent."""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from leaklab.attacks.latents.landscape import LatentMatching, across, line, losses_on, plane, steps
from leaklab.metrics.base import Metric
from leaklab.metrics.perceptual import PerceptualDistance
from leaklab.observations.base import Observation
from leaklab.records import plugins
from leaklab.records.errors import UserError
from leaklab.records.purity import watched
from leaklab.records.streams import stream
from leaklab.specs.attack import LandscapeSpec

if TYPE_CHECKING:
    import pandas as pd

LOSS, PROFILED = "matching_loss", "profiled_loss"
# pictures that are compared at once
PICTURES_TOGETHER = 256


def _table(columns: Mapping[str, Any]) -> "pd.DataFrame":
    import pandas as pd  # who projects an image needs none

    return pd.DataFrame(columns)


def points_of(spec: LandscapeSpec, first: Tensor, second: Tensor) -> "tuple[pd.DataFrame, Tensor]":
    """Return where the points lie, columns ``alpha`` and, on a plane, ``beta``, and their latents [N, d].

    Args:
        spec: spans of alpha and beta.
        first: z1 [d].
        second: z2 [d].

    Raises:
        UserError: see ``landscape.line``.
    """
    alphas = steps(*spec.alpha)
    if spec.beta is None:
        return _table({"alpha": alphas.numpy()}), line(first, second, alphas)
    betas = steps(*spec.beta)
    third = across(first, second, stream(spec.seed, "landscape", "across"))
    pairs = torch.cartesian_prod(alphas, betas)
    places = _table({"alpha": pairs[:, 0].numpy(), "beta": pairs[:, 1].numpy()})
    return places, plane(first, second, third, alphas, betas).flatten(0, 1)


def speaking_rows(observation: Observation) -> list[int]:
    """Return the rows of the updates that say something of their image; there is no landscape of the others.

    Raises:
        UserError: none of them does.
    """
    if not observation.speaking:
        raise UserError(
            f"no update says anything of its image ({', '.join(sorted(set(observation.silent.values())))}): attack "
            "another round, or raise the rate"
        )
    return observation.speaking


def losses(matching: LatentMatching, profiled: LatentMatching | None, row: int, latents: Tensor) -> "pd.DataFrame":
    """Return the losses of latents [N, d], columns ``matching_loss`` and, if asked for, ``profiled_loss``.

    Args:
        matching: the loss that the attack minimises.
        profiled: the same observation with the factor on the update profiled out; None leaves that column out.
        row: position of the image among those that are attacked.
        latents: [N, d].
    """
    wanted = {LOSS: matching, PROFILED: profiled}
    found = {name: losses_on(own, row, latents) for name, own in wanted.items() if own is not None}
    return _table({name: values.double().cpu().numpy() for name, values in found.items()})


def distances(metrics: Sequence[Metric], pictures: Tensor, original: Tensor) -> "pd.DataFrame":
    """Return how far pictures [N, C, H, W] are from one original [C, H, W], a column per metric; all on [0, 1]."""
    columns: dict[str, Tensor] = {}
    for metric in metrics:
        given = {"reconstruction": pictures, "truth": original}
        with watched(metric, call="values", given=given, draws="a generator with a seed of its own"):
            parts = [metric.values(part, original.expand_as(part)) for part in torch.split(pictures, PICTURES_TOGETHER)]
        columns[metric.card.name] = torch.cat(parts)
    return _table({name: values.numpy() for name, values in columns.items()})


# The perceptual distances that have a derivative, for what is searched by descent.


def differentiable(name: str) -> Callable[[Tensor, Tensor], Tensor] | None:
    """Return the distance of pictures [N, C, H, W] in [0, 1] to others, one per picture; None for an empty name.

    Raises:
        UserError: a metric that has no derivative.
    """
    if not name:
        return None
    metric = plugins.load("metrics", name)
    if not isinstance(metric, PerceptualDistance):
        raise UserError(f"metric '{name}' has no derivative here: choose an lpips one for 'perceptual', or none")
    return metric.distances
