"""A small smooth non-convex task for HyperFL's theorem: each client's first layer is generated from its embedding.

Client i classifies x by softmax(P tanh(Theta x) + q) with Theta = A u + c and u = tanh(W v + b). Its head is (P, q),
its embedding is v; (W, b, A, c) is the hypernetwork (HyperFL, section 3.2, with one head for one tensor). Gradients
are written out, because those of single samples then cost no more than their mean.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from scipy.optimize import minimize
from torch import Tensor
from torch.func import hessian, vmap

from leaklab.records import tensor_algebra
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

    found: Tensor = tensor_algebra.eigenvalues(vmap(hessian(loss))(flat, features, labels))
    return float(found.abs().max())


def _square(values: Tensor) -> Tensor:
    return values.square().sum(-1)


# Softmax regression with an L2 term on a few made-up clients: every constant of the convergence theorem is known.

# sample noise beside class centers of standard normal entries
NOISE = 0.5
# a loss whose gradient is g is at most |g|^2 / (2 mu) above its minimum
LARGEST_LOSS_ERROR = 1e-12


@dataclass(frozen=True)
class RidgeSoftmax:
    """The losses L_k(W) = mean of cross-entropies of client k's samples + ridge / 2 |W|^2, k = 1, ..., N.

    Weights are [..., N, d, C], or [..., 1, d, C] where all clients have the same.

    Attributes:
        features: float64, [N, n, d].
        labels: float64, [N, n, C], one-hot.
        ridge: mu, above 0 (twice the lambda of a term lambda |W|^2).
    """

    features: Tensor
    labels: Tensor
    ridge: float

    @property
    def smoothness(self) -> float:
        """Return an L for which every client's loss is L-smooth: a softmax's Hessian is at most 1/2."""
        gram = self.features.mT @ self.features / self.features.shape[1]
        return float(tensor_algebra.eigenvalues(gram).max()) / 2 + self.ridge

    def losses(self, weights: Tensor) -> Tensor:
        """Return L_k(W), [..., N]."""
        logits = self.features @ weights
        entropy = (logits.logsumexp(-1) - (logits * self.labels).sum(-1)).mean(-1)
        return entropy + self.ridge / 2 * weights.square().sum((-2, -1))

    def residuals(self, logits: Tensor) -> Tensor:
        """Return softmax minus label of every sample, shape of ``logits``, [..., N, n, C]."""
        return logits.softmax(-1) - self.labels

    def gradients(self, weights: Tensor) -> Tensor:
        """Return the gradients of L_k(W), [..., N, d, C]."""
        return self.mean_gradients(self.residuals(self.features @ weights), weights)

    def mean_gradients(self, residuals: Tensor, weights: Tensor) -> Tensor:
        """Return the gradients from residuals that are known already."""
        return self.features.mT @ residuals / self.features.shape[1] + self.ridge * weights

    def sample_gradients(self, residuals: Tensor, weights: Tensor, chosen: Tensor) -> Tensor:
        """Return each client's gradient of one sample, [R, N, d, C].

        Args:
            residuals: [R, N, n, C].
            weights: [R, N, d, C].
            chosen: int64, [R, N], place of the sample.
        """
        clients = torch.arange(len(self.features))
        repeats = torch.arange(len(chosen)).unsqueeze(1)
        own = self.features[clients, chosen].unsqueeze(-1) * residuals[repeats, clients, chosen].unsqueeze(-2)
        return own + self.ridge * weights

    def gradient_squares(self, logits: Tensor, residuals: Tensor, weights: Tensor) -> Tensor:
        """Return the mean square of a random sample's gradient x r' + ridge W, [..., N].

        No gradient is formed: |x r'|^2 = |x|^2 |r|^2, and the inner product of x r' with W is that of r with W' x.
        """
        lengths = self.features.square().sum(-1) * residuals.square().sum(-1)
        crossed = (logits * residuals).sum(-1)
        return (lengths + 2 * self.ridge * crossed).mean(-1) + self.ridge**2 * weights.square().sum((-2, -1))


def made_up(
    seed: int, clients: int, samples: int, features: int, classes: int, ridge: float, held: Tensor | None = None
) -> RidgeSoftmax:
    """Return N clients that hold some neighboring classes each; the longest feature vector has length 1.

    Args:
        seed: of all draws.
        clients: N.
        samples: of each client.
        features: d.
        classes: C.
        ridge: mu.
        held: int64, [N], how many classes each client holds; two, if it is not given.
    """
    draws = stream(seed, "ridge-softmax")
    centers = draws.normal(classes, features)
    own = torch.full((clients,), 2) if held is None else held
    places = (torch.arange(clients).unsqueeze(1) + torch.arange(samples) % own.unsqueeze(1)) % classes
    values = centers[places] + NOISE * draws.normal(clients, samples, features)
    values = values / values.square().sum(-1).max().sqrt()
    return RidgeSoftmax(values, torch.nn.functional.one_hot(places, classes).double(), ridge)


def pooled(problem: RidgeSoftmax) -> RidgeSoftmax:
    """Return the problem of one client that holds everyone's samples: its loss is the mean of all L_k."""
    return RidgeSoftmax(problem.features.flatten(0, 1)[None], problem.labels.flatten(0, 1)[None], problem.ridge)


def client(problem: RidgeSoftmax, place: int) -> RidgeSoftmax:
    """Return the problem of one client alone."""
    return RidgeSoftmax(problem.features[[place]], problem.labels[[place]], problem.ridge)


def optimum(problem: RidgeSoftmax) -> tuple[Tensor, float]:
    """Return the weights [d, C] that minimise the only client's loss, and this loss.

    Raises:
        ArithmeticError: the gradient that is left does not prove the loss exact to 1e-12.
    """
    shape = (1, problem.features.shape[-1], problem.labels.shape[-1])

    def value_and_slope(point: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        weights = torch.as_tensor(point).reshape(shape)
        return float(problem.losses(weights)), problem.gradients(weights).flatten().numpy()

    options = {"maxiter": 10_000, "maxfun": 20_000, "ftol": 0.0, "gtol": 1e-10, "maxcor": 30}
    found = minimize(value_and_slope, np.zeros(shape).ravel(), jac=True, method="L-BFGS-B", options=options)
    loss, slope = value_and_slope(found.x)
    if slope @ slope / (2 * problem.ridge) > LARGEST_LOSS_ERROR:
        raise ArithmeticError(f"the optimum was not reached: gradient {np.linalg.norm(slope):.1e}")
    return torch.as_tensor(found.x).reshape(shape[1:]), loss
