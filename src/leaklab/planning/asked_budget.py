"""A defense that is asked for a privacy budget must add noise; imports no torch."""

import ast

from leaklab.records import plugins
from leaklab.records.capture_spec import CaptureSpec
from leaklab.records.errors import UserError
from leaklab.records.train_spec import TrainSpec

ATTRIBUTE = "budget"


def check_asked_budget(spec: TrainSpec | CaptureSpec) -> None:
    """Refuse a budget without noise: a defense names both settings in its class, ``budget = ("epsilon", "sigma")``.

    Raises:
        UserError: the first one is given, and the second one is 0.
    """
    names = plugins.class_attribute("defenses", spec.defense.name, ATTRIBUTE)
    if names is None:
        return
    budget, noise = ast.literal_eval(names)
    if spec.defense.settings.get(budget) is not None and spec.defense.settings.get(noise) == 0:
        raise UserError(
            f"defense '{spec.defense.name}': {noise} 0 adds no noise, so no {budget} can be kept: raise {noise} or "
            f"leave {budget} out"
        )
