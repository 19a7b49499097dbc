"""From fits to explanations: what each is called, and which other names mean the same in this round."""

from collections.abc import Sequence

import torch

from leaklab.probing.replay.bench import Fit
from leaklab.probing.replay.marks import Noise
from leaklab.probing.replay.mistake import Setting, optimizer_of
from leaklab.probing.replay.result import Explanation

Named = tuple[str, str]
"""Name and phrase of what an update shows by itself."""


def explanation(fit: Fit, setting: Setting, shown: Sequence[Named], residual: float) -> Explanation:
    """Return a fit as an explanation.

    Args:
        fit: named mistakes, or none.
        setting: what was run as described.
        shown: what the update shows besides.
        residual: what all of it leaves.
    """
    names = [mistake.name for mistake, _ in fit.hypothesis] + [name for name, _ in shown]
    says = [mistake.phrase(numbers) for mistake, numbers in fit.hypothesis] + [phrase for _, phrase in shown]
    numbers = tuple(number for _, own in fit.hypothesis for number in own)
    alike: tuple[str, ...] = ()
    for mistake, own in fit.hypothesis:
        if mistake.name == "factor":
            others = [other for other, _ in fit.hypothesis if other is not mistake]
            alike = factors(setting, own[0], any(other.groups & {"optimizer", "decay"} for other in others))
    return Explanation(tuple(names), " and ".join(says), numbers, residual, alike)


def plain_step(setting: Setting) -> bool:
    """Return whether a client sends its gradient, or one step of gradient descent along it."""
    client = setting.client
    own = optimizer_of(client)
    descent = isinstance(own, torch.optim.SGD) and not own.param_groups[0]["weight_decay"]
    return client.sends == "gradient" or (client.steps == 1 and descent)


def factors(setting: Setting, factor: float, replaced: bool = False) -> tuple[str, ...]:
    """Return what may have made an update longer by a factor, in this client's round.

    Args:
        setting: as described.
        factor: of the whole update.
        replaced: whether another mistake changes what the optimizer does with a gradient.
    """
    client = setting.client
    whole = f"the client's share in a mean ({factor:.4g})"
    if client.sends == "gradient":
        told = [f"a loss times {factor:.4g}", whole]
        if 0 < factor < 1:
            told.append("clipping of the gradient's norm")
        return tuple(told)
    if client.steps > 1:
        return (whole, "clipping of the whole update") if 0 < factor < 1 else (whole,)
    rate = float(optimizer_of(client).param_groups[0]["lr"])
    told = [f"a learning rate of {factor * rate:.4g}"] if factor > 0 else []
    if plain_step(setting) and not replaced:
        told.append(f"a loss times {factor:.4g}")
        if 0 < factor < 1:
            told.append("clipping of the gradient's norm")
    return (*told, whole)


def named_noise(noise: Noise, setting: Setting, shown: Sequence[Named], length: float) -> Explanation:
    """Return noise, with what it lies on, as an explanation; its residual is what the noise itself is.

    Args:
        noise: as it was found.
        setting: as described.
        shown: what the update shows besides.
        length: norm of what was sent over its compared entries.
    """
    names, says = [mistake.name for mistake, _ in noise.fit.hypothesis], []
    says += [mistake.phrase(numbers) for mistake, numbers in noise.fit.hypothesis]
    numbers = [number for _, own in noise.fit.hypothesis for number in own]
    alike: tuple[str, ...] = ()
    if noise.factor != 1.0:
        names.append("factor")
        says.append(f"a factor of {noise.factor:.4g}")
        numbers.append(noise.factor)
        alike = factors(setting, noise.factor)
    names += ["noise", *(name for name, _ in shown)]
    says += [f"{noise.law} noise of deviation {noise.deviation:.4g}", *(phrase for _, phrase in shown)]
    left = noise.deviation * len(noise.fit.flat) ** 0.5 / length
    return Explanation(tuple(names), " and ".join(says), (*numbers, noise.deviation), left, alike)
