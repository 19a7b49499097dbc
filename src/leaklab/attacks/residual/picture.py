"""The picture behind the maps that were read: sought under a prior, as one that makes them.

Maps nearest to the picture are continuous in it, while the gradient jumps with every ReLU: so they are matched, by a
likelihood that narrows in stages. A cell that is on has a known value, any other is not above 0, and one in doubt not
above what was read. Of a max pooling the largest of its places counts.

Source: maximum a posteriori and narrowing as in ``annealed``.
"""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from leaklab.attacks.pooling.picture import GaussianPrior
from leaklab.attacks.residual.operations import MAX
from leaklab.attacks.residual.peeling import Peeled
from leaklab.attacks.residual.structure import Bend, Structure

WIDTHS, STEPS, HISTORY = (0.3, 0.1, 0.03, 0.01, 0.003), 40, 40
"""Errors that a search allows for, from stage to stage, relative to what is matched; steps of each."""
BOX = 100.0
"""Weight of the square by which a picture leaves its range."""


class Frontier:
    """The known maps that depend on the picture once all others are known.

    Args:
        found: what was read.

    Attributes:
        bends: whose outputs these maps are.
    """

    def __init__(self, found: Peeled) -> None:
        self.found = found
        self.known = {name: one.values[None] for name, one in found.maps.items()}
        structure, given = found.structure, frozenset(self.known)
        self.bends: tuple[Bend, ...] = tuple(
            one
            for one in structure.bends
            if one.name in self.known and structure.picture in structure.operations.above([one.source], given)
        )
        self._open = _cut_anyway(structure, self.bends)

    def inputs(self, picture: Tensor) -> list[Tensor]:
        """Return what the bends are given of pictures [B, C, H, W]; of a max pooling the maxima, cut at 0 by nothing.

        Args:
            picture: what the network takes.
        """
        given = self.known | {self.found.structure.picture: picture}
        ends = [one.name if one.kind == MAX else one.source for one in self.bends]
        for one in self.bends:
            if one.kind == MAX:
                del given[one.name]
        values = self.found.structure.operations.values(ends, given, self._open)
        return [values[name] for name in ends]

    def misfit(self, picture: Tensor, width: float) -> Tensor:
        """Return how far a picture [1, C, H, W] is from making the maps, [M]: relative to each one's size.

        Args:
            picture: what the network takes.
            width: errors of cells that are larger count less.
        """
        rests = []
        for bend, made in zip(self.bends, self.inputs(picture), strict=True):
            one = self.found.maps[bend.name]
            rest = made[0] - one.values
            rests.append(torch.where(one.firm, rest, rest.clamp(min=0)).flatten())
        return torch.cat(rests) * width / self.spreads(width)

    def spreads(self, width: float) -> Tensor:
        """Return the error of each cell that is allowed for, [M]: its own, and a share of the map's size."""
        found = []
        for bend in self.bends:
            one = self.found.maps[bend.name]
            size = one.values[one.on].square().mean().sqrt()
            found.append(((size * width).square() + one.spread.square()).sqrt().expand_as(one.values).flatten())
        return torch.cat(found)


def behind(
    frontier: Frontier, prior: GaussianPrior, widths: Sequence[float] = WIDTHS, steps: int = STEPS,
    start: Tensor | None = None, over: Callable[[], bool] = lambda: False,
) -> Tensor:  # fmt: skip
    """Return the likeliest picture that makes the maps, what the network takes, [1, C, H, W].

    Args:
        frontier: with at least one map.
        prior: of the picture.
        widths: see ``WIDTHS``.
        steps: of each stage.
        start: numbers that the prior's factor takes, [d]; None for the mean.
        over: asked after each stage, whether time is.
    """
    structure = frontier.found.structure
    shape = structure.shapes[structure.picture]
    latents = prior.mean.new_zeros(prior.factor.shape[1]) if start is None else start.clone()
    latents.requires_grad_()
    for width in widths:
        search = torch.optim.LBFGS([latents], max_iter=steps, history_size=HISTORY, line_search_fn="strong_wolfe")

        def loss(search: torch.optim.LBFGS = search, width: float = width) -> float:
            search.zero_grad()
            with torch.enable_grad():
                picture = prior.mean + prior.factor @ latents
                outside = (prior.outside(picture) / (prior.high - prior.low)).square().sum()
                rest = frontier.misfit(picture.view(1, *shape), width).square().sum() / width**2
                value = rest / 2 + latents.square().sum() / 2 + BOX * outside
            torch.autograd.backward(value)
            return float(value.detach())

        search.step(loss)  # type: ignore[no-untyped-call]
        if over():
            break
    return (prior.mean + prior.factor @ latents.detach()).view(1, *shape)


def _cut_anyway(structure: Structure, bends: Sequence[Bend]) -> dict[str, Tensor | None]:
    """Return the ReLUs right before a max pooling, which do not change the order of its places."""
    nodes = structure.operations.nodes
    sources = {one.source for one in bends if one.kind == MAX}
    return {one.name: None for one in structure.bends if one.name in sources and len(nodes[one.name].users) == 1}
