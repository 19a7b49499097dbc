"""Attacks that read a first affine layer, refused while planning where there is none; imports no torch.

A model says ``first_affine`` in its class: the setting that is the number of units of its first layer, which is affine
with a bias; empty where these are its classes.
"""

import ast

from leaklab.observations.declared import chosen, declared
from leaklab.observations.requirements import ATTACKS
from leaklab.records import plugins
from leaklab.records.attack_spec import AttackSpec
from leaklab.records.errors import UserError

MODELS, ATTRIBUTE = "models", "first_affine"


def check_first_layer(spec: AttackSpec) -> None:
    """Refuse an attack on a first affine layer where there is none, or more samples than can be told apart in it.

    Raises:
        UserError: says what to choose or to lower.
    """
    attack, model = spec.attack, spec.capture.model
    asked = declared(ATTACKS, attack.name)
    if not asked.first_affine:
        return
    units_of = plugins.class_attribute(MODELS, model.name, ATTRIBUTE)
    if units_of is None:
        able = [name for name in plugins.available(MODELS) if plugins.class_attribute(MODELS, name, ATTRIBUTE)]
        raise UserError(
            f"attack '{attack.name}' reads a first layer that is affine with a bias, which model '{model.name}' does "
            f"not begin with: choose one of {', '.join(able)}, or another attack"
        )
    setting = ast.literal_eval(units_of)
    units = chosen(MODELS, model.name, model.settings, setting) if setting else None
    samples = chosen(ATTACKS, attack.name, attack.settings, "samples") or spec.capture.batch_size
    if asked.tells_apart and isinstance(units, int) and samples > units:
        raise UserError(
            f"attack '{attack.name}' cannot tell {samples} samples apart in a first layer of {units} units: lower "
            f"batch_size, or raise model.{setting}"
        )
