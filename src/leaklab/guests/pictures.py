"""Pictures of a card: what was attacked, the best guess of it, and what attackers made of its updates.

In the child they become small PNG files in base64, which travel as part of a row and stand in a page as they are.
"""

import base64
import io
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import TYPE_CHECKING, Any

from PIL import Image

if TYPE_CHECKING:
    from torch import Tensor

SHOWN = {
    "undefended": "no defense",
    "unaware": "attacker unaware",
    "rule": "best attacker by rule",
    "learnt": "attacker who learnt it",
}


@dataclass(frozen=True)
class Strip:
    """Pictures of the first image of all updates of one network, or their sentences, by one who made them.

    Attributes:
        name: who.
        by: the search; empty where there was none.
        pictures: PNG files in base64; of a sentence its tokens, and whether each stands at its place.
        scores: of each, in dB or percent; None of the originals.
    """

    name: str
    by: str
    pictures: Sequence[str | Sequence[tuple[str, bool]]]
    scores: Sequence[float] | None


def encoded(images: "Tensor") -> list[str]:
    """Return images [T, C, H, W] in [0, 1], of one or three colours, as PNG files in base64; NaN is black."""
    levels = (images.detach().nan_to_num(nan=0.0).clamp(0, 1) * 255).round().byte().movedim(1, -1).cpu().numpy()
    found = []
    for one in levels:
        out = io.BytesIO()
        Image.fromarray(one[..., 0] if one.shape[-1] == 1 else one).save(out, format="PNG", optimize=True)
        found.append(base64.b64encode(out.getvalue()).decode())
    return found


def strips(rows: Sequence[Mapping[str, Any]]) -> dict[str, list[Strip]]:
    """Return the strips of each network, of rows that have pictures; of several by rule the one that read most."""
    return {network: list(_strips([row for row in rows if row["network"] == network and "images" in row]))
            for network in dict.fromkeys(row["network"] for row in rows)}  # fmt: skip


def _strips(rows: Sequence[Mapping[str, Any]]) -> Iterator[Strip]:
    for row in (row for row in rows if row["attacker"] == "guess"):
        yield Strip("original", "", row["originals"], None)
        yield Strip("best guess", "", row["images"], row["of_images"])
    for kind, name in SHOWN.items():
        own = [row for row in rows if row["attacker"] == kind]
        if own:
            best = max(own, key=lambda row: fmean(row["scores"]))
            yield Strip(name, best["by"], best["images"], best["of_images"])
