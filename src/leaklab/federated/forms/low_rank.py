"""Hypernetwork and embedding in gradient descent, without any client's own copy of the hypernetwork's heads.

A head makes theta = A u + c, so its gradient is g u^T with g = dl/dtheta, and momentum, weight decay and a cut norm are
linear in such terms. After t steps therefore, exactly,

    A_t = a_t A_0 + sum_s alpha_s g_s u_s^T,

with scalars a and alpha that follow the optimizer's recursion. A_0 is the same for all clients of a server, and A_0
times all their u is one product. The server's mean is such a sum too, so that clients' heads, some hundred times the
generated network, are formed only where somebody looks at a client's own (a capture, a defense), and neither their
gradients nor their momentum ever. The lifted form (``seen.py``) is the oracle.
"""

from collections.abc import Iterable, Mapping, Sequence
from math import prod

import torch
from torch import Tensor

from leaklab.federated.algorithms.base import Phase, Tensors, chosen
from leaklab.federated.batches import Batch
from leaklab.federated.forms.network import TrainableNetwork
from leaklab.federated.forms.seen import cut_factor
from leaklab.federated.local import LocalResult
from leaklab.federated.optimizers import Sgd
from leaklab.models.hypernetwork import BIAS, HEADS, HIDDEN, WEIGHT, generated_names, is_hypernetwork

LEAST_TOGETHER = 10
"""Models that should train together, since they share A_0 but each needs room for its terms (25 MB in 60 steps)."""
W, B, C, V = "W", "b", "c", "v"
"""What is small: of the hidden layer, the heads' biases side by side [M, P], and the embeddings."""


class Heads:
    """The weights A of M clients' heads, all tensors side by side, [M, P, H], in low-rank form."""

    def __init__(self, first: Tensor, models: int, steps: int) -> None:
        """Begin with ``first``, A_0, [1, P, H] for all models or [M, P, H], for at most so many steps."""
        _, outputs, hidden = first.shape
        self._first, self._done = first, 0
        self._scale, self._scale_momentum = first.new_ones(models), first.new_zeros(models)
        self._terms, self._terms_momentum = (first.new_zeros(models, steps) for _ in range(2))
        self._g, self._u = first.new_empty(models, steps, outputs), first.new_empty(models, steps, hidden)

    def generate(self, u: Tensor) -> Tensor:
        """Return A u, [M, P], for u [M, H]."""
        found = _times(u, self._first.transpose(1, 2)) * self._scale[:, None]
        if self._done:
            g, past = self._g[:, : self._done], self._u[:, : self._done]
            found += _times(self._terms[:, : self._done] * _times(u, past.transpose(1, 2)), g)
        return found

    def pull(self, g: Tensor) -> Tensor:
        """Return A^T g, [M, H], for g [M, P]."""
        found = _times(g, self._first) * self._scale[:, None]
        if self._done:
            past, u = self._g[:, : self._done], self._u[:, : self._done]
            found += _times(self._terms[:, : self._done] * _times(g, past.transpose(1, 2)), u)
        return found

    def step(self, g: Tensor, u: Tensor, factor: Tensor, rates: Tensor, momentum: float, decay: float) -> None:
        """Do one step of gradient descent with the gradients ``factor`` g u^T; factor and rates are [M]."""
        self._g[:, self._done], self._u[:, self._done] = g, u
        self._scale_momentum.mul_(momentum).add_(self._scale, alpha=decay)
        self._terms_momentum.mul_(momentum).add_(self._terms, alpha=decay)
        self._terms_momentum[:, self._done] = factor
        self._scale -= rates * self._scale_momentum
        self._terms -= rates[:, None] * self._terms_momentum
        self._done += 1

    def whole(self) -> Tensor:
        """Return A, [M, P, H]."""
        g, u = self._g[:, : self._done], self._terms[:, : self._done, None] * self._u[:, : self._done]
        found = self._g.new_empty(len(g), *self._first.shape[1:])
        for model in range(len(g)):
            first = self._first[min(model, len(self._first) - 1)]
            torch.addmm(first, g[model].T, u[model], beta=float(self._scale[model]), out=found[model])
        return found

    def sum(self, models: Sequence[int], weights: Sequence[float]) -> Tensor:
        """Return the weighed sum of some models' A, [P, H], one product whatever their number."""
        rows, factors = list(models), self._scale.new_tensor(weights)
        scales = factors * self._scale[rows]
        if len(self._first) == 1:
            first = self._first[0] * scales.sum()
        else:
            first = torch.tensordot(scales, self._first[rows], 1)
        g, u = self._g[rows, : self._done].flatten(0, 1), self._u[rows, : self._done].flatten(0, 1)
        scaled = (factors[:, None] * self._terms[rows, : self._done]).flatten()[:, None] * u
        return first.addmm_(g.T, scaled)


