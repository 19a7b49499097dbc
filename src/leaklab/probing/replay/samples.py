"""Mistakes about the samples: their normalisation, axes, order, and which of them were used."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from math import isqrt

import torch
from torch import Tensor

from leaklab.probing.replay.mistake import Mistake, Numbers, Setting, simple

Map = Callable[[Tensor], Tensor]
FAMILIES: dict[str, tuple[tuple[float, ...], tuple[float, ...]]] = {
    "ImageNet": ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225)),
    "CIFAR-10": ((0.4914, 0.4822, 0.4465), (0.2470, 0.2435, 0.2616)),
    "CIFAR-10 (0.2023)": ((0.4914, 0.4822, 0.4465), (0.2023, 0.1994, 0.2010)),
    "CIFAR-100": ((0.5071, 0.4865, 0.4409), (0.2673, 0.2564, 0.2762)),
    "MNIST": ((0.1307,), (0.3081,)),
    "Fashion-MNIST": ((0.2860,), (0.3530,)),
    "0.5 and 0.5": ((0.5,), (0.5,)),
}
"""Means and deviations that people normalise images on [0, 1] with, by channel."""
SQUARES = 16
"""Smallest flat sample that may be a square image."""


def sample_mistakes(setting: Setting) -> Iterator[Mistake]:
    """Yield mistakes about the samples."""
    if setting.inputs.is_floating_point():
        yield from _normalisations(setting)
        yield from _pictures(setting.inputs)
    yield from _orders(setting)


def mapped(setting: Setting, way: Map) -> Setting:
    """Return the setting with other samples, as held."""
    return replace(setting, inputs=way(setting.inputs))


def _prepared(setting: Setting, way: Map) -> Setting:
    """Return the setting with ``way`` after what prepares samples."""
    own = setting.client.prepare
    return setting.of(prepare=way if own is None else lambda samples: way(own(samples)))


def _normalisations(setting: Setting) -> Iterator[Mistake]:
    own, inputs = setting.client.prepare, setting.inputs
    group = "normalisation"
    if own is not None:
        yield simple(group, "samples that are not prepared", partial(Setting.of, prepare=None), group)
        yield simple(group, "samples that are prepared twice", partial(_prepared, way=own), group)
    channels = inputs.shape[1] if inputs.dim() == 4 else 1
    for name, (means, deviations) in FAMILIES.items():
        if len(means) not in (1, channels):
            continue
        shape = (-1, 1, 1) if inputs.dim() == 4 else (-1,)
        mean, deviation = (torch.tensor(values).to(inputs).view(shape) for values in (means, deviations))
        if inputs.dim() != 4:
            mean, deviation = mean[0], deviation[0]
        there, back = partial(_normal, mean=mean, by=deviation), partial(_raw, mean=mean, by=deviation)
        instead = " in place of what is described" if own is not None else ""
        says = f"samples normalised with the mean and deviation of {name}{instead}"
        yield simple(group, says, partial(Setting.of, prepare=there), group)
        if own is None:
            says = f"samples before the normalisation of {name}, which is in the given ones"
            yield simple(group, says, partial(Setting.of, prepare=back), group)
    ways: dict[str, Map] = {
        "samples times 255": lambda x: x * 255,
        "samples divided by 255": lambda x: x / 255,
        "samples standardised one by one": lambda x: (x - _each(x, "mean")) / _each(x, "std"),
        "samples standardised over all": lambda x: (x - x.mean()) / x.std(),
        "samples as 1 - x": lambda x: 1 - x,
    }
    for says, way in ways.items():
        yield simple(group, says, partial(mapped, way=way), group)
    starts = ((1.0, 0.0), (2.0, -1.0), (0.5, 0.5), (4.0, -1.5))
    says = "samples times {:.4g} plus {:.4g}"
    yield Mistake(group, says, _affine, None, starts, -torch.inf, groups=frozenset({group}))


def _affine(one: Setting, numbers: Numbers) -> Setting:
    factor, shift = numbers
    return _prepared(one, lambda samples: samples * factor + shift)


def _normal(samples: Tensor, mean: Tensor, by: Tensor) -> Tensor:
    return (samples - mean) / by


def _raw(samples: Tensor, mean: Tensor, by: Tensor) -> Tensor:
    return samples * by + mean


def _each(samples: Tensor, what: str) -> Tensor:
    flat = samples.flatten(1)
    value = flat.mean(1) if what == "mean" else flat.std(1)
    return value.view(-1, *(1,) * (samples.dim() - 1))


def _pictures(inputs: Tensor) -> Iterator[Mistake]:
    """Yield pictures that are turned, mirrored or with other axes; flat samples of a square length are pictures too."""
    shape = inputs.shape
    side = isqrt(shape[-1])
    flat = inputs.dim() == 2 and side**2 == shape[-1] and side**2 >= SQUARES
    if inputs.dim() not in (3, 4) and not flat:
        return
    ways: dict[str, tuple[str, Map]] = {
        "mirrored left to right": ("mirror", lambda x: x.flip(-1)),
        "upside down": ("mirror", lambda x: x.flip(-2)),
        "turned by 180 degrees": ("axes", lambda x: x.flip(-1, -2)),
    }
    if flat or shape[-1] == shape[-2]:
        ways["with rows and columns swapped"] = ("axes", lambda x: x.transpose(-1, -2))
        ways["turned by 90 degrees"] = ("axes", lambda x: x.rot90(1, (-2, -1)))
        ways["turned by -90 degrees"] = ("axes", lambda x: x.rot90(-1, (-2, -1)))
    if inputs.dim() == 4 and shape[1] > 1:
        last = (shape[0], *shape[2:], shape[1])
        ways["with channels in reverse order (BGR)"] = ("channels", lambda x: x.flip(1))
        ways["of which the channels come last"] = ("axes", lambda x: x.permute(0, 2, 3, 1).reshape(shape))
        ways["of which channels last was read as first"] = (
            "axes",
            lambda x: x.reshape(last).permute(0, 3, 1, 2).contiguous(),
        )
    for name, (what, way) in ways.items():
        whole = partial(_square, way=way, side=side) if flat else way
        yield simple(what, f"samples {name}", partial(mapped, way=whole), "axes", what)


def _square(samples: Tensor, way: Map, side: int) -> Tensor:
    return way(samples.view(-1, side, side)).reshape(samples.shape)


def mirrored(setting: Setting, rows: Tensor) -> Setting:
    """Return the setting with some samples mirrored left to right.

    Args:
        setting: with pictures, or flat squares.
        rows: [N], bool.
    """
    x = setting.inputs
    side = isqrt(x.shape[-1])
    turned = _square(x, lambda one: one.flip(-1), side) if x.dim() == 2 else x.flip(-1)
    return replace(setting, inputs=torch.where(rows.view(-1, *(1,) * (x.dim() - 1)), turned, x))


def taken(setting: Setting, rows: Tensor) -> Setting:
    """Return the setting with the samples and targets of some rows, in their order."""
    return replace(setting, inputs=setting.inputs[rows], targets=setting.targets[rows])


def _orders(setting: Setting) -> Iterator[Mistake]:
    """Yield other orders; where every step takes all samples, the order does not matter."""
    size, samples = setting.client.batch_size or len(setting.inputs), len(setting.inputs)
    if size >= samples:
        return
    ways: dict[str, Tensor] = {
        "in reverse order": torch.arange(samples).flip(0),
        "dealt in turn to the batches": torch.arange(samples).view(-1, size).t().flatten()
        if samples % size == 0
        else torch.arange(samples),
    }
    if setting.targets.dim() == 1:
        ways["sorted by target"] = torch.argsort(setting.targets.cpu(), stable=True)
    if samples % size:
        ways["without the last batch, which is not full"] = torch.arange(samples - samples % size)
    for name, rows in ways.items():
        what = "dropped" if name.startswith("without") else "order"
        yield simple(what, f"samples {name}", partial(taken, rows=rows), "order")


def dropped(setting: Setting) -> Iterator[Mistake]:
    """Yield that one sample was left out, or came twice, in place of another one or besides."""
    samples = len(setting.inputs)
    if samples < 2:
        return
    full = setting.client.batch_size is None
    for left in range(samples):
        rows = torch.tensor([row for row in range(samples) if row != left])
        yield _rows("dropped", f"sample {left} left out", rows)
        twice = torch.cat([torch.arange(left + 1), torch.arange(left, samples)])
        yield _rows("repeated", f"sample {left} taken twice", twice)
    for left in range(samples):
        for other in range(samples):
            if other != left and (not full or samples <= 16):
                rows = torch.arange(samples)
                rows[left] = other
                yield _rows("repeated", f"sample {other} in place of sample {left}", rows)


def _rows(name: str, says: str, rows: Tensor) -> Mistake:
    return simple(name, says, partial(taken, rows=rows), "order", paired=False)


def relabelled(setting: Setting, classes: int) -> Iterator[Mistake]:
    """Yield that one sample has another label."""
    for row, label in enumerate(setting.targets.tolist()):
        for other in range(classes):
            if other != label:
                targets = setting.targets.clone()
                targets[row] = other
                says = f"sample {row} has label {other}, not {label}"
                yield simple("labels", says, partial(replace, targets=targets), "labels", paired=False)
