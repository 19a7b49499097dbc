"""The words of the pages for what result tables and specs abbreviate."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from leaklab.report.numbers.places import NONE
from leaklab.report.numbers.results import BLIND, KNOWING, PAPER

PAPER_ATTACKER = "paper's attacker"
KNOWING_ATTACKER = "attacker who knows the defense"
BLIND_ATTACKER = "paper's attack without its own transforms"
ATTACKERS = {PAPER: PAPER_ATTACKER, BLIND: BLIND_ATTACKER, KNOWING: KNOWING_ATTACKER}
"""The attackers of a result table, by the name that stands in its column."""
STRONGEST_ATTACKER = "strongest attacker tried"
"""Its name where nobody among those who were tried was made for the defense."""


def attackers_of(strangers: Collection[str]) -> Mapping[str, str]:
    """Return the attackers' names on a page; ``strangers`` are its defenses for which no attack was made."""
    return {**ATTACKERS, KNOWING: STRONGEST_ATTACKER} if strangers else ATTACKERS


def nobody_knows(defense: str) -> str:
    """Return the sentence about a defense for which no attack that was tried was made."""
    return f"No attacker here was made for {defense}: what all of them miss, one who knows it may read."


# The settings of an item at every scale, and what a scale changes, as lines of a table.


@dataclass(frozen=True)
class SettingLine:
    """One setting at every scale; ``changed`` where this scale departs from the paper's."""

    name: str
    values: tuple[str, ...]
    changed: bool


def setting_lines(settings: Mapping[str, Mapping[str, Any]], scale: str) -> tuple[SettingLine, ...]:
    """Return one line per setting with its value at every scale, changed ones first.

    Args:
        settings: by scale, in the order of the columns.
        scale: the scale that is compared with ``paper``.
    """
    flat = {name: _flatten(values) for name, values in settings.items()}
    names = dict.fromkeys(key for values in flat.values() for key in values)
    lines = [
        SettingLine(
            name=name,
            values=tuple(values.get(name, NONE) for values in flat.values()),
            changed=flat.get(scale, {}).get(name) != flat.get("paper", {}).get(name),
        )
        for name in names
    ]
    return tuple(sorted(lines, key=lambda line: not line.changed))


def _flatten(values: Mapping[str, Any], prefix: str = "") -> dict[str, str]:
    flat: dict[str, str] = {}
    for key, value in values.items():
        name = f"{prefix}{key}"
        if isinstance(value, Mapping):
            flat |= _flatten(value, f"{name}.")
        else:
            flat[name] = _shown(value)
    return flat


def _shown(value: Any) -> str:
    if isinstance(value, Sequence) and not isinstance(value, str):
        return ", ".join(f"({_shown(part)})" if isinstance(part, list | tuple) else _shown(part) for part in value)
    return str(value).lower() if isinstance(value, bool) or value is None else str(value)
