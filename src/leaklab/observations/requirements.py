"""Who needs what: attacks against threat models, transforms against defenses, checked before any job runs.

An attack declares ``needs`` (and ``needs_when`` for single settings) as literals in its class body. They are read from
the source, so that planning a hundred jobs does not import torch.
"""

import ast
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from leaklab.observations.threat_models import granted
from leaklab.records import plugins
from leaklab.records.attack_spec import AttackSpec
from leaklab.records.errors import UserError


def refusal(attack: str, fact: str, threat_model: str) -> UserError:
    """Return the error for a fact that is needed and not granted."""
    return UserError(
        f"attack '{attack}' needs '{fact}', which threat model '{threat_model}' withholds: "
        "choose another attack or threat model"
    )


def check_combination(attack_needs: Iterable[str], threat_model: str, attack: str = "this attack") -> None:
    """Refuse an attack that needs a fact which the threat model withholds.

    Raises:
        UserError: names the first such fact.
    """
    for fact in sorted(set(attack_needs) - granted(threat_model)):
        raise refusal(attack, fact, threat_model)


def needs(attack: str, settings: Mapping[str, Any]) -> frozenset[str]:
    """Return the facts that ``attack`` needs under ``settings``, read from its source.

    Raises:
        UserError: unknown attack or setting.
    """
    plugins.check("attacks", attack, settings)
    declared = _literals("attacks", attack)
    facts = frozenset(declared.get("needs", ()))
    for setting, by_value in declared.get("needs_when", {}).items():
        facts |= frozenset(by_value.get(settings.get(setting, declared.get(setting)), ()))
    return facts


def check(
    attack: str,
    settings: Mapping[str, Any],
    threat_model: str,
    transform: str = "none",
    transform_settings: Mapping[str, Any] | None = None,
    kind: str = "gradient",
) -> None:
    """Refuse an attack (with its transform) that asks for more than the threat model grants; imports no torch.

    ``kind`` is that of the observation: a delta asks more of an attacker who has to divide it by a rate.

    Raises:
        UserError: unknown names or settings, or a fact that is withheld.
    """
    plugins.check("attacks/adaptive", transform, transform_settings or {})
    check_combination(needs(attack, settings), threat_model, attack)
    check_kind(kind, threat_model)
    declared = _literals("attacks/adaptive", transform)
    check_combination(declared.get("needs", ()), threat_model, transform)
    if kind == "delta":
        check_combination(declared.get("needs_for_delta", ()), threat_model, f"{attack} with transform {transform}")


def check_kind(kind: str, threat_model: str) -> None:
    """Refuse a gradient under a threat model without the rate: who has one has divided by the rate.

    Raises:
        UserError: says which kind goes with the threat model.
    """
    if kind == "gradient" and "nominal_rate" not in granted(threat_model):
        raise UserError(
            f"threat model '{threat_model}' withholds the rate that makes a gradient of an update: choose kind: delta"
        )


def check_transform(transform: str, defense: str, batch_size: int) -> None:
    """Refuse a transform that does not fit the defense or the batch size; imports no torch.

    Raises:
        UserError: says for what the transform was made.
    """
    plugins.check("attacks/adaptive", transform, {})
    declared = _literals("attacks/adaptive", transform)
    fitting = declared.get("fits", ())
    if fitting and defense not in fitting:
        raise UserError(
            f"transform '{transform}' does not fit defense '{defense}': it is made for {', '.join(sorted(fitting))}"
        )
    largest = declared.get("largest_batch")
    if largest is not None and batch_size > largest:
        raise UserError(
            f"transform '{transform}' works for batch_size <= {largest}, not {batch_size}: choose profiled-scale"
        )


def check_generator(spec: AttackSpec) -> None:
    """Refuse an attack without the generator that it needs or with one that it does not; imports no torch.

    Raises:
        UserError: says what to add, remove or change.
    """
    declared, prior, private = _literals("attacks", spec.attack.name), spec.generator, spec.capture
    if not declared.get("needs_generator"):
        if prior is not None:
            raise UserError(f"attack '{spec.attack.name}' uses no generator: remove 'generator'")
        return
    if prior is None:
        raise UserError(
            f"attack '{spec.attack.name}' needs a generator: "
            f"add e.g. generator: {{dataset: {private.dataset}, steps: 1000}}"
        )
    if prior.steps and (prior.dataset, "train") == (private.dataset, private.images.split):
        raise UserError("the generator is trained on the very images that are attacked: set images.split to test")


def _literals(room: str, name: str) -> dict[str, Any]:
    """Return the literal class attributes of a plug-in's classes, ``frozenset(...)`` around a literal included."""
    file: Path = plugins.PACKAGE_FOLDER / room / f"{name.replace('-', '_')}.py"
    values: dict[str, Any] = {}
    for node in ast.parse(file.read_text(encoding="utf-8")).body:
        for field in node.body if isinstance(node, ast.ClassDef) else []:
            if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name) and field.value is not None:
                values.update(_evaluated(field.target.id, field.value))
    return values


def _evaluated(name: str, node: ast.expr) -> dict[str, Any]:
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "frozenset" and node.args:
        node = node.args[0]
    try:
        return {name: ast.literal_eval(node)}
    except ValueError:
        return {}
