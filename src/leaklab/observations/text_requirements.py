"""Which attacks on text a threat model and a capture allow, checked before any job runs; imports no torch."""

from leaklab.observations.declared import KNOWN_LABELS, declared
from leaklab.observations.requirements import check_combination, check_kind, check_most, needs
from leaklab.records.errors import UserError
from leaklab.records.text_specs import TextAttackSpec

ATTACKS = "attacks/text"


def check(attack: TextAttackSpec) -> None:
    """Refuse an attack that asks for more than its capture gives.

    Raises:
        UserError: a fact that is withheld, more local steps than the attack reads, or a capture without sentences.
    """
    capture, name = attack.capture, attack.attack.name
    asked = declared(ATTACKS, name)
    check_kind(capture.kind, capture.threat_model)
    facts = needs(name, attack.attack.settings, ATTACKS) | set(KNOWN_LABELS.get(attack.labels, ()))
    if capture.kind == "delta":
        facts |= set(asked.facts_for_delta)
    check_combination(facts, capture.threat_model, name)
    check_most(f"attack '{name}'", "local_steps", capture.local_steps, asked.most_steps)
    if capture.sentences.count == 0:
        raise UserError("no sentences to capture: set sentences.printed or sentences.others")
