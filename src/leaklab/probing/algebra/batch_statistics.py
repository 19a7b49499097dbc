"""Means and variances of a whole batch, which layers of batch normalisation send with their running ones.

In training such a layer moves its running mean to (1 - m) old + m mean, and so its running variance (unbiased), with
its momentum m. Old and new are both known to the server, so of one step both are read exactly.
"""

from dataclasses import dataclass

from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from leaklab.probing.case import Case


@dataclass(frozen=True, eq=False)
class BatchStatistics:
    """What one layer saw, for each of its channels.

    Attributes:
        layer: its name.
        mean: of its input over batch and places, [C].
        variance: likewise, unbiased, [C].
    """

    layer: str
    mean: Tensor
    variance: Tensor


def batch_statistics(case: Case) -> tuple[BatchStatistics, ...]:
    """Return the statistics of every layer whose running ones are sent after one step on one batch."""
    if case.exchange.kind == "gradient" or case.client.steps * case.client.accumulate != 1:
        return ()
    found = []
    for name, layer in case.client.model.named_modules():
        prefix = f"{name}." if name else ""
        names = [f"{prefix}running_mean", f"{prefix}running_var"]
        if not isinstance(layer, _BatchNorm) or not set(names) <= set(case.exchange.sent):
            continue
        share = _momentum(layer, case, prefix)
        old = [case.exchange.before[one].double() for one in names]
        new = [before - case.exchange.direction(one) for before, one in zip(old, names, strict=True)]
        if not share or all(bool((before == after).all()) for before, after in zip(old, new, strict=True)):
            continue
        mean, variance = (before + (after - before) / share for before, after in zip(old, new, strict=True))
        found.append(BatchStatistics(name, mean, variance))
    return tuple(found)


def _momentum(layer: nn.Module, case: Case, prefix: str) -> float:
    """Return the weight of the newest batch; 0 where it is not known."""
    if layer.momentum is not None:
        return float(layer.momentum)  # type: ignore[arg-type]
    counted = case.exchange.before.get(f"{prefix}num_batches_tracked")
    return 0.0 if counted is None else 1 / (float(counted) + 1)
