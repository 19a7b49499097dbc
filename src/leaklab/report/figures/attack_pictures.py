"""The pictures behind a figure of attacks: originals and reconstructions, kept as npz so that a figure can be redrawn.

An archive has one uint8 array [H, W] or [H, W, 3] per picture; ``index`` is a JSON text with one line per picture.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from matplotlib.figure import Figure
from numpy.typing import NDArray
from torch import Tensor

from leaklab.captures.start import assumed_rate
from leaklab.items.expand import PlannedRun, expand
from leaklab.items.items import Item
from leaklab.metrics.guesses import finite, match, reorder
from leaklab.records.config import Scale
from leaklab.records.files import read_json, read_tensors, write_arrays
from leaklab.report.figures.image_grid import GridRow, Picture, image_grid
from leaklab.report.judge.attackers import knowing_runs
from leaklab.report.numbers.results import KNOWING, PAPER, ResultTable, canonical, matches
from leaklab.specs.attack import ScoreSpec
from leaklab.specs.base import run_folder, run_id

ORIGINAL = "original"
Pixels = NDArray[np.uint8]
Place = tuple[int, int, int, int]
"""One private image: position of its trial, position in the trial's batch, index in the split, number of the draw."""


@dataclass(frozen=True)
class Shot:
    """One picture of the figure.

    Attributes:
        dataset: where the private image comes from.
        image: its index in the split.
        draw: draw of the defense's randomness.
        column: ``original``, or defense, attacker and attack.
        scores: metric -> value; empty for originals.
        scale: rate really used over the rate that the server assumed (the factor that LRP hides).
    """

    dataset: str
    image: int
    draw: int
    column: tuple[str, ...]
    scores: Mapping[str, float]
    scale: float


def gather(item: Item, scale: Scale, results: ResultTable) -> tuple[list[Shot], dict[str, Pixels]]:
    """Return the figure's pictures: for each data set the first images, each with another draw of the rate."""
    shots: list[Shot] = []
    pixels: dict[str, Pixels] = {}
    for run in expand(item, scale):
        if isinstance(run.spec, ScoreSpec):
            for shot, image in _run_shots(item, run, run.spec, results):
                name = picture_name(shot)
                if name not in pixels:
                    pixels[name] = _to_pixels(image)
                    shots.append(shot)
    return shots, pixels


def write(path: Path, shots: list[Shot], pixels: Mapping[str, Pixels]) -> None:
    """Write the archive."""
    index = json.dumps([{"name": picture_name(shot), **asdict(shot)} for shot in shots], sort_keys=True)
    # ascii bytes: numpy's text arrays would take four bytes a letter
    write_arrays(path, {"index": np.frombuffer(index.encode(), dtype=np.uint8), **pixels})


def _run_shots(item: Item, run: PlannedRun, spec: ScoreSpec, results: ResultTable) -> list[tuple[Shot, Tensor]]:
    assert item.grid is not None
    attack = spec.attack
    name = run_id(spec)
    shown_as = [PAPER] if run.attacker == PAPER else []
    shown_as += [KNOWING] if name in knowing_runs(results, item.headline, *item.grid.scores) else []
    if not shown_as:
        return []
    truth = read_tensors(run_folder(attack.capture) / "truth.safetensors")
    trials = read_json(run_folder(attack.capture) / "truth_facts.json")["trials"]
    guesses, _ = finite(read_tensors(run_folder(attack) / "reconstruction.safetensors")["images"])
    found = reorder(guesses, match(guesses, truth["images"]))
    chosen: list[tuple[Shot, Tensor]] = []
    for place, (index, position, image, draw) in enumerate(_first_places(trials, item.grid.pictures)):
        factor = float(truth["rates"][index].nansum()) / assumed_rate(attack.capture)
        scores = _scores(results, name, {"image": image, "draw": draw})
        original = Shot(attack.capture.dataset, image, place, (ORIGINAL,), {}, 1.0)
        chosen.append((original, truth["images"][index, position]))
        for attacker in shown_as:
            column = (attack.capture.defense.name, attacker, attack.attack.name)
            shot = Shot(attack.capture.dataset, image, draw, column, scores, factor)
            chosen.append((shot, found[index, position]))
    return chosen


def _first_places(trials: list[dict[str, Any]], pictures: int) -> list[Place]:
    """Take update after update, each with the next draw, so that a figure shows more than one factor."""
    updates = list(dict.fromkeys(canonical({"images": trial["image"]}) for trial in trials))
    draws = list(dict.fromkeys(trial["draw"] for trial in trials))
    wanted = [(images, draws[place % len(draws)]) for place, images in enumerate(updates)]
    places = [
        (index, position, image, trial["draw"])
        for pair in wanted
        for index, trial in enumerate(trials)
        if (canonical({"images": trial["image"]}), trial["draw"]) == pair
        for position, image in enumerate(trial["image"] if isinstance(trial["image"], list) else [trial["image"]])
    ]
    return places[:pictures]


def _scores(results: ResultTable, run: str, keys: Mapping[str, Any]) -> dict[str, float]:
    own = [row for row in results.rows if run in row.runs and matches(row.row, keys) and not row.aside]
    return {row.metric: row.value for row in own if row.value is not None}


def picture_name(shot: Shot) -> str:
    """Return the name of a picture in the archive."""
    draw = () if shot.column == (ORIGINAL,) else (f"draw{shot.draw}",)
    return "_".join([shot.dataset, str(shot.image), *draw, *shot.column])


def _to_pixels(image: Tensor) -> Pixels:
    """Turn [C, H, W] on the [0, 1] scale into bytes; what is not finite becomes mid-gray, as in the scores."""
    finite = torch.nan_to_num(image.double(), nan=0.5, posinf=0.5, neginf=0.5).clamp(0, 1)
    plain = (finite * 255).round().to(torch.uint8).permute(1, 2, 0).numpy()
    return np.ascontiguousarray(plain[..., 0] if plain.shape[-1] == 1 else plain)


# The figure of an attack item: originals, then a column per defense, attacker and attack.

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