class TrainedHeads:
    """The heads' weights of M clients after a phase, by name, without any client's own until they are asked for."""

    def __init__(self, heads: Heads, layout: "_Layout") -> None:
        """Take over what ``low_rank_steps`` trained."""
        self._heads, self._layout = heads, layout

    @property
    def names(self) -> list[str]:
        """Names of the heads' weights."""
        return [HEADS + name + WEIGHT for name in self._layout.shapes]

    def formed(self) -> dict[str, Tensor]:
        """Return every client's, by name, [M, ..., H]."""
        return self._named(self._heads.whole())

    def sum(self, models: Sequence[int], weights: Sequence[float]) -> dict[str, Tensor]:
        """Return the weighed sum of some clients', by name, [..., H]."""
        return {name: value[0] for name, value in self._named(self._heads.sum(models, weights)[None]).items()}

    def networks(self, values: Tensors, embedding: str) -> dict[str, Tensor]:
        """Return what ``generate`` would with the weights formed; ``values`` has all the rest, by name, [M, ...]."""
        u = _hidden(values[HIDDEN + WEIGHT], values[HIDDEN + BIAS], values[embedding])
        theta = self._heads.generate(u).add_(self._layout.side_by_side(values, BIAS))
        return {**self._layout.apart(theta), **_not_generating(values, embedding)}

    def _named(self, together: Tensor) -> dict[str, Tensor]:
        return {HEADS + name + WEIGHT: value for name, value in self._layout.apart(together).items()}


def _times(rows: Tensor, matrices: Tensor) -> Tensor:
    """Return each row [M, K] times its matrix [M, K, N], or times the only one [1, K, N]: [M, N]."""
    return rows @ matrices[0] if len(matrices) == 1 else torch.bmm(rows[:, None], matrices)[:, 0]


def fits(form: TrainableNetwork, phase: Phase, moving: Tensors, embedding: str) -> bool:
    """Tell whether a phase moves hypernetwork and embedding alone, with norms that are cut apart if they are."""
    hyper = [name for name in moving if is_hypernetwork(name)]
    groups = {phase.groups(name) for name in hyper}
    apart = phase.bound is None or (len(groups) == 1 and phase.groups(embedding) not in groups)
    return bool(hyper) and set(moving) == {*hyper, embedding} and apart and not form.buffers


def generate(values: Tensors, embedding: str) -> dict[str, Tensor]:
    """Return the networks that hypernetworks make of their clients' embeddings, beside what is not generated.

    Args:
        values: by name, [M, ...]; heads that all models share are read once.
        embedding: its name.
    """
    layout = _Layout(values)
    u = _hidden(values[HIDDEN + WEIGHT], values[HIDDEN + BIAS], values[embedding])
    theta = _times(u, layout.first_heads(values).transpose(1, 2)) + layout.side_by_side(values, BIAS)
    return {**layout.apart(theta), **_not_generating(values, embedding)}


