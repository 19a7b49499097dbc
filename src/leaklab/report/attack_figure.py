"""The figure of an attack item: originals, then a column per defense, attacker and attack."""

from collections.abc import Iterable, Mapping, Sequence

import torch
from matplotlib.figure import Figure
from torch import Tensor

from leaklab.records.items import Item
from leaklab.report.attack_pictures import ORIGINAL, Pixels, Shot, picture_name
from leaklab.report.image_grid import GridRow, Picture, image_grid

WORDS = {
    "none": "no defense",
    "lrp": "LRP",
    "dlg": "DLG",
    "idlg": "iDLG",
    "as-printed": "paper's attacker",
    "adaptive": "adaptive attacker",
}
FORMATS = {"mse": "MSE {:.1e}", "ssim": "SSIM {:.2f}", "psnr": "{:.1f} dB"}


def draw(item: Item, shots: Sequence[Shot], pixels: Mapping[str, Pixels]) -> Figure:
    """Draw the pictures of ``attack_pictures.gather``."""
    columns = list(dict.fromkeys(shot.column for shot in shots))
    columns.sort(key=lambda column: (column != (ORIGINAL,), column[0] != "none", column[:2] != ("lrp", "as-printed")))
    rows = []
    for dataset, image in dict.fromkeys((shot.dataset, shot.image) for shot in shots):
        own = {shot.column: shot for shot in shots if (shot.dataset, shot.image) == (dataset, image)}
        rows.append(GridRow(_label(dataset, own.values()), tuple(_picture(item, own.get(c), pixels) for c in columns)))
    headings = ["original" if c == (ORIGINAL,) else _heading(c) for c in columns]
    return image_grid(rows, headings, note=_note(item))


def _heading(column: tuple[str, ...]) -> str:
    defense, attacker, attack = (WORDS.get(part, part) for part in column)
    # without a defense there is nothing to adapt to
    return f"{defense}\n{attacker}\n{attack}" if column[0] != "none" else f"{defense}\n \n{attack}"


def _label(dataset: str, shots: Iterable[Shot]) -> str:
    factors = [shot.scale for shot in shots if shot.column[0] not in (ORIGINAL, "none")]
    return f"{dataset}\ns = {factors[0]:.2f}" if factors else dataset


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


def _note(item: Item) -> str:
    scores = ", ".join(item.grid.scores).upper() if item.grid else ""
    return (
        f"{scores} on the [0, 1] scale, reconstructions clamped. Each picture is the start with the smallest matching "
        f"loss, never the one nearest to the original. {item.grid.note if item.grid else ''}"
    )
