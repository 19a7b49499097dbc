"""Mistakes about how a client trains: mode, rate, optimizer, steps, batches, schedule, clipping, decay."""

from collections.abc import Callable, Iterator
from functools import partial
from math import cos, pi
from typing import Any

import torch
from torch.optim.lr_scheduler import LambdaLR

from leaklab.probing.client import Client
from leaklab.probing.replay.mistake import Mistake, Setting, hooked, numbered, optimizer_of, simple, tuned

SEEDS = (*range(21), 42, 123, 1234, 1337, 2024)
"""Seeds that people take."""
RATES = (0.5, 2.0, 0.1, 10.0)
"""Multiples of the described rate that fits begin with: those of the loss, which is the same in plain descent."""
BOUNDS = (0.6, 0.2, 0.05)
"""Shares of the first gradient's norm that fits of a clipping bound begin with."""


def training_mistakes(setting: Setting, norm: float) -> Iterator[Mistake]:
    """Yield mistakes about training.

    Args:
        setting: as described.
        norm: of the first gradient.
    """
    yield from _modes(setting)
    if setting.client.sends != "gradient":
        yield from _optimizers(setting)
        yield from _rates(setting)
        yield from _decays(setting)
        yield from _steps(setting)
        yield from _schedules(setting)
    yield from _gradients(setting, norm)
    yield from _precisions(setting)


def _modes(setting: Setting) -> Iterator[Mistake]:
    own = setting.client.mode
    actual = "train" if any(module.training for module in setting.client.model.modules()) else "eval"
    for mode, says in (("eval", "layers in eval mode"), ("train", "layers in train mode")):
        if mode != (own or actual):
            yield simple("mode", says, partial(Setting.of, mode=mode), "mode")
    if own is not None:
        yield simple("mode", "layers left in the mode they had", partial(Setting.of, mode=None), "mode")


def draws(setting: Setting) -> Iterator[Mistake]:
    """Yield other seeds of what the model draws itself."""
    for seed in SEEDS:
        if seed != setting.client.seed:
            says = f"the model's draws under seed {seed}"
            yield simple("seed", says, partial(Setting.of, seed=seed), "seed", paired=False)


def _optimizers(setting: Setting) -> Iterator[Mistake]:
    """Yield other optimizers, each with its rate."""
    own = optimizer_of(setting.client)
    nominal = float(own.param_groups[0]["lr"])
    kinds: list[tuple[str, Any, dict[str, Any]]] = [
        ("SGD", torch.optim.SGD, {}),
        ("SGD with momentum 0.9", torch.optim.SGD, {"momentum": 0.9}),
        ("Adam", torch.optim.Adam, {}),
        ("AdamW", torch.optim.AdamW, {}),
        ("RMSprop", torch.optim.RMSprop, {}),
        ("Adagrad", torch.optim.Adagrad, {}),
    ]
    for name, kind, more in kinds:
        if type(own) is kind or (more and isinstance(own, torch.optim.SGD)):
            continue
        rates = tuple(dict.fromkeys((nominal, 0.1, 0.01, 0.001)))
        change = partial(_optimized, kind=kind, more=more)
        yield numbered(name, f"{name} at rate {{:.4g}}", change, rates, "optimizer", "rate", "momentum")
    group = own.param_groups[0]
    if "betas" in group:
        one, two = group["betas"]
        for place, name, starts in ((0, "beta1", (0.5, 0.95, 0.8)), (1, "beta2", (0.9, 0.99, 0.9999))):
            change = partial(_beta, place=place, betas=(one, two))
            yield numbered(name, f"{name} of {{:.4g}}", change, starts, "optimizer", high=0.99999)
    if "eps" in group:
        small = tuple(start for start in (1e-3, 1e-6) if start != group["eps"])
        yield numbered("eps", "eps of {:.3g}", partial(_tune, name="eps"), small, "optimizer")


def _optimized(one: Setting, rate: float, kind: Any, more: dict[str, Any]) -> Setting:
    return one.of(optimizer=lambda these: kind(these, lr=rate, **more))


def _beta(one: Setting, value: float, place: int, betas: tuple[float, float]) -> Setting:
    return tuned(one, betas=(value, betas[1]) if place == 0 else (betas[0], value))


def _rates(setting: Setting) -> Iterator[Mistake]:
    group = optimizer_of(setting.client).param_groups[0]
    starts = tuple(float(group["lr"]) * ratio for ratio in RATES)
    yield numbered("rate", "learning rate {:.4g}", partial(_tune, name="lr"), starts, "rate", lengthens=True)
    if "momentum" not in group:
        return
    own = group["momentum"]
    if own:
        toggled = not group["nesterov"]
        says = "Nesterov's momentum" if toggled else "momentum that is not Nesterov's"
        yield simple("nesterov", says, partial(tuned, nesterov=toggled), "momentum")
        yield simple("momentum", "no momentum", partial(tuned, momentum=0.0, nesterov=False), "momentum")
    yield numbered(
        "momentum",
        "momentum of {:.4g}",
        partial(_tune, name="momentum"),
        (0.9, 0.5),
        "momentum",
        high=1.2,
        lengthens=True,
    )
    if not own:
        kept = partial(tuned, momentum=1.0)
        yield simple("gradients kept", "gradients that are not set to zero between steps", kept, "momentum")
        yield numbered(
            "nesterov",
            "Nesterov's momentum of {:.4g}",
            partial(_tune, name="momentum", nesterov=True),
            (0.9, 0.5),
            "momentum",
            high=1.2,
        )


