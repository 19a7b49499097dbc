"""Threat models: named sets of facts that an attacker is granted.

A fact that is not granted is not in the observation's file at all, so no attack can use it by accident. What an
attacker brings along or assumes (``OWN``) is in no file: that it is granted is checked where an attack is planned and
where it runs.
"""

from typing import Literal

from leaklab.records.errors import UserError

Silence = Literal["zero update", "update below rounding", "diverged training"]
"""Why an update says nothing of its samples: it is zero; it is smaller than what rounding the weights that it was
subtracted from may have changed; the weights are those at which a training was frozen that diverged."""
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
    "client_weight",
    "samples",
    "clients",
    "defense_settings",
    "data_statistics",
    "surrogate_data",
    "generator",
    "public_images",
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
    "defense": "which defense the client has: name and settings (not its draws)",
    "normalisation": "mean and deviation by which a trained network's inputs are normalised",
    "optimizer": "how clients step, with its settings (momentum among them)",
    "weight_decay": "coefficient of the weights in the gradient",
    "algorithm": "how the server averages and scales the clients' rates",
    "round": "number of the captured round",
    "rounds": "how many updates of the same batch the observation is the mean of, where there are several",
    "server": "what a malicious server changes in the weights that it sends: name and settings",
    "queries": "how often a malicious server asked the client for an update of the same samples",
    "labels": "the labels of the private samples",
    "client_weight": "mean of the client's rates over the prescribed one: p_k N under scheme 1",
    "samples": "samples of the client's whole round, where each local step has a batch of its own",
    "clients": "of how many clients the update is the sum",
    "defense_settings": "what a law of the defense is made of: sigma, bound, shares",
    "data_statistics": "law of a measurement of inputs, by which a malicious server sets its cuts",
    "surrogate_data": "images of a data set that are none of the private ones",
    "generator": "a network or law that makes images of the task's kind",
    "public_images": "images at hand themselves, among which the private one or its neighbors are looked up",
}

OWN: frozenset[Fact] = frozenset(
    {
        "client_weight",
        "samples",
        "clients",
        "defense_settings",
        "data_statistics",
        "surrogate_data",
        "generator",
        "public_images",
    }
)
"""Facts that no capture writes: an attacker has them from elsewhere, or states them as a setting."""

PUBLIC: frozenset[Fact] = frozenset({"surrogate_data", "generator", "public_images"})
"""Data of others than the client."""

_MALICIOUS: frozenset[Fact] = frozenset({"server", "queries", "data_statistics"})
_HONEST_BUT_CURIOUS: frozenset[Fact] = frozenset(FACTS) - {"labels"} - _MALICIOUS

# the server knows the mean that it took itself; a normalisation is part of the range of inputs
_INFORMED: frozenset[Fact] = frozenset(
    {
        "architecture",
        "weights",
        "num_classes",
        "input_shape",
        "input_range",
        "normalisation",
        "batch_size",
        "samples",
        "rounds",
    }
)
_PARAMETER_AWARE: frozenset[Fact] = _INFORMED | {
    "nominal_rate",
    "local_steps",
    "step_factors",
    "optimizer",
    "weight_decay",
    "algorithm",
    "round",
    "client_weight",
    "clients",
}

OF_A_LETTER: dict[str, frozenset[Fact]] = {
    "informed": _INFORMED,
    "parameter-aware": _PARAMETER_AWARE,
    "data-enhanced": _PARAMETER_AWARE | PUBLIC,
}
"""Threat models that grant what a letter stands for and no more (B, C, D; ``observations/letters.py``)."""

KNOWS_LABELS, KNOWS_DEFENSE = "+y", "+d"
MARKS: dict[str, frozenset[Fact]] = {
    "": frozenset(),
    KNOWS_LABELS: frozenset({"labels"}),
    KNOWS_DEFENSE: frozenset({"defense", "defense_settings"}),
    KNOWS_LABELS + KNOWS_DEFENSE: frozenset({"labels", "defense", "defense_settings"}),
}
"""What no letter speaks of: granted behind the name of such a threat model, e.g. ``parameter-aware+d``."""

THREAT_MODELS: dict[str, frozenset[Fact]] = {
    "honest-but-curious": _HONEST_BUT_CURIOUS,
    "honest-but-curious-with-labels": _HONEST_BUT_CURIOUS | {"labels"},
    "blind-rate": _HONEST_BUT_CURIOUS - {"nominal_rate"},
    "malicious-server": _HONEST_BUT_CURIOUS | _MALICIOUS,
    **{name + mark: facts | more for name, facts in OF_A_LETTER.items() for mark, more in MARKS.items()},
}


def granted(threat_model: str) -> frozenset[Fact]:
    """Return the facts that ``threat_model`` grants.

    Raises:
        UserError: there is no threat model of that name.
    """
    if threat_model not in THREAT_MODELS:
        plain = ", ".join(name for name in THREAT_MODELS if "+" not in name)
        marks = ", ".join(filter(None, MARKS))
        raise UserError(
            f"unknown threat model '{threat_model}': choose from {plain}; {', '.join(OF_A_LETTER)} also with {marks}"
        )
    return THREAT_MODELS[threat_model]
