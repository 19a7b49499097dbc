"""Mistakes that are planted: what the client really did, beside a description that does not know it."""

from collections.abc import Callable, Iterator, Mapping
from copy import deepcopy
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from leaklab.probing.case import Case
from leaklab.probing.client import Client
from leaklab.probing.exchange import Exchange
from leaklab.probing.grids import on_eight_bits
from replay.networks import NETWORKS, made

State = dict[str, Tensor]
IMAGENET = torch.tensor([[0.485, 0.456, 0.406], [0.229, 0.224, 0.225]]).view(2, 3, 1, 1)
ORDER = [6, 0, 5, 3, 7, 2, 1, 4]


@dataclass
class Truth:
    """What the client really did; ``sent`` is done to what it would have sent, and ``kind`` is what it is then."""

    client: Client
    inputs: Tensor
    targets: Tensor
    other: Mapping[str, Tensor]
    sent: list[Callable[[State], State]] = field(default_factory=list)
    told: bool = False

    def of(self, **changes: Any) -> "Truth":
        """Return the same with a changed client."""
        return replace(self, client=replace(self.client, **changes))


@dataclass(frozen=True)
class Planted:
    """One kind of mistake.

    Attributes:
        title: what the page calls it.
        plant: makes it.
        names: that an explanation must have, no more and no less.
        number: that an explanation must have within 1 %; None for none.
        one: names where the client takes one step, if they differ there.
        steps: of clients that it is tried on.
        fits: which networks can make it.
    """

    title: str
    plant: Callable[[Truth], Truth]
    names: frozenset[str]
    number: float | None = None
    one: frozenset[str] | None = None
    steps: tuple[int, ...] = (1, 4)
    fits: Callable[[str], bool] = lambda name: True

    def expected(self, steps: int) -> frozenset[str]:
        """Return the names that are right for a client of so many steps."""
        return self.one if steps == 1 and self.one is not None else self.names


def described(network: str, steps: int, seed: int) -> tuple[Client, Tensor, Tensor, Mapping[str, Tensor]]:
    """Return a description, its samples, and the state of another round."""
    model, images, labels = made(network, seed)
    client = Client(model, rate=0.1, steps=steps, batch_size=None if steps == 1 else 4)
    moved = replace(client, steps=3, batch_size=None, sends="weights", shares=tuple(model.state_dict()))
    return client, images, labels, moved.round(images.flip(0).roll(1, 3), labels.roll(3)).sent


def case_of(planted: Planted, network: str, steps: int, seed: int) -> tuple[Case, dict[str, Mapping[str, Tensor]]]:
    """Return what a replay is given: a description that is wrong in what was planted, and other states."""
    client, images, labels, other = described(network, steps, seed)
    truth = planted.plant(Truth(client, images, labels, other))
    got = truth.client.round(truth.inputs, truth.targets)
    sent: State = dict(got.sent)
    for change in truth.sent:
        sent = change(sent)
    exchange = Exchange(dict(client.model.state_dict()), sent, client.sends)
    return Case(client, exchange, images, labels), {"the round before": other} if truth.told else {}


def _settings(**changes: Any) -> Callable[[Truth], Truth]:
    return lambda truth: truth.of(**changes)


def _loss(loss: Callable[[Tensor, Tensor], Tensor]) -> Callable[[Truth], Truth]:
    return _settings(loss=loss)


def _optimizer(kind: Any, **settings: Any) -> Callable[[Truth], Truth]:
    return _settings(optimizer=lambda these: kind(these, **settings))


def _images(way: Callable[[Tensor], Tensor]) -> Callable[[Truth], Truth]:
    return lambda truth: replace(truth, inputs=way(truth.inputs))


def _labels(way: Callable[[Tensor], Tensor]) -> Callable[[Truth], Truth]:
    return lambda truth: replace(truth, targets=way(truth.targets))


def _rows(rows: list[int]) -> Callable[[Truth], Truth]:
    return lambda truth: replace(truth, inputs=truth.inputs[rows], targets=truth.targets[rows])


def _each(way: Callable[[Tensor], Tensor]) -> Callable[[Truth], Truth]:
    def change(sent: State) -> State:
        return {name: way(value) for name, value in sent.items()}

    return lambda truth: replace(truth, sent=[*truth.sent, change])


