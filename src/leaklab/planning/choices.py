"""What would do in place of an attack that its threat model cannot grant, tried by the check that refused it.

So no advice is refused in its turn.
"""

from collections.abc import Callable, Iterator
from typing import Any, get_args

from leaklab.observations.declared import declared
from leaklab.observations.requirements import used, used_by_text
from leaklab.observations.threat_models import THREAT_MODELS, Fact, granted
from leaklab.records.errors import UserError
from leaklab.records.plugins import available
from leaklab.records.traits import chosen
from leaklab.specs.attack import ATTACKS, AttackSpec
from leaklab.specs.text import TEXT_ATTACKS, TextAttackSpec

Asked = AttackSpec | TextAttackSpec
Check = Callable[[Any], None]


def checked(attack: Asked, check: Check) -> None:
    """Check an attack, and add to a refusal for want of a fact what grants it, and what does without.

    Args:
        attack: as an item asks for it.
        check: refuses it, or not.

    Raises:
        UserError: that of the check, with what would do.
    """
    try:
        check(attack)
    except UserError as error:
        asked = _used(attack)
        if asked <= granted(attack.capture.threat_model):
            raise
        would_do = "; ".join(_would_do(attack, asked, check))
        raise UserError(f"{error}{would_do and f' ({would_do})'}") from None


def _used(attack: Asked) -> frozenset[Fact]:
    return used(attack) if isinstance(attack, AttackSpec) else used_by_text(attack)


def _would_do(attack: Asked, asked: frozenset[Fact], check: Check) -> Iterator[str]:
    if models := _granting(asked, attack.capture.threat_model):
        yield f"threat_model: {' or '.join(models)} grants it"
    for field, values in _other_settings(attack):
        passed = [value for value, other in values if _passes(other, check)]
        if passed:
            yield f"{field}: {' or '.join(passed)} does without"
    if attacks := [name for name, other in _other_attacks(attack) if _passes(other, check)]:
        yield f"attacks that do without: {', '.join(attacks)}"


def _granting(asked: frozenset[Fact], present: str) -> list[str]:
    """Return the threat models that grant all that is asked, of those that add to the present one, the smallest."""
    able = {name: facts for name, facts in THREAT_MODELS.items() if asked <= facts}
    adding = {name: facts for name, facts in able.items() if granted(present) <= facts} or able
    least = {facts: name for name, facts in reversed(adding.items()) if not any(one < facts for one in adding.values())}
    return list(least.values())[::-1]  # of two that grant the same, the first


def _other_settings(attack: Asked) -> Iterator[tuple[str, list[tuple[str, Asked]]]]:
    """Yield each field that decides what is asked, with its other values of which it is known what they ask."""
    if isinstance(attack, TextAttackSpec):
        labels = get_args(type(attack).model_fields["labels"].annotation)
        yield "labels", [(one, attack.model_copy(update={"labels": one})) for one in labels if one != attack.labels]
        return
    name, settings = attack.attack.name, attack.attack.settings
    for setting, by_value in declared(ATTACKS, name).facts_when.items():
        now = chosen(ATTACKS, name, settings, setting)
        others = [value for value in by_value if now in by_value and value != now and not isinstance(value, bool)]
        yield (
            f"attack.{setting}",
            [(str(value), _with_attack(attack, name, {**settings, setting: value})) for value in others],
        )


def _other_attacks(attack: Asked) -> Iterator[tuple[str, Asked]]:
    for name in available(ATTACKS if isinstance(attack, AttackSpec) else TEXT_ATTACKS):
        if name != attack.attack.name:
            yield name, _with_attack(attack, name, {})


def _with_attack(attack: Asked, name: str, settings: dict[str, Any]) -> Asked:
    other = attack.attack.model_copy(update={"name": name, "settings": settings})
    return attack.model_copy(update={"attack": other})


def _passes(attack: Asked, check: Check) -> bool:
    try:
        check(attack)
    except UserError:
        return False
    return True
