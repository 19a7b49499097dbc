"""``diagram`` of an item's YAML: boxes on a grid, arrows between them, frames around them."""

from typing import Literal, Self

from pydantic import Field, model_validator

from leaklab.items.layouts import Named
from leaklab.records.bounds import Flag, Positive, Real
from leaklab.records.record import Record


class DiagramBox(Record):
    """A box.

    Attributes:
        text: in it; lines are broken as they stand.
        at: column and row of its center, from 0, the first row on top; parts of a cell are possible.
        size: columns and rows that it takes, with the space around it.
        look: ``plain``; ``private`` for what nobody but its owner has; ``seen`` for what the attacker has.
    """

    text: str
    at: tuple[Real, Real]
    size: tuple[Positive, Positive] = (1.0, 1.0)
    look: Literal["plain", "private", "seen"] = "plain"


class DiagramArrow(Record):
    """An arrow from one box to another.

    Attributes:
        text: beside its middle.
        bend: 0 for a straight one, else how far it leaves the line, as a share of its length; positive to the left.
        dashed: for what happens only sometimes.
    """

    source: str = Field(alias="from")
    target: str = Field(alias="to")
    text: str = ""
    bend: Real = 0.0
    dashed: Flag = False


class DiagramFrame(Record):
    """A frame around boxes: who has them."""

    text: str
    boxes: tuple[str, ...] = Field(min_length=1)


class DiagramBars(Record):
    """Measured numbers as bars at the foot of boxes.

    Attributes:
        metric: shown, between 0 and ``most``.
        key: row key whose values are names of boxes.
        label: row key that names the bars of a box.
        most: the number of a full bar.
    """

    metric: str
    key: str
    label: str
    most: Positive = 1.0


class DiagramLayout(Named):
    """``diagram`` of an item's YAML.

    Attributes:
        boxes: name -> box.
        arrows: in any order.
        frames: behind the boxes.
        bars: numbers of the item's runs; None for a drawing without numbers.
        width: of the figure, in inches; a narrow one is readable on a phone.
        row_height: of one row of the grid, in inches.
        note: explained below the figure.
    """

    boxes: dict[str, DiagramBox] = Field(min_length=1)
    arrows: tuple[DiagramArrow, ...] = ()
    frames: tuple[DiagramFrame, ...] = ()
    bars: DiagramBars | None = None
    width: Positive = 4.2
    row_height: Positive = 0.85
    note: str = ""

    @model_validator(mode="after")
    def _names_are_known(self) -> Self:
        ends = [end for arrow in self.arrows for end in (arrow.source, arrow.target)]
        unknown = [name for name in [*ends, *(name for f in self.frames for name in f.boxes)] if name not in self.boxes]
        if unknown:
            raise ValueError(f"there is no box '{unknown[0]}': name one of {', '.join(self.boxes)}")
        return self
