"""Attacks on clients whose local steps have batches of their own; imports no torch."""

from leaklab.observations.client_requirements import check_clients
from leaklab.observations.declared import chosen
from leaklab.observations.requirements import ATTACKS
from leaklab.records import plugins
from leaklab.records.attack_spec import AttackSpec
from leaklab.records.capture_spec import ClientChoice
from leaklab.records.errors import UserError


def check_batches(spec: AttackSpec) -> None:
    """Refuse clients of a deal that the attack cannot take apart, and a number of samples that is not theirs.

    An attack that says ``several_batches`` in its class searches the batches of all steps, if its setting ``samples``
    says how many samples that makes.

    Raises:
        UserError: says what to change.
    """
    capture, name = spec.capture, spec.attack.name
    if plugins.class_attribute(ATTACKS, name, "several_batches") is None:
        check_clients(capture)
        return
    check_clients(capture.model_copy(update={"local_steps": 1}))
    steps = capture.local_steps if isinstance(capture.images, ClientChoice) else 1
    held = capture.batch_size * steps
    told = chosen(ATTACKS, name, spec.attack.settings, "samples") or capture.batch_size
    if told != held:
        raise UserError(
            f"attack '{name}': samples: the client has {held} samples in this round, not {told}: set "
            f"attack.samples: {held}"
        )
