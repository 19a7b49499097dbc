"""What an attack on text takes from an observation: the network, where the sentence ends, its label."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from torch import Tensor, nn

from leaklab.attacks.labels.rules import fixed_labels
from leaklab.attacks.text.base import TextCase, TextMatching, TextReconstruction
from leaklab.attacks.text.inversion import SentenceFrame
from leaklab.models.text.base import POSITION_TABLE, TextArchitecture
from leaklab.observations.base import Knowledge, Observation
from leaklab.records import plugins
from leaklab.records.errors import UserError


def match(settings: TextMatching, case: TextCase, gradient: Observation) -> TextReconstruction:
    """Search the sentences of a case by gradient matching.

    Args:
        settings: but for the budget, which is the case's.
        case: what the attack was given.
        gradient: what it takes the case's observation for, ``kind`` gradient.

    Raises:
        UserError: a fact is withheld, or the observation is not one of text.
    """
    knowledge, budget = case.knowledge, case.budget
    return replace(settings, iterations=budget.iterations, restarts=budget.restarts).reconstruct(
        victim(gradient, knowledge),
        gradient.update,
        frames(gradient, knowledge),
        knowledge.require("num_classes"),
        case.streams,
        gradient.trials,
        labels(case.labels, gradient, knowledge),
    )


def victim(observation: Observation, knowledge: Knowledge) -> nn.Module:
    """Return the observed network with its broadcast weights, frozen ones too; no parameter asks for a gradient.

    Raises:
        UserError: the observation is not one of text, or its weights do not belong to the model.
    """
    model: TextArchitecture = plugins.load("models/text", observation.model["name"], observation.model["settings"])
    network = model.build(_vocabulary(knowledge)["size"], knowledge.require("num_classes"))
    state, places = {**observation.weights, **observation.buffers}, set(network.state_dict())
    named = [name for name, _ in network.named_parameters()]
    constants = {name for name, _ in network.named_buffers()} & places
    moving = [name for name in named if name not in observation.buffers]
    # the other name of a tied table may be there or not: it is the same tensor, unless both are frozen
    if moving != list(observation.weights) or not {*named, *constants} <= set(state) <= places:
        raise UserError(f"the observed weights are not those of model '{observation.model['name']}': capture again")
    own = network.state_dict()
    for name in places - set(state):
        state[name] = next(state[other] for other in named if own[other].data_ptr() == own[name].data_ptr())
    like = observation.like
    network = network.to(device=like.device, dtype=like.dtype)
    network.load_state_dict(state, strict=True)
    return network.requires_grad_(requires_grad=False)


def frames(observation: Observation, knowledge: Knowledge) -> list[SentenceFrame]:
    """Return where each sentence starts and ends: only the positions that it uses have a gradient.

    Exact while no noise is added to the update.
    """
    vocabulary = _vocabulary(knowledge)
    lengths = (observation.update[POSITION_TABLE].abs().amax(2) > 0).sum(1).tolist()
    return [SentenceFrame(length, vocabulary["start"], vocabulary["end"]) for length in lengths]


RULES = {"inferred": "bias", "known": "known"}
"""What ``labels`` of a spec means among the rules of ``attacks/labels/rules.py``."""


def labels(choice: str, observation: Observation, knowledge: Knowledge) -> Tensor | None:
    """Return the labels [T], or None where they are searched.

    Raises:
        UserError: labels are asked for and withheld.
    """
    if choice == "searched":
        return None
    return fixed_labels("an attack on text", RULES[choice], observation, knowledge)[:, 0]


def _vocabulary(knowledge: Knowledge) -> Mapping[str, Any]:
    architecture: Mapping[str, Any] = knowledge.require("architecture", "an attack on text")
    if "vocabulary" not in architecture:
        raise UserError("the observation is not one of text: capture it with a block of stage attack-text")
    vocabulary: Mapping[str, Any] = architecture["vocabulary"]
    return vocabulary
