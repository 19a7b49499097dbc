"""Labels that an attack fixes before it searches: granted by the threat model, or read off the last layer.

For cross-entropy and one sample the derivative at the logits is p - e_y: only the true class's entry is negative. The
head's bias gradient is that vector itself; a row of its weight gradient is that entry times the features. Positive
factors on the update change nothing.

Source: "iDLG: Improved Deep Leakage from Gradients", eqs. (4)-(6).
"""

import torch
from torch import Tensor, nn

from leaklab.attacks.base import victim
from leaklab.attacks.labels.head import Head, counted_labels, head, mean_prediction, noise_images
from leaklab.attacks.labels.unmixing import HeadReader
from leaklab.attacks.matching.distances import Distance, is_scale_free
from leaklab.observations.base import Knowledge, Observation
from leaklab.records.errors import UserError


def bias_rule(observation: Observation) -> Tensor:
    """Return the class of the smallest bias gradient of the head, [T, 1]; exact for one sample and any activation."""
    return head(observation).bias_update.argmin(1, keepdim=True)


def row_sum_rule(observation: Observation) -> Tensor:
    """Return the class of the smallest row sum of the head's weight gradient, [T, 1].

    Exact for one sample where the features are not negative (ReLU, sigmoid).
    """
    return head(observation).weight_update.sum(2).argmin(1, keepdim=True)


SINGLE_RULES = {"bias": bias_rule, "row-sum": row_sum_rule}
BATCH_RULES = ("counts", "unmixed")
LABEL_RULES = (*SINGLE_RULES, "distinct", *BATCH_RULES, "known", "target")


def fixed_labels(
    attack: str, rule: str, observation: Observation, knowledge: Knowledge, distance: Distance | None = None
) -> Tensor:
    """Return the labels [T, B], int64, on the device of the observation.

    ``distinct`` is for networks that predict nearly the same for all classes, as with PyTorch's initialisation. With
    DLG's wide one a single class takes most of the prediction, and the rule misses it: there ``counts`` is right, equal
    labels included, and at an unknown scale ``unmixed``.

    Args:
        attack: its name, for messages.
        rule: ``bias`` or ``row-sum`` (smallest bias gradient, or row sum of the weight gradient, of the head, for one
            sample per update), ``distinct`` (the B smallest bias gradients, for samples of B different classes),
            ``counts`` (what the bias gradient leaves of the mean prediction on noise, at a known scale), ``unmixed``
            (the same at any scale, see ``unmixed_labels``), ``known``, or ``target`` (the class that a malicious
            server fishes for, which a defense cannot hide from it).
        observation: T trials.
        knowledge: must grant ``labels`` or ``batch_size``, as the rule needs.
        distance: that of the attack, which may say that the scale is unknown.

    Raises:
        UserError: unknown rule, a rule for single samples on batches, ``counts`` at an unknown scale, or labels that
            are withheld.
    """
    if rule not in LABEL_RULES:
        raise UserError(f"{attack} has no label_rule '{rule}': choose from {', '.join(LABEL_RULES)}")
    if rule == "known":
        granted = knowledge.require("labels", attack)
        device = next(iter(observation.update.values())).device
        return torch.tensor([granted[trial] for trial in observation.trials], device=device)
    batch = int(knowledge.require("batch_size", attack))
    if rule == "target":
        return target_rule(attack, observation, knowledge, batch)
    if rule == "distinct":
        return distinct_rule(observation, batch)
    if rule in BATCH_RULES:
        gradient = observation.as_direction() if rule == "unmixed" else observation.as_gradient(knowledge, attack)
        network = victim(gradient, knowledge, attack)
        return batch_labels(rule, network, head(gradient), noise_images(gradient, knowledge, attack), batch, distance)
    if batch != 1:
        raise UserError(f"{attack}'s rule '{rule}' reads one label: use label_rule: unmixed, distinct or known")
    return SINGLE_RULES[rule](observation)


def target_rule(attack: str, observation: Observation, knowledge: Knowledge, batch: int) -> Tensor:
    """Return the class that the server fished for, [T, 1].

    Raises:
        UserError: there is no malicious server with a target, or it caught several samples.
    """
    target = knowledge.require("server", attack)["settings"].get("target")
    if target is None or batch != 1:
        raise UserError(f"{attack}'s rule 'target' is for a server that fishes for one sample: set label_rule: bias")
    update = next(iter(observation.update.values()))
    return torch.full((len(observation.trials), 1), int(target), device=update.device)


def batch_labels(
    rule: str, network: nn.Sequential, observed: Head, images: Tensor, batch: int, distance: Distance | None
) -> Tensor:
    """Return the labels [T, B], ascending, of the rules ``counts`` and ``unmixed``.

    Args:
        rule: one of them.
        network: the victim, which ends with its head.
        observed: that layer and its update, T trials.
        images: public ones, or noise, [N, C, H, W] as the victim takes them.
        batch: B.
        distance: see ``fixed_labels``.

    Raises:
        UserError: ``counts`` at an unknown scale.
    """
    if rule == "unmixed":
        reader = HeadReader(network, observed, images, batch)
        return torch.stack([reader.read(row).labels for row in range(len(observed.bias_update))])
    if is_scale_free(distance):
        raise UserError("label_rule 'counts' needs the scale of the gradient: use label_rule: unmixed or known")
    return counted_labels(observed.bias_update, mean_prediction(network, images), batch)


def check_count(attack: str, labels: Tensor, samples: int) -> None:
    """Refuse labels [T, n] of another number of samples than the attack searches.

    Raises:
        UserError: says what to set.
    """
    if labels.shape[1] != samples:
        raise UserError(
            f"attack '{attack}' was told of {labels.shape[1]} labels and searches {samples} samples: set samples: "
            f"{labels.shape[1]}"
        )


def distinct_rule(observation: Observation, batch: int) -> Tensor:
    """Return the classes of the B smallest bias gradients of the head, [T, B], ascending in each trial.

    The bias gradient of class k is the mean prediction p_k, less 1/B if the batch has a sample of it. So the rule is
    exact for different classes as long as no prediction exceeds 1/B more than another's, and whatever positive factor
    the update carries. Which label belongs to which image does not matter to a search.

    Raises:
        UserError: there are fewer classes than samples.
    """
    gradient = head(observation).bias_update
    if batch > gradient.shape[1]:
        raise UserError(f"{batch} samples cannot have different labels of {gradient.shape[1]}: use label_rule: known")
    return gradient.topk(batch, 1, largest=False).indices.sort(1).values
