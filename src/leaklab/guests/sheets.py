"""A card to hand on: a page, Markdown for a README or a pull request, a badge, and what a notebook shows of it."""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from leaklab.guests.card import (
    OF_UNIT,
    asked_for,
    at_a_time,
    badge_of,
    cells,
    cut_off,
    facts_of,
    guess_of,
    lines_of,
    price_of,
    worded,
)
from leaklab.guests.pictures import Strip
from leaklab.records.errors import UserError
from leaklab.records.files import write_text

TONES = {"stood": "good", "read": "bad", "invalid": "bad", "undecided": "none", "no premise": "none"}
BADGE_COLORS = {"good": "#17653a", "bad": "#9b3412", "none": "#566170"}
BADGE_LETTER, BADGE_MARGIN = 6.6, 6
"""Width of a letter of a badge and of what is left free beside a text."""
SYMBOLS = {"stood": "✓", "read": "✗", "invalid": "✗", "undecided": "?", "no premise": "○"}


@dataclass(frozen=True, repr=False)
class Card:
    """What was found of a defense.

    Attributes:
        data: as ``leaklab.guests.schema.CardData`` describes it: plain lists, dictionaries, texts and numbers.
        strips: network -> its pictures; they stand on the page and not in the data.
    """

    data: Mapping[str, Any]
    strips: Mapping[str, Sequence[Strip]] = field(default_factory=dict)

    @property
    def word(self) -> str:
        """The verdict: ``stood``, ``read``, ``undecided``, ``no premise`` or ``invalid``."""
        return str(self.data["verdict"])

    @property
    def status(self) -> int:
        """The exit status that ``leaklab try`` has for this word."""
        return int(self.data["status"])

    def __str__(self) -> str:
        return "\n".join(lines_of(self.data))

    def __repr__(self) -> str:
        return f"<leaklab card of {self.data['subject']['name']}: {self.data['sentence']}>"

    def _repr_html_(self) -> str:
        return self._rendered("card_body.html")

    def json(self) -> str:
        """Return the data as indented JSON with sorted keys."""
        return json.dumps(self.data, indent=1, sort_keys=True, ensure_ascii=False)

    def texts(self) -> dict[str, str]:
        """Return the card's files: name -> text."""
        return {
            "card.json": self.json() + "\n",
            "card.html": self._rendered("card.html"),
            "card.md": self._rendered("card.md"),
            "badge.svg": self._rendered("badge.svg"),
        }

    def write(self, folder: Path | str) -> list[Path]:
        """Write ``card.json``, ``card.html``, ``card.md`` and ``badge.svg``, and return their paths.

        Raises:
            UserError: they cannot be written there.
        """
        try:
            for name, text in self.texts().items():
                write_text(Path(folder) / name, text)
        except OSError as error:
            raise UserError(
                f"{folder}: the card cannot be written there ({error.strerror}): name another folder"
            ) from None
        return [Path(folder) / name for name in self.texts()]

    def _rendered(self, template: str) -> str:
        said = badge_of(self.data)
        return _environment().get_template(template).render(
            card=self.data, strips=self.strips, tone=TONES[self.word], said=said, width=_width_of(said),
            title_width=_width_of("leaklab"), color=BADGE_COLORS[TONES[self.word]],
        )  # fmt: skip


def _width_of(text: str) -> int:
    return round(BADGE_LETTER * len(text)) + 2 * BADGE_MARGIN


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("leaklab.guests"),
        autoescape=lambda name: not (name or "").endswith(".md"),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters |= {
        "md": in_markdown,
        "asked": asked_for,
        "at_a_time": at_a_time,
        "measure": lambda arena: OF_UNIT[arena["unit"]][0],
        "measured": lambda card: worded(card)[1],
        "things": lambda card: worded(card)[2],
        "guessed": lambda card: worded(card)[3],
        "guess": guess_of,
        "cut_off": cut_off,
        "facts": facts_of,
        "price": price_of,
    }
    environment.globals |= {"cells": cells, "tones": TONES, "symbols": SYMBOLS, "margin": BADGE_MARGIN}
    return environment


def in_markdown(text: str) -> Markup:
    """Return a text that Markdown shows as it is, in a cell of a table too."""
    kept = " ".join(text.split()).replace("&", "&amp;").replace("<", "&lt;")
    return Markup(re.sub(r"([\\`*_\[\]|~#])", r"\\\1", kept))
