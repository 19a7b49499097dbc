"""Labels that an attack fixes before it searches images: granted by the threat model, or read off the last layer."""

import torch
from torch import Tensor

from leaklab.attacks.labels import bias_rule, head, row_sum_rule
from leaklab.observations.base import Knowledge, Observation
from leaklab.records.errors import UserError

SINGLE_RULES = {"bias": bias_rule, "row-sum": row_sum_rule}
LABEL_RULES = (*SINGLE_RULES, "distinct", "known")


def fixed_labels(attack: str, rule: str, observation: Observation, knowledge: Knowledge) -> Tensor:
    """Return the labels [T, B], int64, on the device of the observation.

    Args:
        attack: its name, for messages.
        rule: ``bias`` or ``row-sum`` (smallest bias gradient, or row sum of the weight gradient, of the head, for one
            sample per update), ``distinct`` (the B smallest bias gradients, for samples of B different classes) or
            ``known``.
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
    batch = int(knowledge.require("batch_size", attack))
    if rule == "distinct":
        return distinct_rule(observation, batch)
    if batch != 1:
        raise UserError(f"{attack}'s rule '{rule}' reads one label: use label_rule: distinct or known")
    return SINGLE_RULES[rule](observation)


def distinct_rule(observation: Observation, batch: int) -> Tensor:
    """Return the classes of the B smallest bias gradients of the head, [T, B], ascending in each trial.

    The bias gradient of class k is the mean prediction p_k, less 1/B if the batch has a sample of it. So the rule is
    exact for different classes as long as no prediction exceeds 1/B more than another's, as in untrained networks, and
    whatever positive factor the update carries. Which label belongs to which image does not matter to a search.

    Raises:
        UserError: there are fewer classes than samples.
    """
    gradient = head(observation).bias_update
    if batch > gradient.shape[1]:
        raise UserError(f"{batch} samples cannot have different labels of {gradient.shape[1]}: use label_rule: known")
    return gradient.topk(batch, 1, largest=False).indices.sort(1).values
