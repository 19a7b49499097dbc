"""A defense that looks at several samples of a batch says so, and a smaller batch is refused while planning."""

import ast
from typing import Any

from leaklab.records import plugins
from leaklab.records.capture_spec import CaptureSpec
from leaklab.records.errors import UserError
from leaklab.records.train_spec import TrainSpec

ATTRIBUTE = "least_batch"


def check_least_batch(spec: TrainSpec | CaptureSpec) -> None:
    """Refuse a batch with fewer samples than the setting says that the defense's ``least_batch`` names.

    Raises:
        UserError: with the setting and both numbers.
    """
    name = plugins.class_attribute("defenses", spec.defense.name, ATTRIBUTE)
    if name is None:
        return
    setting = ast.literal_eval(name)
    needed: Any = spec.defense.settings.get(setting)
    default = plugins.class_attribute("defenses", spec.defense.name, setting)
    if needed is None and default is not None:
        needed = ast.literal_eval(default)
    if spec.batch_size < needed:
        raise UserError(
            f"defense '{spec.defense.name}' looks at {needed} samples of a batch, which has "
            f"{spec.batch_size}: raise batch_size or lower {setting}"
        )
