"""Pictures as a reader of a paper expects them: originals first, then a column per defense, factor or repeat.

The drawing is ``image_grid``'s; here is what stands where. The paper's attacker and the knowing one stand beside each
other, which compares them picture by picture, or in sections below each other, which keeps many defenses on one page.
References (the mean image, an unrelated image) come last: what an attacker without any update would score.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
import torch
from matplotlib.figure import Figure
from numpy.typing import NDArray
from torch import Tensor

from leaklab.items.layouts import MINUS
from leaklab.records.errors import UserError
from leaklab.report.figures.attack_pictures import FORMATS
from leaklab.report.figures.image_grid import GridRow, Picture, image_grid
from leaklab.report.figures.style import PAGE_WIDTH

ORIGINAL = "original"
ANYONE = ""
"""Attacker of originals and references, which belong to no attacker."""

MOST_SCORES = 2
NO_PICTURE = "no picture"


@dataclass(frozen=True, eq=False)
class Shot:
    """One picture.

    Attributes:
        row: key of its row (an image, or a factor where columns are repeats).
        column: key of its column (``original``, or ``original, ...`` where several columns have originals; a defense, a
            factor, a repeat, a reference).
        attacker: ``paper``, ``blind`` or ``knowing``; empty for originals and references.
        image: [C, H, W] with C 1 or 3 on the [0, 1] scale (clamped when drawn); None draws an empty box.
        scores: metric -> value.
        reason: why there is no picture, in a few words.

    Raises:
        UserError: an image of another shape, or with a pixel that is not finite.
    """

    row: str
    column: str
    attacker: str
    image: Tensor | None
    scores: Mapping[str, float] = field(default_factory=dict)
    reason: str = ""

    def __post_init__(self) -> None:
        place = f"picture at {self.row}, {self.column}"
        if self.image is None:
            return
        if self.image.dim() != 3 or self.image.shape[0] not in (1, 3) or self.image.numel() == 0:
            raise UserError(f"{place}: has shape {list(self.image.shape)}: give [1 or 3, height, width]")
        if not bool(self.image.isfinite().all()):
            raise UserError(f"{place}: has pixels that are not finite: replace them as the scores do, or give None and "
                            "a reason")  # fmt: skip

    @property
    def name(self) -> str:
        """Name of the picture in the archive."""
        return ", ".join(filter(None, (self.row, self.column, self.attacker)))


@dataclass(frozen=True)
class DefenseGridLayout:
    """What stands where.

    Attributes:
        columns: column key -> heading, in order; originals first, references last.
        scores: metrics below each picture, two at most.
        formats: metric -> format of its line, e.g. ``{lpips_vgg: "LPIPS {:.2f}"}``.
        rows: row key -> label, in order; rows without one come after them, in order of appearance.
        sections: row key -> heading above the first of the rows that share it (an update); rows without one have none.
        references: columns under the common heading ``reference``.
        attackers: attacker -> heading, in order.
        arrangement: attackers ``beside`` each other in each column, or ``below`` in sections of rows.
        note: explained below the figure.
        width: of the figure in inches; where the grid continues below, a narrower one has smaller pictures.
    """

    columns: Mapping[str, str]
    scores: tuple[str, ...] = ("mse", "psnr")
    formats: Mapping[str, str] = field(default_factory=dict)
    rows: Mapping[str, str] = field(default_factory=dict)
    sections: Mapping[str, str] = field(default_factory=dict)
    references: tuple[str, ...] = ()
    attackers: Mapping[str, str] = field(
        default_factory=lambda: {"paper": "paper's attacker", "knowing": "knowing attacker"}
    )
    arrangement: Literal["beside", "below"] = "beside"
    note: str = ""
    width: float = PAGE_WIDTH


def is_original(column: str) -> bool:
    """Return whether a column has originals: all of the grid's, or those of some columns."""
    return column.split(", ")[0] == ORIGINAL


Cell = tuple[str, str]
Found = Mapping[tuple[str, str, str], Shot]


def draw(shots: Sequence[Shot], layout: DefenseGridLayout) -> Figure:
    """Draw the grid; a place without a picture is an empty box that says why.

    Args:
        shots: at least one picture, each place at most once.
        layout: what stands where.

    Returns:
        a figure to be saved with ``style.save``.

    Raises:
        UserError: nothing to draw, two pictures at one place, a column or an attacker that the layout does not name,
            or scores that do not fit.
    """
    found = _by_place(shots, layout)
    rows = _in_order([shot.row for shot in shots], layout.rows)
    attackers = [name for name in layout.attackers if any(shot.attacker == name for shot in shots)]
    columns = [name for name in layout.columns if any(shot.column == name for shot in shots)]
    blocks = [[name] for name in attackers] if layout.arrangement == "below" and attackers else [attackers]
    cells = [(column, attacker) for column in columns for attacker in _attackers_of(column, attackers, found)]
    if len(blocks) > 1:
        cells = [(column, ANYONE) for column in columns]
    lines = [
        GridRow(
            layout.rows.get(row, row),
            tuple(_picture(found, layout, row, cell, block) for cell in cells),
            _section(layout, row, block if len(blocks) > 1 else []),
        )
        for block in blocks
        for row in rows
    ]
    several = len(attackers) > 1 and len(blocks) == 1
    headings = [_heading(layout, cell, several) for cell in cells]
    return image_grid(lines, headings, note=layout.note, width=layout.width, originals=_repeated(cells))


