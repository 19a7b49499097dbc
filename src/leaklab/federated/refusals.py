"""What a training sweep cannot do, said in one line before it starts."""

from torch import nn

from leaklab.defenses.base import Defense
from leaklab.defenses.base import overrides as defense_overrides
from leaklab.federated.algorithms.base import Algorithm, Tensors, overrides
from leaklab.records.errors import UserError
from leaklab.specs.training import OWN_TEST, TrainSpec


def refuse(spec: TrainSpec, algorithm: Algorithm, defense: Defense, network: nn.Sequential) -> None:
    """Refuse plug-ins that do not go together.

    Raises:
        UserError: the defense does what only a capture can, the algorithm has no use for it, or there is no global
            network to test.
    """
    private = sorted(defense.hidden(network))
    changed = [hook for hook in ("local_steps", "batch_size") if defense_overrides(defense, hook)]
    if private or changed:
        does = f"keeps {', '.join(private)} on the client" if private else f"changes {' and '.join(changed)}"
        raise UserError(
            f"defense '{spec.defense.name}' {does}, which a training sweep cannot do: use it in a capture only"
        )
    name = spec.algorithm_plugin.name
    if defense_overrides(defense, "sample_bound"):
        _refuse_sample_bound(spec, algorithm, defense, network)
    unwanted = [hook for hook in sorted(algorithm.refuses) if defense_overrides(defense, hook)]
    if unwanted:
        raise UserError(
            f"defense '{spec.defense.name}' changes {' and '.join(unwanted)}, for which algorithm '{name}' has no use: "
            "set defense: none"
        )
    global_parts = [part for part in spec.evaluate if part != OWN_TEST]
    if global_parts and overrides(algorithm, "client_start"):
        raise UserError(
            f"evaluate: {global_parts[0]} tests a global network, but under algorithm '{name}' clients keep parts of "
            f"theirs: set evaluate: [{OWN_TEST}]"
        )


def _refuse_sample_bound(spec: TrainSpec, algorithm: Algorithm, plugin: Defense, network: nn.Sequential) -> None:
    """Refuse to clip per sample where a sample has no gradient of its own by the values that move.

    Raises:
        UserError: weights are generated, gradients are cut once more, samples mix, or dropout has no masks.
    """
    name, defense = spec.algorithm_plugin.name, spec.defense.name
    bounded = any(phase.bound is not None for phase in algorithm.phases(spec.local_steps))
    if overrides(algorithm, "network") or bounded:
        does = "cuts whole gradients" if bounded else "generates weights"
        raise UserError(
            f"defense '{defense}' clips the gradient of each sample, but algorithm '{name}' {does}: choose another"
        )
    dropping = [own for own, layer in network.named_modules() if isinstance(layer, nn.Dropout) and layer.p > 0]
    if dropping and defense_overrides(plugin, "poisson_batches") and plugin.poisson_batches():
        raise UserError(
            f"defense '{defense}': batches of changing size have no masks for layer '{dropping[0]}': choose a model "
            "without dropout, or shuffled batches"
        )
    mixing = [own for own, _ in network.named_buffers()]
    if mixing:
        raise UserError(
            f"defense '{defense}' clips the gradient of each sample, but in model '{spec.model.name}' samples mix "
            f"('{mixing[0]}'): choose a model without batch normalization"
        )


def refuse_other_networks(name: str, algorithm: Algorithm, server: Tensors, client: Tensors, network: Tensors) -> None:
    """Refuse an algorithm whose values stand for another network than the model's.

    Args:
        name: of the algorithm.
        algorithm: whose ``receive`` and ``network`` are tried.
        server: what a server holds at the start.
        client: what a client keeps at the start.
        network: the model's initial state.

    Raises:
        UserError: a tensor is missing, is too many or has another shape.
    """
    found = algorithm.network(algorithm.receive(server, client))
    for key in sorted({*found, *network}):
        shapes = [tuple(state[key].shape) if key in state else "nothing" for state in (found, network)]
        if shapes[0] != shapes[1]:
            raise UserError(f"algorithm '{name}': network gives {shapes[0]} as '{key}' where the model has {shapes[1]}")