def _both(*plants: Callable[[Truth], Truth]) -> Callable[[Truth], Truth]:
    def plant(truth: Truth) -> Truth:
        for one in plants:
            truth = one(truth)
        return truth

    return plant


def _noise(law: torch.distributions.Distribution) -> Callable[[Truth], Truth]:
    def noisy(value: Tensor) -> Tensor:
        generator = torch.Generator().manual_seed(value.numel())  # a mistake is the same each time it is planted
        uniform = torch.rand(value.shape, generator=generator).clamp(1e-6, 1 - 1e-6)
        return value + law.icdf(uniform)

    return _each(noisy)


def _pruned(sent: State) -> State:
    every = torch.cat([value.abs().flatten() for value in sent.values()])
    least = every.kthvalue(int(0.8 * len(every))).values
    return {name: torch.where(value.abs() > least, value, 0.0) for name, value in sent.items()}


def _step_law(one: torch.optim.Optimizer, law: Callable[[int], float]) -> Any:
    return torch.optim.lr_scheduler.LambdaLR(one, law)


def _pulled(these: list[nn.Parameter]) -> torch.optim.Optimizer:
    for one in these:
        start = one.detach().clone()
        one.register_hook(lambda grad, one=one, start=start: grad + 0.7 * (one.detach() - start))
    return torch.optim.SGD(these, lr=0.1)


def _cut(these: list[nn.Parameter]) -> torch.optim.Optimizer:
    for one in these:
        one.register_hook(lambda grad: grad.clamp(-0.01, 0.01))
    return torch.optim.SGD(these, lr=0.1)


def _focal(output: Tensor, targets: Tensor) -> Tensor:
    each = F.cross_entropy(output, targets, reduction="none")
    return ((1 - torch.exp(-each)) ** 1.5 * each).mean()


def _holding(truth: Truth) -> Truth:
    model = deepcopy(truth.client.model)
    model.load_state_dict(dict(truth.other), strict=True)
    return replace(truth.of(model=model), told=True)


def _against(share: float, away: float) -> Callable[[Truth], Truth]:
    """Return that an update is mixed with another state: share of it, and away of what leads to that state."""

    def plant(truth: Truth) -> Truth:
        before = truth.client.model.state_dict()

        def change(sent: State) -> State:
            return {n: share * value + away * (truth.other[n] - before[n]) for n, value in sent.items()}

        return replace(truth, sent=[*truth.sent, change], told=True)

    return plant


def _frozen(truth: Truth) -> Truth:
    model = deepcopy(truth.client.model)
    first = next(iter(model.parameters()))
    first.requires_grad_(False)
    name = next(iter(dict(model.named_parameters())))
    zero: Callable[[State], State] = lambda sent: {name: torch.zeros_like(first), **sent}  # noqa: E731
    return replace(truth.of(model=model), sent=[*truth.sent, zero])


def _several(truth: Truth) -> Truth:
    rows = torch.tensor([1, 4, 5])
    inputs = truth.inputs.clone()
    inputs[rows] = inputs[rows].flip(-1)
    return replace(truth, inputs=inputs)


def _relabelled(labels: Tensor) -> Tensor:
    return torch.cat([labels[:2], (labels[2:3] + 3) % 10, labels[3:]])


def _names(*names: str) -> frozenset[str]:
    return frozenset(names)


def _is(*names: str) -> Callable[[str], bool]:
    return lambda name: name in names


def colour(name: str) -> bool:
    """Return whether a network takes images of three channels."""
    return NETWORKS[name].channels == 3


def visible(name: str) -> bool:
    """Return whether scale and shift of images change an update: batch norm after a bare convolution undoes both."""
    return not NETWORKS[name].batch_norm


SGD, ADAM = torch.optim.SGD, torch.optim.Adam
MANY, ONE = (4,), (1,)
FACTOR = _names("factor")
WEIGHTS = torch.tensor([1.0, 3.0, 0.5, 2.0, 1.0, 1.0, 4.0, 1.0, 1.0, 1.0])
SMOOTH = _loss(partial(F.cross_entropy, label_smoothing=0.07))
MIRROR, BGR = _images(lambda x: x.flip(-1)), _images(lambda x: x.flip(1))
BFLOAT = _each(lambda value: value.bfloat16().float())
DECAY = _optimizer(SGD, lr=0.1, weight_decay=0.004)
NOISE = _noise(torch.distributions.Normal(0.0, 5e-4))

