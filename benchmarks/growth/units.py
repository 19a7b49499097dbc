"""What plug-ins say that a unit of their work takes, beside what it takes here: slopes, so that nothing constant is in.

PYTHONPATH=benchmarks .venv/bin/python -m growth.units          prints a line for each model
"""

import sys
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from speed.costs import one_thread

from growth.measuring import measured
from growth.works import IG, attacking, captured, training
from leaklab.records.record import Component
from leaklab.records.traits import model_traits
from leaklab.specs.base import Spec

FEW, MOST = 2, 4000
LEAST_SECONDS = 0.7
MODELS: tuple[Mapping[str, Any], ...] = (
    {"name": "logistic-regression"},
    {"name": "mlp"},
    {"name": "cnn-small"},
    {"name": "cnn-mnist"},
    {"name": "cnn-leaky"},
    {"name": "dlg-lenet"},
    {"name": "dlg-lenet", "settings": {"n_conv": 3}},
    {"name": "resnet-small"},
    {"name": "resnet-small", "settings": {"blocks": 3}},
)
QUIET = {"mlp": {"dropout": 0.0}, "cnn-small": {"dropout": 0.0}}
"""An attack knows no masks."""


def step_milliseconds(model: Mapping[str, Any]) -> float:
    """Return what one client's step on a batch of 32 takes."""
    return slope(lambda amount: training(model, clients=2, steps=amount))


def evaluation_milliseconds(model: Mapping[str, Any], batch: int) -> float:
    """Return what one evaluation of IG takes on an update of so many images, ten updates side by side."""
    settings = {**QUIET.get(str(model["name"]), {}), **model.get("settings", {})}
    quiet = {"name": model["name"], "settings": settings}
    return slope(lambda amount: attacking(IG, amount, captured(quiet, images=10, batch=batch)))


def slope(of: Callable[[int], Spec]) -> float:
    """Return the milliseconds of a unit, between some and four times as many that take long enough."""
    amount, few = FEW, measured(of(FEW))
    while True:
        many = measured(of(4 * amount))
        if many.cpu_seconds - few.cpu_seconds > LEAST_SECONDS or amount > MOST:
            return 1e3 * (many.cpu_seconds - few.cpu_seconds) / (many.units - few.units)
        amount, few = 4 * amount, many


def lines() -> Iterator[str]:
    """Yield a line for each model."""
    for model in MODELS:
        said = model_traits(Component.model_validate(model).name)
        step, one, eight = step_milliseconds(model), *(evaluation_milliseconds(model, batch) for batch in (1, 8))
        yield (
            f"{model['name']} {model.get('settings', '')}: "
            f"a step {step:.3g} ms (said {said.step_microseconds / 1e3:g}); "
            f"an evaluation {one:.3g} ms, of eight images {eight:.3g} (said {said.matching_milliseconds} an image)"
        )


if __name__ == "__main__":
    one_thread()
    for line in lines():
        sys.stdout.write(f"{line}\n")
        sys.stdout.flush()
