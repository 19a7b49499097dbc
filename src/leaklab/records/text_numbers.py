"""Numbers that YAML reads as text: ``1e-7`` has no point, ``1.5e3`` no sign, so YAML 1.1 takes both for words."""

import re
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from leaklab.records.config import read_yaml
from leaklab.records.errors import UserError

TEXT = re.compile(r"([-+]?)(\d[\d_]*)?(?:\.(\d*))?[eE]([-+]?)(\d+)")
LARGE = 1e7
"""From here on a whole number is easier to read with an exponent."""
FILE = re.compile(r"^(\S+\.ya?ml)\b")
WANTED = re.compile(r"Input should be a (valid )?(number|integer|finite number)")


def refuse_text_numbers(value: Any, source: Path | str, left_out: frozenset[str] = frozenset()) -> None:
    """Refuse text that looks like a number, in whatever a YAML file holds.

    Args:
        value: what was read.
        source: file, or place in it, for the error.
        left_out: keys under which texts are names for people.

    Raises:
        UserError: with the place, and how the number is written.
    """
    for place, text in text_numbers(value, left_out=left_out):
        raise UserError(f"{source}: {place}: {hint(text)}")


def text_numbers(value: Any, place: str = "", left_out: frozenset[str] = frozenset()) -> Iterator[tuple[str, str]]:
    """Yield each text that looks like a number, behind the keys that lead to it."""
    if isinstance(value, dict | list | tuple):
        for key, inner in value.items() if isinstance(value, dict) else enumerate(value):
            if key not in left_out:
                yield from text_numbers(inner, f"{place}.{key}" if place else str(key), left_out)
    elif isinstance(value, str) and _is_number(value):
        yield place, value


def hint(text: str) -> str:
    """Return how a number is written that YAML took for text: ``1.0e-7`` for ``1e-7``."""
    sign, whole, part, of_power, power = _parts(text)
    number = float(text)
    written = f"{sign}{whole or 0}.{part or 0}e{of_power or '+'}{power}"
    short = f"{number:.0f} or " if number.is_integer() and abs(number) < LARGE else ""
    return f"'{text}' is text to YAML, and no number: write {short}{written}{', without quotes' * (text == written)}"


def hinted(message: str) -> str:
    """Return an error about a YAML file with that hint, where a number was wanted and the file has such a text."""
    named = FILE.match(message)
    if not (named and WANTED.search(message)) or "is text to YAML" in message:
        return message
    with suppress(UserError):
        for place, text in text_numbers(read_yaml(Path(named[1]))):
            if re.search(rf"\b{re.escape(place.rpartition('.')[2])}\b", message):
                return f"{message}: {hint(text)}"
    return message


def _is_number(text: str) -> bool:
    found = TEXT.fullmatch(text)
    return bool(found and (found[2] or found[3]))


def _parts(text: str) -> tuple[str, ...]:
    found = TEXT.fullmatch(text)
    assert found
    return tuple(part or "" for part in found.groups())
