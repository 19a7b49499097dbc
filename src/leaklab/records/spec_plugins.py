"""Which plug-ins a spec names."""

import ast
from collections.abc import Mapping
from typing import Any

from leaklab.records import plugins
from leaklab.records.attack_spec import AttackSpec, ScoreSpec
from leaklab.records.capture_spec import CapturedRound, CaptureSpec, ImageChoice, TextCaptureSpec
from leaklab.records.check_spec import CheckSpec
from leaklab.records.errors import UserError
from leaklab.records.generator_spec import GeneratorSpec
from leaklab.records.landscape_spec import LandscapeSpec, ProjectionSpec
from leaklab.records.record import Component
from leaklab.records.specs import Spec
from leaklab.records.text_specs import TextAttackSpec, TextScoreSpec
from leaklab.records.train_spec import TrainSpec


def plugins_of(spec: Spec) -> list[tuple[str, str, Mapping[str, Any]]]:
    """Return the plug-ins that a run loads: (room, name, settings)."""
    if isinstance(spec, TrainSpec):
        own = [
            ("models", spec.model),
            ("defenses", spec.defense),
            ("federated/algorithms", spec.algorithm_plugin),
            ("federated/schedules", spec.schedule),
            ("federated/optimizers", spec.optimizer),
            ("data/augmentations", spec.augmentation),
        ]
    elif isinstance(spec, CheckSpec):
        own = [("theory", spec.check)]
    elif isinstance(spec, GeneratorSpec):
        own = [("models/generators", spec.model), ("models", spec.classifier)]
    elif isinstance(spec, CaptureSpec):
        own = [
            ("models", spec.model),
            ("defenses", spec.defense),
            ("federated/schedules", spec.schedule),
            ("federated/optimizers", spec.optimizer),
        ]
        if isinstance(spec.images, ImageChoice) and spec.images.planted:
            own.append(("models/generators", spec.images.planted.model))
        if spec.server is not None:
            own.append(("observations/servers", spec.server))
        if spec.state is not None:
            own += [("federated/algorithms", spec.algorithm_plugin), ("data/augmentations", spec.augmentation)]
    elif isinstance(spec, AttackSpec):
        own = [("models", spec.capture.model), ("attacks", spec.attack), ("attacks/adaptive", spec.transform)]
        own += [("models/generators", spec.generator.model)] if spec.generator else []
    elif isinstance(spec, TextCaptureSpec):
        own = [("models/text", spec.model), ("defenses", spec.defense)]
    elif isinstance(spec, TextAttackSpec):
        own = [("models/text", spec.capture.model), ("attacks/text", spec.attack)]
    elif isinstance(spec, TextScoreSpec):
        return []
    elif isinstance(spec, ScoreSpec):
        metrics: list[tuple[str, str, Mapping[str, Any]]] = [("metrics", name, {}) for name in spec.metrics]
        read = any(reads_the_update(name) for name in spec.metrics)
        return [*metrics, *plugins_of(spec.attack.capture), *plugins_of(spec.attack)] if read else metrics
    elif isinstance(spec, ProjectionSpec):
        own = [("models/generators", spec.generator.model)]
        own += [("metrics", Component(name=spec.perceptual))] if spec.perceptual else []
    elif isinstance(spec, LandscapeSpec):
        return [*plugins_of(spec.attack), *(("metrics", name, {}) for name in spec.metrics)]
    else:
        own = [("data/partitions", spec.partition)]
    return [(room, component.name, component.settings) for room, component in own]


def executed_plugins(spec: Spec) -> list[tuple[str, str]]:
    """Return the plug-ins whose code a run executes: (room, name) of those that it names, and others by their side.

    An attacker who knows the defense executes it, though the run does not name it: its capture does. A capture holds
    its update against that without a defense.
    """
    own = [(room, name) for room, name, _ in plugins_of(spec)]
    if isinstance(spec, CapturedRound):
        return [*own, ("defenses", "none")]
    attack = spec.attack if isinstance(spec, LandscapeSpec) else spec
    return [*own, ("defenses", attack.capture.defense.name)] if isinstance(attack, AttackSpec) else own


def reads_the_update(metric: str) -> bool:
    """Tell whether a metric needs what the server saw and the attack's generator, besides images; imports no torch.

    Raises:
        UserError: there is no such metric.
    """
    plugins.check("metrics", metric, {})
    return plugins.class_attribute("metrics", metric, "reads_the_update") is not None


def has_frozen_part(model: str) -> bool:
    """Tell whether a model has a frozen part, which a backbone fills; imports no torch."""
    said = plugins.class_attribute("models", model, "has_frozen_part")
    return isinstance(said, ast.Constant) and said.value is True


def check_plugins(spec: Spec, where: str) -> None:
    """Refuse a spec that names an unknown plug-in or setting; ``where`` is the place in the user's file.

    Raises:
        UserError: with that place and what is known.
    """
    try:
        for room, name, settings in plugins_of(spec):
            plugins.check(room, name, settings)
        if isinstance(spec, TrainSpec) and spec.backbone and not has_frozen_part(spec.model.name):
            raise UserError(f"model '{spec.model.name}' has no frozen part: leave backbone out, or change model")
        if isinstance(spec, CaptureSpec) and has_frozen_part(spec.model.name):
            raise UserError(f"model '{spec.model.name}' has a frozen part, which a capture does not know: change model")
    except UserError as error:
        raise UserError(f"{where}: {error}") from None
