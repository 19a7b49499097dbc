"""A defense that looks at several samples of a batch says so, and a smaller batch is refused while planning."""

import ast

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
    default = plugins.class_attribute("defenses", spec.defense.name, setting)
    needed = spec.defense.settings.get(setting, ast.literal_eval(default) if default is not None else 1)
    if spec.batch_size < needed:
        raise UserError(
            f"defense '{spec.defense.name}' looks at {needed} samples of a batch, which has "
            f"{spec.batch_size}: raise batch_size or lower {setting}"
        )
