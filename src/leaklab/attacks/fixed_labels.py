"""Labels that an attack fixes before it searches images: granted by the threat model, or read off the last layer."""

import torch
from torch import Tensor

from leaklab.attacks.labels import bias_rule
from leaklab.observations.base import Knowledge, Observation
from leaklab.records.errors import UserError

LABEL_RULES = ("bias", "known")


def fixed_labels(attack: str, rule: str, observation: Observation, knowledge: Knowledge) -> Tensor:
    """Return the labels [T, B], int64, on the device of the observation.

    Args:
        attack: its name, for messages.
        rule: ``bias`` (smallest bias gradient of the head, for one sample per update) or ``known``.
        observation: T trials.
        knowledge: must grant ``labels`` or ``batch_size``, as the rule needs.

    Raises:
        UserError: unknown rule, a rule for single samples on batches, or labels that are withheld.
    """
    if rule not in LABEL_RULES:
        raise UserError(f"{attack} has no label_rule '{rule}': choose from {', '.join(LABEL_RULES)}")
    if rule == "known":
        granted = knowledge.require("labels", attack)
        device = next(iter(observation.update.values())).device
        return torch.tensor([granted[trial] for trial in observation.trials], device=device)
    if knowledge.require("batch_size", attack) != 1:
        raise UserError(f"{attack}'s rule 'bias' reads one label: use label_rule: known")
    return bias_rule(observation)
