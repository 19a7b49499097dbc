"""Labels that an attack fixes before it searches: granted by the threat model, or read off the last layer.

For cross-entropy and one sample the derivative at the logits is p - e_y: only the true class's entry is negative. The
head's bias gradient is that vector itself; a row of its weight gradient is that entry times the features. Positive
factors on the update change nothing.

Source: "iDLG: Improved Deep Leakage from Gradients", eqs. (4)-(6).
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from leaklab.observations.base import Knowledge, Observation
from leaklab.records.errors import UserError


@dataclass(frozen=True)
class Head:
    """The last affine layer of the victim and its observed update.

    Attributes:
        weight: [K, F].
        bias: [K].
        weight_update: [T, K, F], in the sign of a gradient.
        bias_update: [T, K], likewise.
    """

    weight: Tensor
    bias: Tensor
    weight_update: Tensor
    bias_update: Tensor


def head(observation: Observation) -> Head:
    """Return the last layer of the observed model.

    Raises:
        UserError: the model does not end in an affine layer with a bias.
    """
    names = list(observation.weights)
    prefix = names[-1].removesuffix("bias")
    weight, bias = f"{prefix}weight", f"{prefix}bias"
    if names[-2:] != [weight, bias] or observation.weights[weight].dim() != 2:
        raise UserError("the model does not end in an affine layer with a bias: choose another attack or model")
    if not {weight, bias} <= set(observation.update):
        raise UserError("the client keeps its last layer to itself, so no label can be read off: use label_rule: known")
    gradient = observation.as_direction().update
    return Head(observation.weights[weight], observation.weights[bias], gradient[weight], gradient[bias])


def bias_rule(observation: Observation) -> Tensor:
    """Return the class of the smallest bias gradient of the head, [T, 1]; exact for one sample and any activation."""
    return head(observation).bias_update.argmin(1, keepdim=True)


def row_sum_rule(observation: Observation) -> Tensor:
    """Return the class of the smallest row sum of the head's weight gradient, [T, 1].

    Exact for one sample where the features are not negative (ReLU, sigmoid).
    """
    return head(observation).weight_update.sum(2).argmin(1, keepdim=True)


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
