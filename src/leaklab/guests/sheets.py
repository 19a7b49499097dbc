"""A card to hand on: a page, Markdown for a README or a pull request, a badge, and what a notebook shows of it."""

import json
import re
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, ClassVar

from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined
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
class Sheet(ABC):
    """What was found of something, to hand on.

    Attributes:
        data: plain lists, dictionaries, texts and numbers, as a schema describes them.
        strips: network -> its pictures; they stand on the page and not in the data.
    """

    body: ClassVar[str]
    """Name of the template of a page's body; those of the others begin alike."""

    data: Mapping[str, Any]
    strips: Mapping[str, Sequence[Strip]] = field(default_factory=dict)

    @property
    def word(self) -> str:
        """The verdict: ``stood``, ``read``, ``undecided``, ``no premise`` or ``invalid``."""
        return str(self.data["verdict"])

    @property
    def status(self) -> int:
        """The exit status that the command has for this word."""
        return int(self.data["status"])

    @property
    @abstractmethod
    def badge(self) -> str:
        """The few words of a badge."""

    @abstractmethod
    def __str__(self) -> str: ...

    @property
    @abstractmethod
    def environment(self) -> Environment:
        """Where the templates are, with what they call."""

    def _repr_html_(self) -> str:
        return self._rendered(f"{self.body}_body.html")

    def json(self) -> str:
        """Return the data as indented JSON with sorted keys."""
        return json.dumps(self.data, indent=1, sort_keys=True, ensure_ascii=False)

    def texts(self) -> dict[str, str]:
        """Return the sheet's files: name -> text."""
        return {
            "card.json": self.json() + "\n",
            "card.html": self._rendered("card.html"),
            "card.md": self._rendered(f"{self.body}.md"),
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
        return self.environment.get_template(template).render(
            card=self.data, strips=self.strips, tone=TONES[self.word], said=self.badge, width=_width_of(self.badge),
            title_width=_width_of("leaklab"), color=BADGE_COLORS[TONES[self.word]], body=f"{self.body}_body.html",
        )  # fmt: skip


@dataclass(frozen=True, repr=False)
class Card(Sheet):
    """What was found of a defense; its data is as ``leaklab.guests.schema.CardData`` describes it."""

    body: ClassVar[str] = "card"

    @property
    def badge(self) -> str:
        """The few words of the badge."""
        return badge_of(self.data)

    @property
    def environment(self) -> Environment:
        """Where the templates are, with what they call."""
        return _environment()

    def __str__(self) -> str:
        return "\n".join(lines_of(self.data))

    def __repr__(self) -> str:
        return f"<leaklab card of {self.data['subject']['name']}: {self.data['sentence']}>"


def _width_of(text: str) -> int:
    return round(BADGE_LETTER * len(text)) + 2 * BADGE_MARGIN


def templates(*packages: str) -> Environment:
    """Return the templates of packages, the first that has a name counts, with what all sheets call."""
    environment = Environment(
        loader=ChoiceLoader([PackageLoader(package) for package in packages]),
        autoescape=lambda name: not (name or "").endswith(".md"),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters["md"] = in_markdown
    environment.globals |= {"tones": TONES, "symbols": SYMBOLS, "margin": BADGE_MARGIN}
    return environment


@cache
def _environment() -> Environment:
    environment = templates("leaklab.guests")
    environment.filters |= {
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
    environment.globals["cells"] = cells
    return environment


def in_markdown(text: str) -> Markup:
    """Return a text that Markdown shows as it is, in a cell of a table too."""
    kept = " ".join(text.split()).replace("&", "&amp;").replace("<", "&lt;")
    return Markup(re.sub(r"([\\`*_\[\]|~#])", r"\\\1", kept))
