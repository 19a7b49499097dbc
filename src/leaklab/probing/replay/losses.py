"""Mistakes about the loss and the targets."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from leaklab.probing.client import Loss
from leaklab.probing.replay.mistake import Mistake, Setting, numbered, simple

MOST_CLASSES = 32
"""Classes up to which each has a weight of its own."""
PLAIN = "cross entropy"


def loss_mistakes(setting: Setting, output: Any) -> Iterator[Mistake]:
    """Yield mistakes about the loss.

    Args:
        setting: as described.
        output: of the model for the samples; other losses are tried only where it is one tensor.
    """
    if isinstance(output, Tensor) and output.is_floating_point():
        if is_classes(output, setting.targets):
            yield from _of_classes(setting, output)
        elif output.shape == setting.targets.shape:
            yield from _of_values(setting, output)
    yield from _lengths(setting)


def is_classes(output: Tensor, targets: Tensor) -> bool:
    """Return whether targets are indices of classes on an axis of the output: [B, K, ...], or [B, T, K] of texts."""
    whole = targets.dim() > 0 and not targets.is_floating_point() and output.dim() == targets.dim() + 1
    return whole and _by_class(output, targets).shape[2:] == targets.shape[1:] and targets.dtype != torch.bool


def class_count(output: Any, targets: Tensor) -> int | None:
    """Return the number of classes among which targets [B] choose; None where they are no such labels."""
    if not isinstance(output, Tensor) or targets.dim() != 1 or not is_classes(output, targets):
        return None
    return output.shape[1]


def _by_class(output: Tensor, targets: Tensor) -> Tensor:
    """Return the output with its classes on axis 1."""
    texts = output.dim() == 3 and output.shape[:2] == targets.shape
    return output.transpose(1, 2) if texts else output


def cross_entropy(output: Tensor, targets: Tensor, **settings: Any) -> Tensor:
    """Return the cross entropy over the classes, with settings of ``F.cross_entropy``."""
    return F.cross_entropy(_by_class(output, targets), targets, **settings)


def _one_hot(output: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
    values = _by_class(output, targets).movedim(1, -1)
    return values, F.one_hot(targets, values.shape[-1]).to(values)


def _against_one_hot(output: Tensor, targets: Tensor, loss: Callable[[Tensor, Tensor], Tensor]) -> Tensor:
    return loss(*_one_hot(output, targets))


def _twice(output: Tensor, targets: Tensor) -> Tensor:
    return F.cross_entropy(_by_class(output, targets).softmax(1), targets)


def _bare(output: Tensor, targets: Tensor) -> Tensor:
    return F.nll_loss(_by_class(output, targets), targets)


def _margin(output: Tensor, targets: Tensor) -> Tensor:
    return F.multi_margin_loss(_by_class(output, targets), targets)


def _focal(output: Tensor, targets: Tensor, power: float) -> Tensor:
    each = F.cross_entropy(_by_class(output, targets), targets, reduction="none")
    return ((1 - torch.exp(-each)) ** power * each).mean()


def _of_classes(setting: Setting, output: Tensor) -> Iterator[Mistake]:
    own = setting.client.loss
    laws: dict[str, Loss] = {
        PLAIN: cross_entropy,
        "squared error to one-hot targets": partial(_against_one_hot, loss=F.mse_loss),
        "binary cross entropy to one-hot targets": partial(_against_one_hot, loss=F.binary_cross_entropy_with_logits),
        "cross entropy of a softmax, so softmax twice": _twice,
        "likelihood without a log-softmax before it": _bare,
        "multi-class margin": _margin,
    }
    if same(own, cross_entropy, output, setting.targets):
        del laws[PLAIN]
    yield from _replacing(laws)
    yield numbered("label smoothing", "label smoothing of {:.4g}", _smoothed, (0.1,), "loss", high=1.0)
    yield numbered("focal loss", "focal loss of power {:.4g}", _focused, (2.0,), "loss")
    yield numbered("temperature", "outputs divided by a temperature of {:.4g}", _warmed, (2.0, 0.5), "loss")
    present = setting.targets.unique().tolist()  # type: ignore[no-untyped-call]
    classes = _by_class(output, setting.targets).shape[1]
    if 1 < len(present) <= MOST_CLASSES:
        shown = ", ".join(f"{label}: {{:.4g}}" for label in present[1:])
        says = f"weights of classes ({shown} where class {present[0]} has 1)"
        change = partial(_weighted, present=present, classes=classes)
        starts = ((1.0,) * (len(present) - 1),)
        yield Mistake("class weights", says, change, None, starts, groups=frozenset({"loss"}), paired=False)
    yield from _labels(classes)


def same(one: Loss, other: Loss, output: Tensor, targets: Tensor) -> bool:
    """Return whether two losses agree on an output."""
    try:
        values = [float(loss(output.detach(), targets)) for loss in (one, other)]
    except (RuntimeError, ValueError, TypeError, IndexError):
        return False
    return abs(values[0] - values[1]) <= 1e-6 * abs(values[1])


def _smoothed(one: Setting, value: float) -> Setting:
    return one.of(loss=partial(cross_entropy, label_smoothing=value))


def _focused(one: Setting, power: float) -> Setting:
    return one.of(loss=partial(_focal, power=power))


def _warmed(one: Setting, heat: float) -> Setting:
    return one.of(loss=partial(_warm, one.client.loss, heat=heat))


def _warm(loss: Loss, output: Tensor, targets: Tensor, heat: float) -> Tensor:
    return loss(output / heat, targets)


def _weighted(one: Setting, numbers: tuple[float, ...], present: list[int], classes: int) -> Setting:
    weights = torch.ones(classes, device=one.targets.device)
    weights[present[1:]] = torch.tensor(numbers, device=weights.device)

    def loss(output: Tensor, targets: Tensor) -> Tensor:
        return cross_entropy(output, targets, weight=weights.to(output))

    return one.of(loss=loss)


def _labels(classes: int) -> Iterator[Mistake]:
    """Yield targets that belong to other classes or samples."""
    ways: dict[str, Callable[[Tensor], Tensor]] = {
        "labels that are one too low": lambda labels: (labels + 1) % classes,
        "labels that are one too high": lambda labels: (labels - 1) % classes,
        "labels of the next sample": lambda labels: labels.roll(-1, 0),
        "labels of the sample before": lambda labels: labels.roll(1, 0),
        "labels in reverse order": lambda labels: labels.flip(0),
    }
    yield from _retargeted(ways)


def _retargeted(ways: Mapping[str, Callable[[Tensor], Tensor]]) -> Iterator[Mistake]:
    for says, way in ways.items():
        yield simple("labels", says, partial(_aimed, way=way), "labels")


def _aimed(one: Setting, way: Callable[[Tensor], Tensor]) -> Setting:
    return replace(one, targets=way(one.targets))


def _of_values(setting: Setting, output: Tensor) -> Iterator[Mistake]:
    laws: dict[str, Loss] = {
        "squared error": F.mse_loss,
        "absolute error": F.l1_loss,
        "smooth absolute error": F.smooth_l1_loss,
        "binary cross entropy": F.binary_cross_entropy_with_logits,
    }
    own = setting.client.loss
    yield from _replacing({name: law for name, law in laws.items() if not same(own, law, output, setting.targets)})
    yield numbered("huber", "Huber's loss of {:.4g}", _huber, (0.5,), "loss")
    ways: dict[str, Callable[[Tensor], Tensor]] = {
        "targets of the next sample": lambda targets: targets.roll(-1, 0),
        "targets of the sample before": lambda targets: targets.roll(1, 0),
        "targets standardised over the samples": lambda targets: (targets - targets.mean(0)) / targets.std(0),
    }
    yield from _retargeted(ways)


def _huber(one: Setting, value: float) -> Setting:
    return one.of(loss=partial(F.huber_loss, delta=value))


def _replacing(laws: Mapping[str, Loss]) -> Iterator[Mistake]:
    for name, law in laws.items():
        yield simple("loss", f"the loss is {name}", partial(Setting.of, loss=law), "loss")


def _lengths(setting: Setting) -> Iterator[Mistake]:
    """Yield losses of another length: sums, and any factor."""
    size = setting.client.batch_size or len(setting.inputs)
    if size > 1:
        for name, factor in (("summed", float(size)), ("divided by the samples twice", 1 / size)):
            says = f"the loss is {name} over the {size} samples of a batch, not averaged"
            if factor < 1:
                says = f"the loss is {name}, a factor of 1/{size}"
            yield simple("sum" if factor > 1 else "mean", says, partial(scaled, factor=factor), "length")
    if setting.client.accumulate > 1:
        count = setting.client.accumulate
        yield simple("accumulation", f"gradients of {count} batches summed", partial(scaled, factor=count), "length")
    yield numbered("loss factor", "a loss times {:.4g}", scaled, (0.5, 2.0, 0.1, 10.0), "length", lengthens=True)


def scaled(setting: Setting, factor: float) -> Setting:
    """Return the setting with a loss of another length."""
    loss = setting.client.loss
    return setting.of(loss=lambda output, targets: factor * loss(output, targets))
