"""Threat models: named sets of facts that an attacker is granted.

A fact that is not granted is not in the observation's file at all, so no attack can use it by accident.
"""

from typing import Literal

from leaklab.records.errors import UserError

Fact = Literal[
    "architecture",
    "weights",
    "nominal_rate",
    "local_steps",
    "step_factors",
    "batch_size",
    "num_classes",
    "input_shape",
    "input_range",
    "defense",
    "normalisation",
    "optimizer",
    "weight_decay",
    "algorithm",
    "round",
    "rounds",
    "server",
    "queries",
    "labels",
]
"""What can be granted; a misspelt fact is refused by the type checker."""

FACTS: dict[Fact, str] = {
    "architecture": "the model and its settings",
    "weights": "the weights broadcast to the client",
    "nominal_rate": "the local learning rate that the server prescribes (not the one really used)",
    "local_steps": "local steps per round",
    "step_factors": "factor on the prescribed rate in each local step (the schedule inside the round)",
    "batch_size": "samples per local step",
    "num_classes": "number of classes of the task",
    "input_shape": "shape of one input",
    "input_range": "smallest and largest value of an input",
    "defense": "name and settings of the client's defense (not its draws)",
    "normalisation": "mean and deviation by which a trained network's inputs are normalised",
    "optimizer": "how clients step, with its settings (momentum among them)",
    "weight_decay": "coefficient of the weights in the gradient",
    "algorithm": "how the server averages and scales the clients' rates",
    "round": "number of the captured round",
    "rounds": "how many updates of the same batch the observation is the mean of, where there are several",
    "server": "what a malicious server changes in the weights that it sends: name and settings",
    "queries": "how often a malicious server asked the client for an update of the same samples",
    "labels": "the labels of the private samples",
}

_MALICIOUS: frozenset[Fact] = frozenset({"server", "queries"})
_HONEST_BUT_CURIOUS: frozenset[Fact] = frozenset(FACTS) - {"labels"} - _MALICIOUS

THREAT_MODELS: dict[str, frozenset[Fact]] = {
    "honest-but-curious": _HONEST_BUT_CURIOUS,
    "honest-but-curious-with-labels": _HONEST_BUT_CURIOUS | {"labels"},
    "blind-rate": _HONEST_BUT_CURIOUS - {"nominal_rate"},
    "malicious-server": _HONEST_BUT_CURIOUS | _MALICIOUS,
}


def granted(threat_model: str) -> frozenset[Fact]:
    """Return the facts that ``threat_model`` grants.

    Raises:
        UserError: there is no threat model of that name.
    """
    if threat_model not in THREAT_MODELS:
        raise UserError(f"unknown threat model '{threat_model}': choose from {', '.join(THREAT_MODELS)}")
    return THREAT_MODELS[threat_model]
