"""From an item's blocks to specs: every list is an axis, the product of the axes is the set of runs.

A block looks like a spec whose fields may be lists. ``like: other`` starts from another block, ``overrides`` set
fields where others have a value, ``skip`` leaves combinations out, ``variant`` names the lines that the block makes,
``keep`` names rounds of a training whose states stay beside the last one, ``attacker`` says whose attack it is: the
``paper``'s own, the same but ``blind`` to the defense, or one by somebody ``knowing`` it. Where a block does not say,
attacks without a transform (on text, the printed one) are the paper's.
``row`` holds labels that no run knows (``row: {method: [lrp, ada-lrp]}``), for overrides and for the cells' rows.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import product
from typing import Any

from leaklab.items.blocks import (
    BLOCK_KEYS,
    BlockKeys,
    Override,
    Runs,
    check_axis,
    grid_of_rates,
    kept_states,
    overrides_at_scale,
    refuse_too_many,
    with_backbone,
    with_state,
)
from leaklab.items.items import Item, ScaleChange
from leaklab.records.config import Scale, parse
from leaklab.records.errors import UserError
from leaklab.specs.base import AttackOn, Spec
from leaklab.specs.stages import BLOCKS
from leaklab.specs.training import TrainSpec

LISTS = {
    "rates",
    "seeds",
    "metrics",
    "evaluate",
    "input_range",
    "alpha",
    "beta",
    "clients",
    "indexes",
    "watch",
    "keep",
    "sends",
}
LABELS = "row"
ARCHITECTURE = "architecture"
"""What a block says under ``stage`` of which nothing runs: a network that is described."""


@dataclass(frozen=True)
class PlannedRun:
    """One run that an item asks for.

    Attributes:
        block: the block it comes from.
        variant: column ``variant`` of its lines.
        spec: what runs; for ``architecture`` blocks None.
        choice: the block's fields with one value per axis (what row paths point into).
        attacker: of attacks: ``paper``, ``blind`` or ``knowing``; else empty.
        kept: of trainings: the same ones up to earlier states that the block keeps; no line of a table is theirs.
    """

    block: str
    variant: str
    spec: Spec | None
    choice: Mapping[str, Any]
    attacker: str = ""
    kept: tuple[TrainSpec, ...] = ()

    @property
    def tried(self) -> AttackOn | None:
        """The attack whose findings it holds against the truth; None where it does not."""
        return self.spec.tried if self.spec else None


def expand(item: Item, scale: Scale) -> list[PlannedRun]:
    """Return all runs of an item at a scale.

    Raises:
        UserError: an unknown field, plug-in or setting, with the place where it stands.
    """
    if scale not in item.scales:
        raise UserError(f"config/items/{item.key}.yaml: scales: '{scale}' is missing")
    change = item.scales[scale]
    _known_blocks(item, [*change.drop, *change.blocks, *change.absent], f"scales.{scale}")
    left_out = {*change.drop, *change.absent}
    runs = [run for name in item.runs if name not in left_out for run in _runs_of(item, scale, name)]
    return [run for run in runs if not _without_data(change, run)]


def expand_absent(item: Item, scale: Scale) -> list[tuple[PlannedRun, str]]:
    """Return the runs that the item has but this scale cannot do, each with the reason."""
    change = item.scales[scale]
    found = [(run, reason) for name, reason in change.absent.items() for run in _runs_of(item, scale, name)]
    if change.missing:
        there = [name for name in item.runs if name not in {*change.drop, *change.absent}]
        runs = [run for name in there for run in _runs_of(item, scale, name)]
        found += [(run, reason) for run in runs if (reason := _without_data(change, run))]
    return found


def _without_data(change: ScaleChange, run: PlannedRun) -> str:
    """Return why a run cannot be done for want of data; empty where it can."""
    if not change.missing or run.spec is None:
        return ""
    return "; ".join(change.missing[name] for name in sorted(run.spec.datasets()) if name in change.missing)


def _runs_of(item: Item, scale: Scale, name: str) -> Iterator[PlannedRun]:
    change = item.scales[scale]
    _known_blocks(item, [name], "runs")
    block, own = _inherited(item, name), change.blocks.get(name, {})
    changed = {**_with(block, {**change.set, **own}), **overrides_at_scale(block, change.set, own)}
    return _block_runs(item, name, changed, lambda other: _runs_of(item, scale, other))


def _known_blocks(item: Item, names: list[str], where: str) -> None:
    for name in names:
        if name not in item.runs:
            raise UserError(
                f"config/items/{item.key}.yaml: {where}: no block '{name}': there are {', '.join(item.runs)}"
            )


def _inherited(item: Item, name: str, heirs: tuple[str, ...] = ()) -> dict[str, Any]:
    block = dict(item.runs[name])
    parent = block.pop("like", None)
    if parent is None:
        return _with({"stage": name}, block)
    if not isinstance(parent, str):
        raise UserError(f"config/items/{item.key}.yaml: runs.{name}.like: write the name of one block")
    _known_blocks(item, [parent], f"runs.{name}.like")
    if parent in (*heirs, name):
        raise UserError(f"config/items/{item.key}.yaml: runs.{name}.like: '{parent}' goes back to '{name}' in a circle")
    return _with(_inherited(item, parent, (*heirs, name)), block)


def _with(block: dict[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """Return the block with the fields at dotted paths replaced."""
    result = dict(block)
    for path, value in changes.items():
        head, _, rest = path.partition(".")
        if rest:
            inner = result.get(head)
            result[head] = _with(inner if isinstance(inner, dict) else {"name": inner}, {rest: value})
        else:
            result[head] = value
    return result


def _block_runs(item: Item, name: str, block: dict[str, Any], runs: Runs) -> Iterator[PlannedRun]:
    where = f"config/items/{item.key}.yaml: runs.{name}"
    keys = parse(BlockKeys, {key: value for key, value in block.items() if key in BLOCK_KEYS}, where)
    fields = {key: value for key, value in block.items() if key not in BLOCK_KEYS}
    if isinstance(fields.get("rate"), dict):
        fields["rates"] = grid_of_rates(fields.pop("rate"), f"{where}.rate")
    for choice in _product(fields, where):
        chosen = _override(choice, keys.overrides, f"{where}.overrides")
        if not any(_matches(chosen, condition, f"{where}.skip") for condition in keys.skip):
            chosen, whole = with_state(chosen, runs, where)
            whole = with_backbone({k: v for k, v in whole.items() if k != LABELS}, name, runs, where)
            spec = _spec(keys.stage, whole, where)
            chosen = _as_data(chosen)
            attacker = _attacker(spec, keys.attacker)
            variant = _variant(keys.variant, chosen, f"{where}.variant")
            kept = kept_states(spec, keys.keep, f"{where}.keep")
            yield PlannedRun(name, variant, spec, chosen, attacker, kept)


def _attacker(spec: Spec | None, declared: str | None) -> str:
    attack = spec.tried if spec else None
    if attack is None:
        return ""
    return declared or ("paper" if attack.printed else "knowing")


def _axes(value: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], list[Any]]]:
    for key, inner in value.items():
        if isinstance(inner, dict):
            yield from _axes(inner, (*path, key))
        elif isinstance(inner, list) and key not in LISTS:
            yield (*path, key), inner


def _product(fields: dict[str, Any], where: str) -> Iterator[dict[str, Any]]:
    axes = list(_axes(fields))
    for path, axis in axes:
        check_axis(axis, f"{where}.{'.'.join(path)}")
    refuse_too_many([len(axis) for _, axis in axes], where)
    for values in product(*(values for _, values in axes)):
        choice = fields
        for (path, _), value in zip(axes, values, strict=True):
            choice = _with(choice, {".".join(path): value})
        yield choice


def _name(value: Any) -> Any:
    return value.get("name") if isinstance(value, dict) and "name" in value else value


def _lookup(choice: Mapping[str, Any], path: str, where: str) -> Any:
    value: Any = choice
    try:
        for part in path.split("."):
            value = value[int(part)] if isinstance(value, list | tuple) else value[part]
    except (LookupError, TypeError, ValueError):
        raise UserError(f"{where}: the block has no field '{path}': it has {', '.join(choice)}") from None
    return value


def _matches(choice: Mapping[str, Any], condition: Mapping[str, Any], where: str) -> bool:
    for path, wanted in condition.items():
        value, names = _name(_lookup(choice, path, where)), wanted if isinstance(wanted, list) else [wanted]
        if settings := [one for one in names if isinstance(one, dict)]:  # would match nothing, whatever it says
            raise UserError(f"{where}: '{path}' is asked for by name, without settings: {_name(settings[0])}")
        if value not in names:
            return False
    return True


def _override(choice: dict[str, Any], overrides: tuple[Override, ...], where: str) -> dict[str, Any]:
    for override in overrides:
        if _matches(choice, override.when, where):
            choice = _with(choice, override.set)
    return choice


def _as_data(choice: dict[str, Any]) -> dict[str, Any]:
    """Return the choice with components as mappings, so that row paths can rely on ``model.name``."""
    names = ("model", "defense", "attack", "transform", "optimizer", "augmentation", "check")
    return {k: {"name": v} if k in names and isinstance(v, str) else v for k, v in choice.items()}


def _variant(template: str, choice: Mapping[str, Any], where: str) -> str:
    return re.sub(r"\{([^{}]*)\}", lambda field: str(_name(_lookup(choice, field[1], where))), template)


def _spec(stage: str, choice: dict[str, Any], where: str) -> Spec | None:
    if stage == ARCHITECTURE:
        return None
    if stage not in BLOCKS:
        known = ", ".join(sorted([*BLOCKS, ARCHITECTURE]))
        raise UserError(f"{where}.stage: unknown stage '{stage}': choose from {known}")
    kind = BLOCKS[stage]
    parts = kind.parts_of_block()
    spec = parse(kind, choice if len(parts) == 1 else _nested(parts, choice, where), where)
    spec.check_plugins(where)
    return spec


def _nested(kinds: tuple[type[Spec], ...], choice: dict[str, Any], where: str) -> dict[str, Any]:
    """Return the fields of a flat block by the part that knows each: capture, attack, and what is made of it."""
    choice = _planted(choice, where)
    capture, attack, judged = ({k: v for k, v in choice.items() if k in kind.model_fields} for kind in kinds)
    rest = set(choice) - set(capture) - set(attack) - set(judged)
    if rest:
        known = sorted({field for kind in kinds for field in kind.model_fields} - {"capture"})
        raise UserError(f"{where}.{sorted(rest)[0]}: unknown key; known keys are {', '.join(known)}")
    if isinstance(own := attack.get("law"), dict):
        tried = {"attack": "attack", "transform": "transform", "evaluations": "iterations"} if own.get("gate") else {}
        tried = {name: attack.get(field, "none") for name, field in tried.items() if field in {*attack, "transform"}}
        attack["law"] = {"capture": capture, "generator": attack.get("generator"), **tried, **own}
    if "projection" in kinds[-1].model_fields:
        judged["projection"] = _projection(choice, where)
    return {"metrics": [], **judged, "attack": {"capture": capture, **attack}}


def _planted(choice: dict[str, Any], where: str) -> dict[str, Any]:
    """Return the block with its own generator where ``images.planted: true`` asks for images that it makes."""
    images = choice.get("images")
    if not isinstance(images, dict) or "planted" not in images:
        return choice
    if images["planted"] is not True or "generator" not in choice:
        raise UserError(f"{where}.images.planted: write true, in a block with a generator, or leave it out")
    return {**choice, "images": {**images, "planted": choice["generator"]}}


def _projection(choice: Mapping[str, Any], where: str) -> dict[str, Any]:
    """Return the inversion of the private image with the attack's generator; the block says how it is done."""
    shared = {key: choice[key] for key in ("dataset", "images", "generator") if key in choice}
    if "generator" not in shared:
        raise UserError(f"{where}.generator: a landscape lies among a generator's latents: add generator: ...")
    own = choice.get("projection", {})
    if not isinstance(own, dict):
        raise UserError(f"{where}.projection: write its keys: {{generations: 10}}")
    return {**shared, **own}


def block_stage(run: PlannedRun) -> str:
    """Return the stage that the item reads; ``architecture`` where nothing runs."""
    return ARCHITECTURE if run.spec is None else run.spec.stage
