"""A small smooth non-convex task for HyperFL's theorem: each client's first layer is generated from its embedding.

Client i classifies x by softmax(P tanh(Theta x) + q) with Theta = A u + c and u = tanh(W v + b). Its head is (P, q),
its embedding is v; (W, b, A, c) is the hypernetwork (HyperFL, section 3.2, with one head for one tensor). Gradients
are written out, because those of single samples then cost no more than their mean.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.func import hessian, vmap

from leaklab.records.streams import stream

Values = Mapping[str, Tensor]
GROUPS: Mapping[str, tuple[str, ...]] = {"head": ("p", "q"), "hypernetwork": ("w", "b", "a", "c"), "embedding": ("v",)}


@dataclass(frozen=True)
class Sizes:
    """Sizes of the network.

    Attributes:
        features: d.
        classes: C.
        units: of the generated layer, h.
        hidden: of the hypernetwork, k.
        embedding: e.
    """

    features: int
    classes: int
    units: int
    hidden: int
    embedding: int

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Return the shape of every value of one client."""
        return {
            "p": (self.classes, self.units),
            "q": (self.classes,),
            "w": (self.hidden, self.embedding),
            "b": (self.hidden,),
            "a": (self.units, self.features, self.hidden),
            "c": (self.units, self.features),
            "v": (self.embedding,),
        }


@dataclass(frozen=True)
class Slopes:
    """Gradients of the mean loss over samples, and how large those of single samples are.

    Attributes:
        losses: mean cross-entropy, [...].
        gradients: of it, by name.
        squares: group -> mean over samples of the squared norm of the group's gradient, [...].
    """

    losses: Tensor
    gradients: dict[str, Tensor]
    squares: dict[str, Tensor]


def first_values(seed: int, sizes: Sizes, repeats: int, clients: int) -> dict[str, Tensor]:
    """Return float64 first values [R, m, ...]: clients share all but their embedding; normal with a usual variance."""
    fan_in = {"p": sizes.units, "w": sizes.embedding, "a": sizes.features * sizes.hidden, "c": sizes.features, "v": 1}
    found = {name: torch.zeros(repeats, clients, *shape, dtype=torch.float64) for name, shape in sizes.shapes.items()}
    for name, count in fan_in.items():
        for repeat in range(repeats):
            draws = stream(seed, "generated", repeat, name)
            own = clients if name == "v" else 1
            found[name][repeat] = draws.normal(own, *sizes.shapes[name]) / count**0.5
    return found


def slopes(values: Values, features: Tensor, labels: Tensor) -> Slopes:
    """Return losses and gradients of stacked clients.

    Args:
        values: by name, [..., shape of ``Sizes``].
        features: [..., n, d].
        labels: one-hot, [..., n, C].
    """
    u = torch.tanh(torch.einsum("...ke,...e->...k", values["w"], values["v"]) + values["b"])
    theta = torch.einsum("...hdk,...k->...hd", values["a"], u) + values["c"]
    z = torch.tanh(features @ theta.mT)
    logits = z @ values["p"].mT + values["q"].unsqueeze(-2)
    losses = (logits.logsumexp(-1) - (logits * labels).sum(-1)).mean(-1)
    n = labels.shape[-2]
    r = logits.softmax(-1) - labels
    g = (r @ values["p"]) * (1 - z.square())
    # of every sample: how its loss moves with u, before and behind the tanh
    at_u = torch.einsum("...hdk,...nh,...nd->...nk", values["a"], g, features)
    at_s = at_u * (1 - u.square()).unsqueeze(-2)
    at_v = at_s @ values["w"]
    at_theta = g.mT @ features / n
    mean_s = at_s.mean(-2)
    gradients = {
        "p": r.mT @ z / n,
        "q": r.mean(-2),
        "w": mean_s.unsqueeze(-1) * values["v"].unsqueeze(-2),
        "b": mean_s,
        "a": at_theta.unsqueeze(-1) * u[..., None, None, :],
        "c": at_theta,
        "v": at_v.mean(-2),
    }
    theta_squares = _square(g) * _square(features)
    generated = theta_squares * (_square(u) + 1).unsqueeze(-1) + _square(at_s) * (_square(values["v"]) + 1).unsqueeze(
        -1
    )
    squares = {"head": _square(r) * (_square(z) + 1), "hypernetwork": generated, "embedding": _square(at_v)}
    return Slopes(losses, gradients, {name: value.mean(-1) for name, value in squares.items()})


def squared_norm(gradients: Values, leading: int) -> Tensor:
    """Return the squared norm of all gradients together; ``leading`` axes stay."""
    return torch.stack([value.flatten(leading).square().sum(-1) for value in gradients.values()]).sum(0)


def curvature(values: Values, features: Tensor, labels: Tensor) -> float:
    """Return the largest absolute eigenvalue of the Hessians of all clients.

    Args:
        values: by name, [M, ...].
        features: [M, n, d].
        labels: one-hot, [M, n, C].
    """
    shapes = {name: value.shape[1:] for name, value in values.items()}
    flat = torch.cat([value.flatten(1) for value in values.values()], 1)

    def loss(point: Tensor, x: Tensor, y: Tensor) -> Tensor:
        parts = torch.split(point, [shape.numel() for shape in shapes.values()])
        own = {name: part.view(shape) for (name, shape), part in zip(shapes.items(), parts, strict=True)}
        u = torch.tanh(own["w"] @ own["v"] + own["b"])
        logits = torch.tanh(x @ (own["a"] @ u + own["c"]).T) @ own["p"].T + own["q"]
        return F.cross_entropy(logits, y)

    found: Tensor = torch.linalg.eigvalsh(vmap(hessian(loss))(flat, features, labels))
    return float(found.abs().max())


def _square(values: Tensor) -> Tensor:
    return values.square().sum(-1)