def _decays(setting: Setting) -> Iterator[Mistake]:
    own = optimizer_of(setting.client).param_groups[0].get("weight_decay")
    if own is None:
        return
    if own:
        yield simple("decay", "no weight decay", partial(tuned, weight_decay=0.0), "decay")
    yield numbered("decay", "weight decay of {:.4g}", partial(_tune, name="weight_decay"), (1e-2, 1e-4), "decay")
    matrices = "weight decay of {:.4g} on matrices and filters only"
    yield numbered("decay", matrices, _pulled, (1e-2,), "decay")


def _tune(one: Setting, value: float, name: str, **more: Any) -> Setting:
    return tuned(one, **{name: value}, **more)


def _pulled(one: Setting, strength: float, least: int = 2) -> Setting:
    return hooked(one, lambda grad, own, _: grad + strength * own if own.dim() >= least else grad)


def _held(one: Setting, strength: float) -> Setting:
    return hooked(one, lambda grad, own, start: grad + strength * (own - start))


def _bounded(one: Setting, norm: float) -> Setting:
    return one.of(clip=norm)


def _cut(one: Setting, size: float) -> Setting:
    return hooked(one, lambda grad, *_: grad.clamp(-size, size))


def _steps(setting: Setting) -> Iterator[Mistake]:
    """Yield other numbers of steps and batch sizes; a batch size also with as many passes over the samples."""
    client, samples = setting.client, len(setting.inputs)
    for steps in (*range(1, 2 * client.steps + 3), 10, 20):
        if steps != client.steps and steps <= 4 * client.steps + 6:
            says = f"{steps} local step{'s' if steps > 1 else ''}"
            yield simple("steps", says, partial(Setting.of, steps=steps), "steps")
    own = client.batch_size or samples
    for size in sorted({*(2**power for power in range(10) if 2**power < samples), samples} - {own}):
        says = f"batches of {size} in {client.steps} step{'s' if client.steps > 1 else ''}"
        yield simple("batch size", says, partial(Setting.of, batch_size=size), "batches")
        steps = client.steps * own / size
        if steps == int(steps) and steps <= 64:
            says = f"{int(steps)} steps on batches of {size}"
            change = partial(Setting.of, batch_size=size, steps=int(steps))
            yield simple("batch size", says, change, "batches", "steps")
    for count in {1, 2, 4, 8} - {client.accumulate}:
        if count * own <= 2 * samples or client.batch_size is None:
            says = f"gradients of {count} batch{'es' if count > 1 else ''} to a step"
            yield simple("accumulation", says, partial(Setting.of, accumulate=count), "accumulation")


def _schedules(setting: Setting) -> Iterator[Mistake]:
    client = setting.client
    if client.schedule is not None:
        yield simple("schedule", "no schedule", partial(Setting.of, schedule=None), "schedule")
        return
    if client.steps == 1:
        return
    total = client.steps
    laws: dict[str, Callable[[int], float]] = {
        "1 / t": lambda step: 1 / (step + 1),
        "1 / sqrt(t)": lambda step: (step + 1) ** -0.5,
        "falling on a line to zero": lambda step: 1 - step / total,
        "falling on a cosine to zero": lambda step: (1 + cos(pi * step / total)) / 2,
        "warming up on a line": lambda step: (step + 1) / total,
    }
    for name, law in laws.items():
        says = f"rates {name}"
        change = partial(Setting.of, schedule=partial(_by_law, law=law))
        yield simple("schedule", says, change, "schedule")
    yield numbered("schedule", "rates that are multiplied by {:.4g} each step", _falling, (0.9, 0.5), "schedule")


def _falling(one: Setting, factor: float) -> Setting:
    return one.of(schedule=partial(_by_law, law=partial(pow, factor)))


def _by_law(optimizer: torch.optim.Optimizer, law: Callable[[int], float]) -> LambdaLR:
    return LambdaLR(optimizer, law)


def _gradients(setting: Setting, norm: float) -> Iterator[Mistake]:
    """Yield what may be done to the gradient of each step."""
    client = setting.client
    if client.clip is not None:
        yield simple("clip", "no clipping", partial(Setting.of, clip=None), "clip")
    yield numbered(
        "clip",
        "gradients clipped at norm {:.4g}",
        _bounded,
        tuple(norm * share for share in BOUNDS),
        "clip",
        lengthens=True,
    )
    size = max(sum(value.numel() for value in client.trained().values()), 1) ** 0.5
    starts = (norm / size, 4 * norm / size)
    yield numbered("clip by value", "each entry of a gradient clipped at {:.4g}", _cut, starts, "clip")
    if client.sends == "gradient":
        yield numbered("decay", "weight decay of {:.4g} in the gradient", partial(_pulled, least=0), (1e-2,), "decay")
    elif client.steps > 1:
        yield numbered("proximal", "a proximal term of {:.4g}", _held, (0.1, 1.0), "proximal")


def _precisions(setting: Setting) -> Iterator[Mistake]:
    own: Client = setting.client
    for kind in (torch.bfloat16, torch.float16):
        if own.precision != kind:
            says = f"mixed precision in {str(kind).removeprefix('torch.')}"
            yield simple("precision", says, partial(Setting.of, precision=kind), "precision")
    if own.precision is not None:
        yield simple("precision", "no mixed precision", partial(Setting.of, precision=None), "precision")