ALONE = (
    Planted("rate x 0.3", _settings(rate=0.03), _names("rate"), 0.03, FACTOR),
    Planted("loss x 0.5", _loss(lambda o, t: 0.5 * F.cross_entropy(o, t)), _names("loss factor"), 0.5, FACTOR),
    Planted("loss summed", _loss(partial(F.cross_entropy, reduction="sum")), _names("sum")),
    Planted("share of a quarter", _each(lambda value: 0.25 * value), FACTOR, 0.25),
    Planted("sign", _each(torch.neg), _names("sign")),
    Planted("label smoothing", SMOOTH, _names("label smoothing"), 0.07),
    Planted("class weights", _loss(partial(F.cross_entropy, weight=WEIGHTS)), _names("class weights")),
    Planted("temperature", _loss(lambda o, t: F.cross_entropy(o / 1.7, t)), _names("temperature"), 1.7),
    Planted("focal loss", _loss(_focal), _names("focal loss"), 1.5),
    Planted("squared error", _loss(lambda o, t: F.mse_loss(o, F.one_hot(t, 10).float())), _names("loss")),
    Planted("softmax twice", _loss(lambda o, t: F.cross_entropy(o.softmax(1), t)), _names("loss")),
    Planted("labels off by one", _labels(lambda labels: (labels + 1) % 10), _names("labels")),
    Planted("labels of the next sample", _labels(lambda labels: labels.roll(-1)), _names("labels")),
    Planted("one wrong label", _labels(_relabelled), _names("labels")),
    Planted("eval mode", _settings(mode="eval"), _names("mode"), fits=_is("residual BN", "transformer")),
    Planted("another seed of dropout", _settings(seed=7), _names("seed"), fits=_is("transformer")),
    Planted("momentum", _optimizer(SGD, lr=0.1, momentum=0.8), _names("momentum"), 0.8, steps=MANY),
    Planted("Nesterov", _optimizer(SGD, lr=0.1, momentum=0.8, nesterov=True), _names("nesterov"), 0.8, FACTOR),
    Planted("Adam", _optimizer(ADAM, lr=0.002), _names("Adam"), 0.002),
    Planted("AdamW", _optimizer(torch.optim.AdamW, lr=0.002), _names("AdamW"), 0.002),
    Planted("RMSprop", _optimizer(torch.optim.RMSprop, lr=0.002), _names("RMSprop"), 0.002),
    Planted("Adagrad", _optimizer(torch.optim.Adagrad, lr=0.02), _names("Adagrad"), 0.02),
    Planted("weight decay", DECAY, _names("decay"), 0.004),
    Planted("proximal term", _settings(optimizer=_pulled), _names("proximal"), 0.7, steps=MANY),
    Planted("three steps", _settings(steps=3), _names("steps")),
    Planted("batches of two", _settings(batch_size=2), _names("batch size")),
    Planted("two batches to a step", _settings(accumulate=2), _names("accumulation"), steps=MANY),
    Planted("rates 1 / t", _settings(schedule=partial(_step_law, law=lambda step: 1 / (step + 1))),
            _names("schedule"), steps=MANY),
    Planted("rates that fall by 0.8", _settings(schedule=partial(_step_law, law=partial(pow, 0.8))),
            _names("schedule"), 0.8, steps=MANY),
    Planted("clipping", _settings(clip=0.3), _names("clip"), 0.3, FACTOR),
    Planted("clipping by value", _settings(optimizer=_cut), _names("clip by value"), 0.01),
    Planted("another order", _rows(ORDER), _names("order"), steps=MANY),
    Planted("reverse order", _rows([*range(7, -1, -1)]), _names("order"), steps=MANY),
    Planted("a sample left out", _rows([0, 1, 2, 4, 5, 6, 7]), _names("dropped")),
    Planted("a sample taken for another", _rows([0, 1, 2, 6, 4, 5, 6, 7]), _names("repeated")),
    Planted("normalised, ImageNet", _images(lambda x: (x - IMAGENET[0]) / IMAGENET[1]), _names("normalisation"),
            fits=colour),
    Planted("times 255", _images(lambda x: 255 * x), _names("normalisation"), fits=visible),
    Planted("times 1.3 minus 0.2", _images(lambda x: 1.3 * x - 0.2), _names("normalisation"), 1.3,
            fits=visible),
    Planted("mirrored", MIRROR, _names("mirror")),
    Planted("rows and columns swapped", _images(lambda x: x.transpose(2, 3)), _names("axes")),
    Planted("BGR", BGR, _names("channels"), fits=colour),
    Planted("some mirrored", _several, _names("augmentation")),
    Planted("normal noise", NOISE, _names("noise"), 5e-4),
    Planted("Laplace noise", _noise(torch.distributions.Laplace(0.0, 4e-4)), _names("noise"), 4e-4 * 2**0.5),
    Planted("bfloat16", BFLOAT, _names("rounding")),
    Planted("float16", _each(lambda value: value.half().float()), _names("rounding")),
    Planted("8 bits", _each(on_eight_bits), _names("rounding")),
    Planted("pruned", lambda truth: replace(truth, sent=[_pruned]), _names("pruned")),
    Planted("signs", _each(lambda value: 1e-3 * value.sign()), _names("signs"), 1e-3),
    Planted("weights of another round", _holding, _names("weights")),
    Planted("mean with another state", _against(0.6, 0.4), _names("averaged"), 0.4),
    Planted("difference to another state", _against(1.0, -1.0), _names("difference")),
    Planted("weights for a difference", _settings(sends="weights"), _names("sends")),
    Planted("gradient for a difference", _settings(sends="gradient", steps=1), _names("sends")),
    Planted("first tensor frozen", _frozen, _names("frozen")),
    Planted("mixed precision", _settings(precision=torch.bfloat16), _names("precision")),
)  # fmt: skip
PAIRED = (
    Planted("smoothing, mirrored", _both(SMOOTH, MIRROR), _names("label smoothing", "mirror"), 0.07),
    Planted("smoothing, decay", _both(DECAY, SMOOTH), _names("label smoothing", "decay"), 0.07),
    Planted("rate, smoothing", _both(_settings(rate=0.03), SMOOTH), _names("rate", "label smoothing"), 0.07,
            _names("factor", "label smoothing")),
    Planted("eval mode, decay", _both(_settings(mode="eval"), DECAY), _names("mode", "decay"), 0.004,
            fits=_is("residual BN", "transformer")),
    Planted("Adam, times 255", _both(_optimizer(ADAM, lr=0.002), _images(lambda x: 255 * x)),
            _names("Adam", "normalisation"), 0.002),
    Planted("BGR, decay", _both(BGR, DECAY), _names("channels", "decay"), 0.004, fits=colour),
    Planted("labels off, momentum", _both(_labels(lambda labels: (labels + 1) % 10),
            _optimizer(SGD, lr=0.1, momentum=0.8)), _names("labels", "momentum"), 0.8, steps=MANY),
    Planted("other weights, smoothing", _both(_holding, SMOOTH), _names("weights", "label smoothing"), 0.07),
    Planted("mirrored, bfloat16", _both(MIRROR, BFLOAT), _names("mirror", "rounding")),
    Planted("smoothing, pruned", _both(SMOOTH, lambda truth: replace(truth, sent=[_pruned])),
            _names("label smoothing", "pruned"), 0.07),
    Planted("quarter share, noise", _both(_each(lambda value: 0.25 * value), NOISE), _names("factor", "noise")),
    Planted("three steps, mirrored", _both(_settings(steps=3), MIRROR), _names("steps", "mirror")),
)  # fmt: skip


def _strangers(images: Tensor) -> Tensor:
    generator = torch.Generator().manual_seed(5)  # the same strangers each time they are planted
    return torch.rand(images.shape, generator=generator)


UNNAMED = (
    Planted("other samples", _images(_strangers), _names()),
    Planted("other weights, not given", lambda truth: replace(_holding(truth), told=False), _names()),
    Planted("a mean with what nobody knows", lambda truth: replace(_against(0.5, 0.5)(truth), told=False), _names()),
)  # fmt: skip


def every() -> Iterator[tuple[str, Planted]]:
    """Yield all kinds with their group."""
    for group, kinds in (("alone", ALONE), ("in pairs", PAIRED), ("without a name", UNNAMED)):
        for kind in kinds:
            yield group, kind
