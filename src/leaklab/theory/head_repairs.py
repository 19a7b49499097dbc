"""What would stop the head attack on HyperFL, and what would not: one client's image read under each repair.

One step on one smooth random image, float64; under ``steps`` several. In each row the attacker reads the extractor's
weights and gradient off what is left of the message, fits a classifier to them and inverts by the same IG.

Source: not in the HyperFL paper; its sections 3.2 and 4.1 say what is shared.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from statistics import fmean, stdev
from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.func import functional_call

from leaklab.attacks.matching.distances import Distance
from leaklab.attacks.private_parts.heads import (
    Read,
    completed,
    factors_from_heads,
    factors_from_hidden_layer,
    leading_term,
    read,
    terms_of,
)
from leaklab.attacks.private_parts.hypernetwork import Heads, of_extractor
from leaklab.models.hypernetwork import Hypernetwork, Start
from leaklab.observations.base import Observation
from leaklab.records.bounds import Count, Positive
from leaklab.records.streams import Stream, stream
from leaklab.records.traits import CheckTraits
from leaklab.theory.base import Clients, Number, Track
from leaklab.theory.hyper_client import RATE, HyperClient, Setting, image_of, psnr

NAME = "head-repairs"
FEDAVG, PRINTED, UNRELATED = "fedavg", "printed", "unrelated"
NO_HEAD_BIASES, NO_BIASES, NOISY_BIASES, SUM = "no-head-biases", "no-biases", "noisy-biases", "sum"
STEPS, NOISE, NOISE_FEDAVG, PRIVATE = "steps", "noise", "noise-fedavg", "private-heads"
FIRST_LAYER = "conv1.weight"
SIZES = ((0.4, 0.5, 0.63, 0.8, 1.0, 1.25, 1.6, 2.0, 2.5), (0.91, 0.95, 1.0, 1.05, 1.1))
"""Factors on the usual size of the weights, and then on the best of them."""


@dataclass(frozen=True)
class HeadRepairs:
    """The head attack under each repair.

    Attributes:
        images: how many clients are attacked, of one image each.
        clients: in the sum that secure aggregation leaves; at least ``images``.
        steps: of the client that sends the change of several steps.
        noise: deviation of the noise on one coordinate, over the root mean square of what it is added to.
        side: height and width of the gray images.
        classes: of the labels.
        embedding: length of an embedding.
        hidden: units of the hypernetwork.
        iterations: of IG, one start each.
    """

    traits: ClassVar[CheckTraits] = CheckTraits(seconds=600.0)

    images: Count = 6
    clients: Count = 10
    steps: Count = 5
    noise: Positive = 1.0
    side: Count = 28
    classes: Count = 10
    embedding: Count = 64
    hidden: Count = 128
    iterations: Count = 1500

    def run(self, seed: int, clients: Clients | None, track: Track) -> Iterable[Number]:
        """Return numbers by ``repair``; the deal is not looked at.

        ``psnr``: of the reconstruction, mean over the clients, in dB. ``gradient_error``: sine of the angle between
        the extractor's gradient and what was read, ``weights_error``: distance of the extractor's weights as a part
        of their length; largest of all clients. Row ``fedavg`` has the plain gradient, behind the true classifier, row
        ``unrelated`` the PSNR of another client's image.
        """
        found: dict[str, list[_Found]] = {}
        of_sum = _of_sum(self, seed)
        for number in track(range(self.images), self.images, NAME):
            for repair, one in _attacks(self, seed, number, of_sum):
                found.setdefault(repair, []).append(one)
        for repair, several in found.items():
            row, values = {"repair": repair}, [one.psnr for one in several]
            spread = stdev(values) if len(values) > 1 else None
            yield Number("psnr", fmean(values), row, std=spread, n=len(values))
            for metric in ("gradient_error", "weights_error"):
                errors = [getattr(one, metric) for one in several if getattr(one, metric) is not None]
                if errors:
                    yield Number(metric, max(errors), row, n=len(errors))

    def setting(self, seed: int, start: Start = "biases") -> Setting:
        """Return what the clients share."""
        return Setting(NAME, seed, self.side, self.classes, self.embedding, self.hidden, start)


@dataclass(frozen=True)
class _Found:
    psnr: float
    gradient_error: float | None = None
    weights_error: float | None = None


def _attacks(check: HeadRepairs, seed: int, number: int, of_sum: Sequence[Read]) -> Iterator[tuple[str, _Found]]:
    """Yield each repair with what is found of one client."""
    printed = HyperClient(check.setting(seed), number)
    bare = HyperClient(check.setting(seed, "weights"), number)
    draws = stream(seed, NAME, "noise", number)
    yield FEDAVG, _inverted(check, printed, _plain(printed))
    yield PRINTED, _from_heads(check, printed, printed.gradient)
    yield NO_HEAD_BIASES, _from_hidden_layer(check, bare, bare.gradient)
    yield NO_BIASES, _up_to_size(check, bare, seed)
    noisy = replace(printed.gradient, c=_noisy(printed.gradient.c, check.noise, draws))
    yield NOISY_BIASES, _from_heads(check, printed, noisy)
    # which of those that were read is this one is looked up: the sum does not say
    wanted = printed.flat(printed.made)
    yield SUM, _of_read(check, printed, min(of_sum, key=lambda one: float((one.weights - wanted).norm())))
    yield STEPS, _from_heads(check, printed, _mean_gradient(printed, check.steps))
    yield NOISE, _from_noise(check, printed, draws)
    plain = {name: _noisy(value, check.noise, draws) for name, value in _plain(printed).update.items()}
    yield NOISE_FEDAVG, _inverted(check, printed, replace(_plain(printed), update=plain))
    yield PRIVATE, _without_heads(check, printed, seed)
    yield UNRELATED, _Found(psnr(image_of(printed.setting, number + check.images), printed.image))


def _plain(client: HyperClient) -> Observation:
    return client.observation(
        {**client.made, **client.classifier}, {name: value[None] for name, value in client.slopes.items()}
    )


def _from_heads(check: HeadRepairs, client: HyperClient, gradient: Heads) -> _Found:
    """Attack with what the gradients of the heads' weights and biases tell."""
    terms = leading_term(gradient.a)
    return _of_read(check, client, read(terms, client.sent, factors_from_heads(terms, gradient.c))[0])