def low_rank_steps(
    form: TrainableNetwork,
    phase: Phase,
    values: Tensors,
    embedding: str,
    batches: Iterable[Batch],
    rates: Tensor,
    optimizer: Sgd,
    weight_decay: float,
) -> tuple[LocalResult, TrainedHeads]:
    """Do a phase of M clients; see ``local.local_steps``.

    Args:
        form: the network.
        phase: one that ``fits``.
        values: by name, [M, ...]; A_0 is taken for common where the first axis of a head has stride 0.
        embedding: its name.
        batches: as many as the phase has steps.
        rates: of every model, [M], float64.
        optimizer: plain or with momentum.
        weight_decay: coefficient of the weights in the gradient.

    Returns:
        The moved values but for the heads' weights, with rates and losses of every step; and the heads' weights.
    """
    layout = _Layout(values)
    small = {
        W: values[HIDDEN + WEIGHT].clone(memory_format=torch.contiguous_format),
        B: values[HIDDEN + BIAS].clone(memory_format=torch.contiguous_format),
        C: layout.side_by_side(values, BIAS),
        V: values[embedding].clone(memory_format=torch.contiguous_format),
    }
    heads = Heads(layout.first_heads(values), len(small[V]), phase.steps)
    own = _not_generating(values, embedding)
    used, state, losses = rates.to(small[V]), optimizer.start(small), []
    for batch in batches:
        u = _hidden(small[W], small[B], small[V])
        theta = heads.generate(u).add_(small[C])
        loss, found = form.gradients({**layout.apart(theta), **own}, batch, layout.shapes)
        g = torch.cat([found[name].flatten(1) for name in layout.shapes], 1)
        gradients, factor = _gradients(small, g, u, heads.pull(g), phase.bound)
        optimizer.step(state, small, gradients, used, weight_decay)
        heads.step(g, u, factor, used, optimizer.momentum, weight_decay)
        losses.append(loss)
    moved = {HIDDEN + WEIGHT: small[W], HIDDEN + BIAS: small[B], embedding: small[V]}
    moved |= {HEADS + name + BIAS: value for name, value in layout.apart(small[C]).items()}
    done = LocalResult(moved, rates[:, None].repeat(1, len(losses)), torch.stack(losses, 1))
    return done, TrainedHeads(heads, layout)


def _not_generating(values: Tensors, embedding: str) -> dict[str, Tensor]:
    return chosen(values, lambda name: not is_hypernetwork(name) and name != embedding)


def _hidden(weight: Tensor, bias: Tensor, embeddings: Tensor) -> Tensor:
    """Return u = relu(W v + b) of every model, [M, H]."""
    return torch.baddbmm(bias[:, :, None], weight, embeddings[:, :, None])[:, :, 0].relu_()


def _gradients(
    small: Mapping[str, Tensor], g: Tensor, u: Tensor, at_u: Tensor, bound: float | None
) -> tuple[dict[str, Tensor], Tensor]:
    """Return the gradients of what is small, cut, and the factor [M] that cuts the hypernetwork's.

    Args:
        small: what is small, before the step.
        g: derivatives by theta, [M, P].
        u: hidden units, [M, H].
        at_u: derivatives by u, [M, H].
        bound: of the norms of hypernetwork and of embedding.
    """
    at_b = at_u * (u > 0)
    at_v = torch.bmm(at_b[:, None], small[W])[:, 0]
    factor = factor_v = torch.ones_like(g[:, 0])
    if bound is not None:
        # |g u^T| = |g| |u|, and the same for the hidden layer
        square = g.square().sum(1) * (1 + u.square().sum(1))
        square += at_b.square().sum(1) * (1 + small[V].square().sum(1))
        factor, factor_v = cut_factor(square, bound), cut_factor(at_v.square().sum(1), bound)
    cut_b = at_b * factor[:, None]
    of_w = cut_b[:, :, None] * small[V][:, None]
    return {W: of_w, B: cut_b, C: g * factor[:, None], V: at_v * factor_v[:, None]}, factor


class _Layout:
    """Where the generated tensors lie when they stand side by side; by rising name, whatever a checkpoint's order."""

    def __init__(self, values: Tensors) -> None:
        self.shapes = {name: tuple(values[HEADS + name + BIAS].shape[1:]) for name in generated_names(values)}

    def side_by_side(self, values: Tensors, kind: str) -> Tensor:
        return torch.cat([values[HEADS + name + kind].flatten(1) for name in self.shapes], 1)

    def first_heads(self, values: Tensors) -> Tensor:
        """Return A_0, [1, P, H] where the models share it."""
        heads = [values[HEADS + name + WEIGHT] for name in self.shapes]
        shared = all(head.stride(0) == 0 for head in heads)
        return torch.cat([(head[:1] if shared else head).flatten(1, -2) for head in heads], 1)

    def apart(self, together: Tensor) -> dict[str, Tensor]:
        """Cut [M, P, ...] into tensors by name, [M, *shape, ...]."""
        parts = torch.split(together, [prod(shape) for shape in self.shapes.values()], 1)
        return {
            name: part.view(len(part), *shape, *part.shape[2:])
            for part, (name, shape) in zip(parts, self.shapes.items(), strict=True)
        }
