"""The figure of an attack item: originals, then a column per defense, attacker and attack."""

from collections.abc import Iterable, Mapping, Sequence

import torch
from matplotlib.figure import Figure
from torch import Tensor

from leaklab.records.items import Item
from leaklab.report.figures.attack_pictures import ORIGINAL, Pixels, Shot, picture_name
from leaklab.report.figures.image_grid import GridRow, Picture, image_grid
from leaklab.report.numbers.results import PAPER

COLUMN_KEYS = ("defense", "attacker", "attack")
FORMATS = {"mse": "MSE {:.1e}", "ssim": "SSIM {:.2f}", "psnr": "{:.1f} dB"}


def draw(item: Item, shots: Sequence[Shot], pixels: Mapping[str, Pixels]) -> Figure:
    """Draw the pictures of ``attack_pictures.gather``."""
    columns = list(dict.fromkeys(shot.column for shot in shots))
    columns.sort(key=lambda column: (column != (ORIGINAL,), column[0] != "none", column[:2] != ("lrp", PAPER)))
    rows = []
    for dataset, image in dict.fromkeys((shot.dataset, shot.image) for shot in shots):
        own = {shot.column: shot for shot in shots if (shot.dataset, shot.image) == (dataset, image)}
        rows.append(
            GridRow(_label(item, dataset, own.values()), tuple(_picture(item, own.get(c), pixels) for c in columns))
        )
    headings = ["original" if c == (ORIGINAL,) else _heading(item, c) for c in columns]
    return image_grid(rows, headings, note=_note(item, shots))


def _heading(item: Item, column: tuple[str, ...]) -> str:
    defense, attacker, attack = (_word(item, *pair) for pair in zip(COLUMN_KEYS, column, strict=True))
    # without a defense there is nothing to adapt to
    return f"{defense}\n{attacker}\n{attack}" if column[0] != "none" else f"{defense}\n \n{attack}"


def _label(item: Item, dataset: str, shots: Iterable[Shot]) -> str:
    factors = [shot.scale for shot in shots if shot.column[0] not in (ORIGINAL, "none")]
    name = _word(item, "dataset", dataset)
    return f"{name}\ns = {factors[0]:.2f}" if factors else name


def _word(item: Item, key: str, value: str) -> str:
    """Return a value as the item's table shows it."""
    return item.table.label(key, value) if item.table else value


def _picture(item: Item, shot: Shot | None, pixels: Mapping[str, Pixels]) -> Picture:
    if shot is None:
        return Picture(None, ("not run",))
    scores = item.grid.scores if item.grid else ()
    lines = tuple(
        FORMATS.get(name, name + " {:.2g}").format(shot.scores[name]) for name in scores if name in shot.scores
    )
    return Picture(_tensor(pixels[picture_name(shot)]), lines)


def _tensor(picture: Pixels) -> Tensor:
    values = torch.from_numpy(picture).double() / 255
    return values.unsqueeze(0) if values.dim() == 2 else values.permute(2, 0, 1)


def _note(item: Item, shots: Sequence[Shot]) -> str:
    assert item.grid is not None
    shown = {name for shot in shots for name in shot.scores}
    scores = ", ".join(name for name in item.grid.scores if name in shown).upper()
    return (
        f"{scores} on the [0, 1] scale, reconstructions clamped. Each picture is the start with the smallest matching "
        f"loss, never the one nearest to the original. {item.grid.note}"
    )