def arrays(shots: Sequence[Shot]) -> dict[str, NDArray[Any]]:
    """Return the pictures as bytes [H, W] or [H, W, 3] by name, and ``index``: where they stand and their scores."""
    index = json.dumps(
        [
            {"name": shot.name, "row": shot.row, "column": shot.column, "attacker": shot.attacker,
             "scores": dict(shot.scores), "reason": shot.reason} for shot in shots
        ],
        sort_keys=True,
    )  # fmt: skip
    pictures = {shot.name: _bytes(shot.image) for shot in shots if shot.image is not None}
    return {"index": np.frombuffer(index.encode(), dtype=np.uint8), **pictures}


def _by_place(shots: Sequence[Shot], layout: DefenseGridLayout) -> Found:
    if not shots:
        raise UserError("there is no picture to draw: run the item first")
    if len(layout.scores) > MOST_SCORES:
        raise UserError(f"{len(layout.scores)} scores do not fit below a picture: name at most {MOST_SCORES}")
    found: dict[tuple[str, str, str], Shot] = {}
    for shot in shots:
        if shot.column not in layout.columns:
            raise UserError(f"no column '{shot.column}': name it under 'columns', or leave its pictures out")
        if shot.attacker not in (ANYONE, *layout.attackers):
            raise UserError(f"no attacker '{shot.attacker}': name it under 'attackers', or leave its pictures out")
        place = shot.row, shot.column, shot.attacker
        if place in found:
            raise UserError(f"two pictures at {', '.join(filter(None, place))}: choose one of them")
        found[place] = shot
    return found


def _in_order(names: Sequence[str], labels: Mapping[str, str]) -> list[str]:
    present = list(dict.fromkeys(names))
    return [*(name for name in labels if name in present), *(name for name in present if name not in labels)]


def _attackers_of(column: str, attackers: Sequence[str], found: Found) -> list[str]:
    """Return the attackers of a column; that of an original or a reference is nobody."""
    own = {attacker for _, name, attacker in found if name == column}
    return [name for name in attackers if name in own] or [ANYONE]


def _repeated(cells: Sequence[Cell]) -> int:
    """Return how many leading columns are repeated where the grid continues below.

    Beside the originals it is a column that stands alone before the first pair of attackers (no defense): pairs then
    start at even places, so that parts with an even number of other columns do not break within a pair. If a part has
    an odd number, another ``width`` helps. Where some columns have other originals, none is repeated.
    """
    columns = [column for column, _ in cells]
    if sum(is_original(column) for column in dict.fromkeys(columns)) > 1:
        return 0
    originals = int(is_original(columns[0]))
    ahead = next((place for place, column in enumerate(columns) if columns.count(column) > 1), originals)
    return ahead if ahead == originals + 1 else originals


def _heading(layout: DefenseGridLayout, cell: Cell, several: bool) -> str:
    column, attacker = cell
    if column in layout.references:
        return f"reference\n{layout.columns[column]}"
    return f"{layout.columns[column]}\n{layout.attackers[attacker]}" if several and attacker else layout.columns[column]


def _section(layout: DefenseGridLayout, row: str, block: Sequence[str]) -> str:
    return ", ".join(filter(None, [*(layout.attackers[name] for name in block), layout.sections.get(row, "")]))


def _picture(found: Found, layout: DefenseGridLayout, row: str, cell: Cell, block: Sequence[str]) -> Picture:
    """Return the picture of an attacker, else the one that belongs to none."""
    column, attacker = cell
    wanted = [(row, column, name) for name in ([attacker] if attacker else [*block[:1], ANYONE])]
    shot = next((found[place] for place in wanted if place in found), None)
    if shot is None or shot.image is None:
        return Picture(None, (shot.reason if shot and shot.reason else NO_PICTURE,))
    return Picture(shot.image, tuple(_score(layout, shot, name) for name in layout.scores if name in shot.scores))


def _score(layout: DefenseGridLayout, shot: Shot, metric: str) -> str:
    form, value = {**FORMATS, **layout.formats}.get(metric, metric + " {:.2g}"), shot.scores[metric]
    if np.isnan(value):
        raise UserError(f"{metric} of {shot.name} is not a number: leave the score out")
    try:
        return form.format(value).replace("-inf", f"{MINUS}∞").replace("inf", "∞")
    except (KeyError, IndexError, ValueError) as error:
        raise UserError(f"format {form!r} of {metric} does not fit a number ({error}): use one {{}}") from None


def _bytes(image: Tensor) -> NDArray[Any]:
    whole = (image.detach().double().cpu().clamp(0, 1) * 255).round().to(torch.uint8)
    return np.ascontiguousarray(whole[0].numpy() if len(whole) == 1 else whole.permute(1, 2, 0).numpy())
