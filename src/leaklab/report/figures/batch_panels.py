"""Above a grid of pictures: the whole batches in which a malicious server looks for one image, the sought ones ringed.

The images are drawn from the data set itself, as the capture drew them; the truth of such a capture holds the one
image alone.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil, sqrt
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Ellipse
from numpy.typing import NDArray
from torch import Tensor

from leaklab.captures.private_images import choose_images, groups
from leaklab.data.dataset import BRIGHTEST, Dataset, unit_range
from leaklab.items.expand import expand
from leaklab.items.items import Item
from leaklab.records.config import Scale
from leaklab.report.collect.source import PREPARED, row_of
from leaklab.report.figures.style import INK, SMALLEST_FONT, styled
from leaklab.specs.attack import ScoreSpec
from leaklab.specs.capture import CaptureSpec, ImageChoice

ABREAST = 2
SEPARATOR = 2
"""Pixels between two images."""
MARGIN, TITLE = 0.06, 0.2
RING = "#E00000"


@dataclass(frozen=True, eq=False)
class BatchPanel:
    """One batch: its images [B, C, H, W] in [0, 1], and the places of those that are marked."""

    title: str
    images: Tensor
    marked: tuple[int, ...]


def dataset_files(dataset: str) -> tuple[Path, Path]:
    """Return the files that hold a prepared data set: images and card."""
    return PREPARED / f"{dataset}.safetensors", PREPARED / f"{dataset}.json"


def gather(item: Item, scale: Scale) -> list[BatchPanel]:
    """Return the batch of the first update of each section of an item's pictures, in the order of its labels.

    Raises:
        UserError: the data set is missing or damaged.
    """
    layout = item.pictures
    assert layout is not None
    captures: dict[str, CaptureSpec] = {}
    for run in expand(item, scale):
        if isinstance(run.spec, ScoreSpec) and run.spec.attack.capture.server is not None:
            row = row_of(item, run)
            title = ", ".join(["Batch", *(layout.label(key, row[key]) for key in layout.sections)])
            captures.setdefault(title, run.spec.attack.capture)
    return [_panel(title, capture) for title, capture in captures.items()]


def _panel(title: str, capture: CaptureSpec) -> BatchPanel:
    choice = capture.images
    assert isinstance(choice, ImageChoice)
    images, labels = Dataset.load(dataset_files(capture.dataset)[0]).part(choice.split)
    batch = groups(choose_images(choice, images, labels), capture.batch_size)[0]
    marked = [place for place, index in enumerate(batch.tolist()) if int(labels[index]) == choice.label]
    return BatchPanel(title, unit_range(images[batch]), tuple(marked))


def draw_above(figure: Figure, panels: Sequence[BatchPanel]) -> None:
    """Make a figure taller and draw the panels there, two abreast; what it shows keeps its size and place.

    Args:
        figure: whose axes were placed by hand (``image_grid``).
        panels: at least one.
    """
    width, height = figure.get_size_inches()
    side = (width - MARGIN * (ABREAST + 1)) / ABREAST
    lines = [panels[start : start + ABREAST] for start in range(0, len(panels), ABREAST)]
    tall = [max(side / _aspect(panel) for panel in line) for line in lines]
    whole = height + sum(tall) + (TITLE + MARGIN) * len(lines)
    figure.set_size_inches(width, whole)
    for axes in figure.axes:
        box = axes.get_position(original=True)
        axes.set_position((box.x0, box.y0 * height / whole, box.width, box.height * height / whole))
    top = whole
    with styled():
        for line, room in zip(lines, tall, strict=True):
            top -= TITLE
            for place, panel in enumerate(line):
                left, own = MARGIN + place * (side + MARGIN), side / _aspect(panel)
                _draw(figure.add_axes((left / width, (top - own) / whole, side / width, own / whole)), panel)
            top -= room + MARGIN


def arrays(panels: Sequence[BatchPanel]) -> dict[str, NDArray[Any]]:
    """Return the pictures of each batch as bytes [B, H, W, C] by title, and the marked places."""
    pixels = {panel.title: (panel.images * BRIGHTEST).round().byte().permute(0, 2, 3, 1).numpy() for panel in panels}
    marks = {f"{panel.title}, marked": np.array(panel.marked, dtype=np.int64) for panel in panels}
    return {**pixels, **marks}


def _across(count: int) -> int:
    return ceil(sqrt(count))


def _aspect(panel: BatchPanel) -> float:
    height, width = _mosaic(panel).shape[:2]
    return float(width / height)


def _mosaic(panel: BatchPanel) -> NDArray[np.float64]:
    """Return all images side by side, [H, W, 1 or 3]; white between them."""
    count, channels, height, width = panel.images.shape
    across = _across(count)
    whole = np.ones((_end(ceil(count / across), height), _end(across, width), channels))
    for place, image in enumerate(panel.images.permute(0, 2, 3, 1).double().numpy()):
        top, left = _corner(place, across, height, width)
        whole[top : top + height, left : left + width] = image
    return whole


def _end(images: int, side: int) -> int:
    return SEPARATOR + images * (side + SEPARATOR)


def _corner(place: int, across: int, height: int, width: int) -> tuple[int, int]:
    row, column = divmod(place, across)
    return _end(row, height), _end(column, width)


def _draw(axes: Axes, panel: BatchPanel) -> None:
    mosaic = _mosaic(panel)
    axes.imshow(
        mosaic[..., 0] if mosaic.shape[2] == 1 else mosaic, cmap="gray", vmin=0, vmax=1, interpolation="nearest"
    )
    count, _, height, width = panel.images.shape
    for place in panel.marked:
        top, left = _corner(place, _across(count), height, width)
        middle = left + width / 2 - 0.5, top + height / 2 - 0.5  # pixels are drawn around whole numbers
        ring = Ellipse(middle, width * 1.25, height * 1.25, fill=False, edgecolor=RING, linewidth=1.5, clip_on=False)
        axes.add_patch(ring)
    axes.axis("off")
    axes.set_title(panel.title, loc="left", fontsize=SMALLEST_FONT, fontweight="bold", color=INK, pad=2)
