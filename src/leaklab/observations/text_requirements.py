"""Which attacks on text a threat model and a capture allow, checked before any job runs; imports no torch."""

from leaklab.observations.declared import KNOWN_LABELS, declared
from leaklab.observations.requirements import check_combination, check_kind, check_most, needs
from leaklab.observations.threat_models import Fact
from leaklab.records.errors import UserError
from leaklab.records.text_specs import TEXT_ATTACKS, TextAttackSpec


def used_by_text(attack: TextAttackSpec) -> frozenset[Fact]:
    """Return all facts that an attack uses.

    Raises:
        UserError: unknown names or settings.
    """
    name = attack.attack.name
    facts = needs(name, attack.attack.settings, TEXT_ATTACKS) | frozenset(KNOWN_LABELS.get(attack.labels, ()))
    return facts | frozenset(declared(TEXT_ATTACKS, name).facts_for_delta if attack.capture.kind == "delta" else ())


def check_text(attack: TextAttackSpec) -> None:
    """Refuse an attack that asks for more than its capture gives.

    Raises:
        UserError: a fact that is withheld, more local steps than the attack reads, or a capture without sentences.
    """
    capture, name = attack.capture, attack.attack.name
    asked = declared(TEXT_ATTACKS, name)
    check_kind(capture.kind, capture.threat_model)
    check_combination(used_by_text(attack), capture.threat_model, name)
    check_most(f"attack '{name}'", "local_steps", capture.local_steps, asked.most_steps)
    if capture.sentences.count == 0:
        raise UserError("no sentences to capture: set sentences.printed or sentences.others")
