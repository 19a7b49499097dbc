"""The first pictures of a paper: what a client held, and what attackers made of its update, in one strip each.

A strip is an SVG text with the pictures inside, so that a page can show it at any width, in light and in dark, and
``leaklab findings`` can write it like any other document. The image is the one that the defense hides best from the
paper's attacker, of all that the item's figure has: what the knowing attacker reads of it nobody picked for him.
"""

import base64
import io
from collections.abc import Mapping
from math import inf, log10
from pathlib import Path
from typing import Any

import numpy as np
from jinja2 import Environment, PackageLoader, StrictUndefined
from PIL import Image

from leaklab.records.config import Scale
from leaklab.records.errors import UserError
from leaklab.report.site.headlines import Headline, Strip

FOLDER = Path("docs/strips")
CLOSEST = 50.0
"""PSNR in dB from which on pictures of eight bits look the same; the number is shown as more than it."""
SIDE, GAP, TOP, BOTTOM = 150, 20, 58, 44
"""Sides of a picture and of the space around it, in units of the drawing."""


def strips(headlines: Mapping[str, Headline], scale: Scale) -> dict[Path, str]:
    """Return the file and the text of each paper's strip whose figure is here.

    Raises:
        UserError: a figure lacks one of the pictures that ``config/papers/headlines.yaml`` names.
    """
    found = {}
    for paper, headline in headlines.items():
        own = headline.strip
        figure = Path("figures", scale, paper, f"{own.item}.npz") if own else None
        if own is not None and figure is not None and figure.is_file():
            with np.load(figure, allow_pickle=False) as pictures:
                found[FOLDER / f"{paper}.svg"] = strip(own, headline.defense, dict(pictures), figure)
    return found


def strip(own: Strip, defense: str, pictures: Mapping[str, Any], figure: Path) -> str:
    """Return the drawing.

    Args:
        own: which pictures.
        defense: its name.
        pictures: by name, [H, W] or [H, W, 3], uint8.
        figure: where they are from, for complaints.
    """

    def picture(name: str, image: str) -> Any:
        wanted = name.format(image=image)
        if wanted not in pictures:
            raise UserError(f"{figure} has no picture '{wanted}', which config/papers/headlines.yaml names")
        return pictures[wanted]

    chosen = min(own.images, key=lambda image: psnr(picture(own.original, image), picture(own.paper, image)))
    original = picture(own.original, chosen)
    told = [
        (("what the", "client holds"), original, None),
        (("read without", "a defense"), picture(own.undefended, chosen), 0),
        ((f"{defense},", "paper's attacker"), picture(own.paper, chosen), 0),
        ((f"{defense}, attacker", "who knows it"), picture(own.knowing, chosen), 0),
    ]
    panels: list[dict[str, Any]] = []
    for place, (title, shown, kind) in enumerate(told):
        left, level = GAP // 2 + place * (SIDE + GAP), None if kind is None else psnr(original, shown)
        panels.append({
            "title": title, "left": left, "middle": left + SIDE / 2, "picture": _encoded(shown),
            "number": said(level), "kind": "" if level is None else "leaks" if level > own.leaks else "hidden",
        })  # fmt: skip
    label = "; ".join(f"{' '.join(one['title'])}: {one['number']}" for one in panels)
    environment = Environment(
        loader=PackageLoader("leaklab.report.site"), undefined=StrictUndefined, autoescape=True, trim_blocks=True
    )
    return environment.get_template("strip.svg").render(
        panels=panels, label=label, side=SIDE, top=TOP, width=4 * (SIDE + GAP), height=TOP + SIDE + BOTTOM
    )


def said(level: float | None) -> str:
    """Return a PSNR as it stands under a picture; that of the client's own has none."""
    if level is None:
        return "private"
    return f"over {CLOSEST:.0f} dB" if level > CLOSEST else f"{level:.0f} dB"


def psnr(original: Any, other: Any) -> float:
    """Return the PSNR in dB of two pictures of eight bits."""
    error = float(np.mean(((original.astype(np.float64) - other.astype(np.float64)) / 255) ** 2))
    return -10 * log10(error) if error else inf


def _encoded(picture: Any) -> str:
    file = io.BytesIO()
    Image.fromarray(picture).save(file, format="PNG", optimize=True)
    return base64.b64encode(file.getvalue()).decode()
