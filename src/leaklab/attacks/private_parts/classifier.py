"""A classifier in place of the one that the client keeps to itself: drawn, or fitted to the extractor's gradient.

CENTAUR, PPSGD, pFedHN-PC and HyperFL share the extractor alone. IG needs a whole network, and the papers' attacker
draws what is missing. For one sample no draw is needed: the gradient of the extractor's last affine layer z = W x + b
is delta x^T and delta, so that x and z follow, and a classifier is written down whose cross-entropy has the derivative
delta at z. Then the dummy gradient of the true image is the observed one, whatever the client's classifier was.

Source: "the private classifier is not needed" in the identity of HyperFL's heads; x as the quotient of the two
gradients is that of analytic attacks.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Literal

import torch
from torch import Tensor, nn

from leaklab.attacks.base import blank
from leaklab.models.published import initialise
from leaklab.observations.base import Knowledge, Observation
from leaklab.records import plugins
from leaklab.records.errors import UserError
from leaklab.records.streams import stream

Filling = Literal["drawn", "fitted"]
FILLINGS: tuple[Filling, ...] = ("drawn", "fitted")


def completed(observation: Observation, knowledge: Knowledge, how: Filling, seed: int, needed_by: str) -> Observation:
    """Return the observation of one trial with weights in place of those that the server never had.

    Args:
        observation: one trial with weights of its own; kind gradient.
        knowledge: must grant the network's shapes, and labels for ``fitted``.
        how: ``drawn`` from the law of the model's first weights, or ``fitted`` (one sample).
        seed: of what is drawn.
        needed_by: for messages.

    Raises:
        UserError: facts are withheld, or ``fitted`` on several samples or on a network that it does not fit.
    """
    if how not in FILLINGS:
        raise UserError(f"'{needed_by}' has no classifier '{how}': choose from {', '.join(FILLINGS)}")
    network = blank(observation, knowledge, needed_by).to(observation.like)
    names = [name for name, _ in network.named_parameters()]
    missing = [name for name in names if name not in observation.weights]
    if not missing:
        return observation
    drawn = _drawn(network, observation, seed) if how == "drawn" else {}
    if how == "fitted":
        known = {**network.state_dict(), **observation.weights, **observation.buffers}
        network.load_state_dict(known, strict=True)
        drawn = _fitted(network.eval(), observation, knowledge, missing, needed_by)
    weights = {name: observation.weights[name] if name in observation.weights else drawn[name] for name in names}
    return replace(observation, weights=weights, update={name: observation.update[name] for name in names
                                                         if name in observation.update})  # fmt: skip


def _drawn(network: nn.Sequential, observation: Observation, seed: int) -> Mapping[str, Tensor]:
    """Return first weights as the model draws them, from a stream that no client has."""
    model = plugins.load("models", observation.model["name"], observation.model["settings"])
    initialise(network, stream(seed, "in place of private weights", observation.trials[0]), model.initialisation)
    return {name: value.detach().clone() for name, value in network.named_parameters()}


def _fitted(
    network: nn.Sequential, observation: Observation, knowledge: Knowledge, missing: list[str], needed_by: str
) -> dict[str, Tensor]:
    """Return weight and bias of the last layer whose cross-entropy has the observed derivative before it."""
    samples = int(knowledge.require("batch_size", needed_by))
    if samples != 1:
        raise UserError(f"'{needed_by}': a classifier is fitted to one sample, not to {samples}: set classifier: drawn")
    label = int(knowledge.require("labels", needed_by)[observation.trials[0]][0])
    last, between, head = _ends(network, missing, needed_by)
    weight, bias = (observation.update[f"{last}.{part}"][0] for part in ("weight", "bias"))
    if not bias.any():
        raise UserError(f"'{needed_by}': the update of '{last}' is zero, so nothing can be read off: capture it again")
    layer = network.get_submodule(last)
    z = layer(bias @ weight / bias.square().sum())[None].detach().requires_grad_()
    features = between(z)
    (slope,) = torch.autograd.grad(features.sum(), z)
    if features.shape != z.shape or head.in_features != features.shape[1]:
        raise UserError(f"'{needed_by}' fits a classifier behind an activation only: set classifier: drawn")
    wanted = torch.where(slope[0] != 0, bias / slope[0], torch.zeros_like(bias))
    row, offset = head.weight.detach().clone().zero_(), bias.new_zeros(head.out_features)
    # at the true image all logits are 0: the class's derivative is 1 / K - 1, and its row times that is `wanted`
    row[label] = -wanted * head.out_features / (head.out_features - 1)
    offset[label] = -row[label] @ features[0].detach()
    return dict(zip(missing, (row, offset), strict=True))


def _ends(network: nn.Sequential, missing: list[str], needed_by: str) -> tuple[str, nn.Sequential, nn.Linear]:
    """Return the name of the last shared layer, what stands between it and the private one, and the private one."""
    layers = list(network.named_children())
    trained = [place for place, (_, layer) in enumerate(layers) if next(layer.parameters(), None) is not None]
    name, head = layers[trained[-1]]
    shared, last = layers[trained[-2]] if len(trained) > 1 else ("", None)
    affine = isinstance(head, nn.Linear) and isinstance(last, nn.Linear) and last.bias is not None
    if not affine or missing != [f"{name}.weight", f"{name}.bias"] or trained[-1] != len(layers) - 1:
        raise UserError(
            f"'{needed_by}' fits a classifier where two affine layers with biases end the network and the client keeps "
            "the last alone: set classifier: drawn"
        )
    assert isinstance(head, nn.Linear)
    return shared, network[trained[-2] + 1 : trained[-1]], head
