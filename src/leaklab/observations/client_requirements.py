"""Which clients and servers an attack can follow: optimizer, layers in training state, deals; before any job runs.

Like ``requirements.py`` it imports no torch: what a plug-in declares is read from its source (``declared.py``).
"""

from leaklab.observations.declared import declared
from leaklab.observations.threat_models import granted
from leaklab.records import plugins
from leaklab.records.errors import UserError
from leaklab.records.traits import chosen, model_traits, server_traits
from leaklab.specs.attack import ATTACKS
from leaklab.specs.capture import CaptureSpec


def check_client(attack: str, capture: CaptureSpec) -> None:
    """Refuse a client whose optimizer, or whose layers in training state, the attack cannot follow; imports no torch.

    Raises:
        UserError: says what to set.
    """
    asked, model = declared(ATTACKS, attack), capture.model
    check_optimizer(attack, capture.optimizer.name)
    if capture.mode != "train":
        return
    if model_traits(model.name).batch_statistics and not asked.batch_statistics:
        able = [name for name in plugins.available(ATTACKS) if declared(ATTACKS, name).batch_statistics]
        raise UserError(
            f"attack '{attack}' cannot follow model '{model.name}' in training state, where its batch normalisations "
            f"use the client's batch: set mode: eval, or choose {' or '.join(able)}"
        )
    if chosen("models", model.name, model.settings, "dropout") and not asked.dropout:
        raise UserError(
            f"attack '{attack}' does not know the dropout masks of model '{model.name}' in training state: set "
            "mode: eval, or the model's dropout to 0"
        )


def check_optimizer(attack: str, optimizer: str, room: str = ATTACKS) -> None:
    """Refuse an attack on an optimizer whose steps it cannot read; imports no torch.

    Raises:
        UserError: names those that it can.
    """
    able = declared(room, attack).optimizers
    if optimizer not in able:
        raise UserError(
            f"attack '{attack}' reads updates of {' or '.join(able)}, not of {optimizer}, whose step is no gradient: "
            "set optimizer: sgd, or choose another attack"
        )


def samples_seen(capture: CaptureSpec) -> int:
    """Return of how many samples the observed update speaks; imports no torch."""
    isolates = capture.server is not None and server_traits(capture.server.name).isolates
    return 1 if isolates else capture.batch_size


def check_server(capture: CaptureSpec) -> None:
    """Refuse a malicious server under a threat model without one, or on a model that it cannot change; no torch.

    Raises:
        UserError: says what to set.
    """
    if capture.server is None:
        return
    name = capture.server.name
    if "server" not in granted(capture.threat_model):
        raise UserError(
            f"server '{name}' changes the weights that it sends, which threat model '{capture.threat_model}' does not "
            "grant: set threat_model: malicious-server"
        )
    if server_traits(name).needs_head and not model_traits(capture.model.name).head_bias:
        raise UserError(
            f"server '{name}' changes a last affine layer with a bias, and that of model '{capture.model.name}' has "
            "none: choose another model"
        )


def check_clients(capture: CaptureSpec) -> None:
    """Refuse clients of a deal whose update no attack of ours can take apart, or that the deal does not have.

    Raises:
        UserError: says what to change.
    """
    choice = capture.images
    if choice.partition is None:
        return
    if capture.state is None:
        raise UserError("images.clients: clients of a deal take part in a training: add state: {block: ..., round: 0}")
    if capture.local_steps > 1:
        raise UserError(
            f"images.clients: a client of a deal has other images in each of its {capture.local_steps} local steps, "
            "and an attack reconstructs one batch: set local_steps: 1, or draw images (images.count)"
        )
    clients = chosen("data/partitions", choice.partition.name, choice.partition.settings, "clients")
    absent = [client for client in choice.clients if isinstance(clients, int) and client >= clients]
    if absent:
        raise UserError(
            f"images.clients: partition '{choice.partition.name}' deals to {clients} clients, numbers 0 to "
            f"{clients - 1}: there is no client {absent[0]}"
        )
