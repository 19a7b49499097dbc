"""What a training sweep cannot do, said in one line before it starts."""

from torch import nn

from leaklab.defenses.base import Defense
from leaklab.defenses.base import overrides as defense_overrides
from leaklab.federated.algorithms.base import Algorithm, overrides
from leaklab.records.errors import UserError
from leaklab.records.train_spec import OWN_TEST, TrainSpec


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