def _from_hidden_layer(check: HeadRepairs, client: HyperClient, gradient: Heads) -> _Found:
    """Attack heads without biases: the hidden layer's bias tells the scale."""
    terms = leading_term(gradient.a)
    return _of_read(
        check, client, read(terms, client.sent, factors_from_hidden_layer(terms, client.sent, gradient.b))[0]
    )


def _up_to_size(check: HeadRepairs, client: HyperClient, seed: int) -> _Found:
    """Attack a hypernetwork without any bias: of several sizes of the weights the one that IG matches best.

    They are tried around the usual size, which the public initialisation tells.
    """
    terms = leading_term(client.gradient.a)
    made = client.sent.apart(client.sent.generated(terms.units[0]))[FIRST_LAYER]
    usual = HyperClient(check.setting(seed + 1), client.number).made[FIRST_LAYER]
    factor = made.std() / usual.std()
    for sizes in SIZES:
        factors = [factor / size for size in sizes]
        tried = [_whole(client, read(terms, client.sent, one[None])[0]) for one in factors]
        losses = [client.searched(one, None, check.iterations // 4)[1] for one in tried]
        factor = factors[losses.index(min(losses))]
    return _of_read(check, client, read(terms, client.sent, factor[None])[0])


def _of_sum(check: HeadRepairs, seed: int) -> list[Read]:
    """Return what is read of every client in the sum of their messages."""
    clients = [HyperClient(check.setting(seed), number) for number in range(max(check.clients, check.images))]
    summed = reduce(_added, (client.gradient for client in clients))
    terms = terms_of(summed.a, stream(seed, NAME, SUM))
    return read(terms, clients[0].sent, factors_from_heads(terms, summed.c))


def _added(first: Heads, second: Heads) -> Heads:
    parts = (getattr(first, name) + getattr(second, name) for name in ("a", "c", "w", "b"))
    return Heads(first.shapes, *parts)


def _from_noise(check: HeadRepairs, client: HyperClient, draws: Stream) -> _Found:
    """Attack a message that is noisy everywhere, with as much noise for its length as the plain gradient gets."""
    clean = client.gradient
    # of the whole message, so that clipping to one length would give plain and generated gradients the same noise
    deviation = check.noise * clean.squared_norm().sqrt() / len(clean.c) ** 0.5
    parts = (value + deviation * draws.normal(*value.shape) for value in (clean.a, clean.c, clean.w, clean.b))
    return _from_heads(check, client, Heads(clean.shapes, *parts))


def _without_heads(check: HeadRepairs, client: HyperClient, seed: int) -> _Found:
    """Attack a client that keeps its heads: embedding and inner derivative are read, the heads are drawn."""
    inner = client.gradient.b
    embedding = inner @ client.gradient.w / inner.square().sum()
    own = HyperClient(check.setting(seed + 1), client.number).sent
    drawn = replace(own, w=client.sent.w, b=client.sent.b)
    hidden = drawn.hidden(embedding)
    weights = drawn.generated(hidden)
    # what the extractor's gradient has to be like: seen through the drawn heads as the inner derivative was
    slope = (drawn.a * (hidden > 0)) @ inner
    seen = of_extractor(client.message(), drawn, weights, slope)
    whole = completed(seen, client.knowledge(), "drawn", seed, NAME)
    image = client.inverted(whole, _through(drawn.a * (hidden > 0), inner), check.iterations)
    return _Found(psnr(image, client.image))


def _through(reached: Tensor, inner: Tensor) -> Distance:
    """Return 1 - cos(A^T g', inner) as a ``Distance``."""

    def distance(gradients: Sequence[Tensor], observed: Sequence[Tensor]) -> tuple[Tensor, list[Tensor], Tensor]:
        flat = torch.cat([value.flatten(1) for value in gradients], 1)
        seen, unit = flat @ reached, inner / inner.norm()
        length = seen.norm(dim=1).clamp_min(torch.finfo(seen.dtype).tiny)
        cosine = seen @ unit / length
        turned = (cosine[:, None] * seen / length[:, None] - unit) / length[:, None]
        sizes = [value[0].numel() for value in gradients]
        parts = torch.split(turned @ reached.T, sizes, 1)
        shaped = [part.view_as(like) for part, like in zip(parts, gradients, strict=True)]
        return 1 - cosine, shaped, torch.ones_like(cosine)

    return distance


def _mean_gradient(client: HyperClient, steps: int) -> Heads:
    """Return the hypernetwork's change over its rate after several steps on the client's image, by step."""
    generator = Hypernetwork(client.setting.embedding, client.setting.hidden)
    first = client.sent.tensors()
    values, embedding, label = dict(first), client.embedding, torch.tensor([client.label])
    for _ in range(steps):
        leaves = {name: value.detach().clone().requires_grad_() for name, value in values.items()}
        own = embedding.detach().clone().requires_grad_()
        network = {**generator(leaves, own), **client.classifier}
        loss = F.cross_entropy(functional_call(client.network, network, (client.image[None],)), label)
        slopes = torch.autograd.grad(loss, [*leaves.values(), own])
        values = {
            name: value.detach() - RATE * slope
            for (name, value), slope in zip(leaves.items(), slopes[:-1], strict=True)
        }
        embedding = own.detach() - RATE * slopes[-1]
    change = {name: (first[name] - value) / (RATE * steps) for name, value in values.items()}
    return Heads.of(change, list(client.sent.shapes), NAME)


def _of_read(check: HeadRepairs, client: HyperClient, found: Read) -> _Found:
    """Invert what was read behind a fitted classifier."""
    whole = _whole(client, found)
    weights, slope = client.flat(client.made), client.flat(client.slopes)
    # by what is left beside the true direction: 1 - cos^2 could not tell errors below 1e-8 from 0
    wanted, read_off = slope / slope.norm(), found.slope / found.slope.norm()
    sine = float((read_off - (read_off @ wanted) * wanted).norm())
    inverted = _inverted(check, client, whole)
    distance = float((found.weights - weights).norm() / weights.norm())
    return replace(inverted, gradient_error=sine, weights_error=distance)


def _whole(client: HyperClient, found: Read) -> Observation:
    seen = of_extractor(client.message(), client.sent, found.weights, found.slope)
    return completed(seen, client.knowledge(), "fitted", client.setting.seed, NAME)


def _inverted(check: HeadRepairs, client: HyperClient, observation: Observation) -> _Found:
    return _Found(psnr(client.inverted(observation, None, check.iterations), client.image))


def _noisy(value: Tensor, noise: float, draws: Stream) -> Tensor:
    return value + noise * value.square().mean().sqrt() * draws.normal(*value.shape)


PLUGIN = HeadRepairs
