"""A training on a backbone that the same item trains: ``backbone: {block: pretraining}``."""

from collections.abc import Mapping
from typing import Any

from leaklab.records.canonical import canonical_json
from leaklab.records.errors import UserError
from leaklab.records.expand_state import Runs
from leaklab.records.train_spec import TrainSpec


def with_backbone(fields: dict[str, Any], name: str, runs: Runs, where: str) -> dict[str, Any]:
    """Return the fields of a spec with the training that a block of the item names as backbone.

    Args:
        fields: one value a field.
        name: of their own block.
        runs: from the name of a block to its runs.
        where: place in the user's file.

    Raises:
        UserError: an unknown key or block, the own block, or one with several trainings.
    """
    backbone = fields.get("backbone")
    if not isinstance(backbone, Mapping) or "block" not in backbone:
        return fields
    where = f"{where}.backbone"
    if set(backbone) != {"block"}:
        raise UserError(f"{where}: a backbone of this item has the key block alone, not {', '.join(backbone)}")
    if backbone["block"] == name:
        raise UserError(f"{where}.block: a training cannot be its own backbone: name another block")
    specs = [run.spec for run in runs(str(backbone["block"]))]
    found = {canonical_json(spec): spec for spec in specs if isinstance(spec, TrainSpec)}
    if len(found) != 1:
        raise UserError(
            f"{where}.block: '{backbone['block']}' has {len(found)} trainings: name one with stage: train and no axes"
        )
    (training,) = found.values()
    return {**fields, "backbone": {"train": training.model_dump()}}
