"""Which attacks on text a threat model and a capture allow, checked before any job runs; imports no torch."""

from leaklab.observations.requirements import check_combination, check_kind
from leaklab.records.errors import UserError
from leaklab.records.text_specs import PRINTED_ATTACK, TextAttackSpec

READ_OUT = "token-order"
"""The attack without a search: it reads the tables' gradients of one step."""


def check(attack: TextAttackSpec) -> None:
    """Refuse an attack that asks for more than its capture gives.

    Raises:
        UserError: a fact that is withheld, several steps for the read-out, or a capture without sentences.
    """
    capture = attack.capture
    check_kind(capture.kind, capture.threat_model)
    if attack.labels == "known":
        check_combination({"labels"}, capture.threat_model, attack.attack.name)
    if attack.attack.name == PRINTED_ATTACK and capture.kind == "delta":
        # TAG takes the update for the gradient: it has to divide by what the server prescribes
        check_combination({"nominal_rate", "local_steps"}, capture.threat_model, attack.attack.name)
    if attack.attack.name == READ_OUT and capture.local_steps > 1:
        raise UserError(
            f"attack '{READ_OUT}' reads the gradient of one local step, not of {capture.local_steps}: "
            "choose local_steps: 1 or another attack"
        )
    if capture.sentences.count == 0:
        raise UserError("no sentences to capture: set sentences.printed or sentences.others")
