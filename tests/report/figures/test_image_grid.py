"""Picture figures: nothing is cut, nothing overlaps, and the files are the same in every run."""

from itertools import combinations

import matplotlib as mpl
import numpy as np
import pytest
import torch
from matplotlib.backends.backend_agg import FigureCanvasAgg
from skimage import data

from leaklab.report.figures import style
from leaklab.report.figures.image_grid import GridRow, Picture, image_grid

SCORES = ("PSNR 31.2 dB", "LPIPS 0.04")
DEFENSES = ("no defense", "gradient compression", "differential privacy", "Soteria", "GradDefense", "OUTPOST")
ASTRONAUT = torch.as_tensor(data.astronaut()).permute(2, 0, 1).double() / 255


def photograph(side, channels=3):
    return ASTRONAUT[:channels, 40 : 40 + side, 150 : 150 + side]


def grid(columns, rows=2, side=28, channels=1, note="What the scores mean. " * 8):
    pictures = (Picture(photograph(side, channels)),) + (Picture(photograph(side, channels), SCORES),) * (
        len(columns) - 1
    )
    return image_grid([GridRow(f"CIFAR-10 image {1000 + i}", pictures) for i in range(rows)], columns, note)


def headings(attacks):
    return ["original", *(f"{attack}\n{defense}" for attack in attacks for defense in DEFENSES)]


def texts(figure):
    return [text for axes in figure.axes for text in axes.texts]


def pictures(figure):
    return [axes for axes in figure.axes if axes.images]


@pytest.mark.parametrize(
    ("attacks", "side", "channels"),
    [(["DLG"], 8, 1), (["DLG"], 224, 3), (["DLG", "csDLG"], 28, 1), (["DLG", "iDLG", "csDLG", "GGL"], 32, 3)],
)
def test_no_text_overlaps_or_leaves_the_page(attacks, side, channels):
    figure = grid(headings(attacks), side=side, channels=channels)
    renderer = FigureCanvasAgg(figure).get_renderer()
    boxes = [text.get_window_extent(renderer) for text in texts(figure)]
    boxes += [axes.get_window_extent(renderer) for axes in pictures(figure)]
    for box in boxes:
        assert figure.bbox.x0 <= box.x0 < box.x1 <= figure.bbox.x1
        assert figure.bbox.y0 <= box.y0 < box.y1 <= figure.bbox.y1
    for one, other in combinations(boxes, 2):
        # lines of one paragraph may touch by a fraction of a point
        assert not one.padded(-0.5).overlaps(other.padded(-0.5))


def test_long_bold_words_over_a_single_column_fit():
    columns = ["original", *(f"DLG\n{defense}\nknowing" for defense in DEFENSES)]
    figure = grid(columns, rows=1)
    renderer = FigureCanvasAgg(figure).get_renderer()
    boxes = [text.get_window_extent(renderer).padded(-0.5) for text in texts(figure)]
    assert not any(one.overlaps(other) for one, other in combinations(boxes, 2))


def test_letters_are_readable_at_page_width():
    figure = grid(headings(["DLG", "csDLG"]))
    assert figure.get_figwidth() <= style.PAGE_WIDTH
    assert min(text.get_fontsize() for text in texts(figure)) >= style.SMALLEST_FONT
    page = figure.get_figwidth()
    assert min(axes.get_position().width * page for axes in pictures(figure)) > 0.6


def test_a_wide_grid_continues_below_and_repeats_the_originals():
    figure = grid(headings(["DLG", "iDLG", "csDLG"]), rows=2)
    shown = [text.get_text() for text in texts(figure)]
    blocks = shown.count("original")
    assert blocks > 1
    assert len(pictures(figure)) == 2 * (18 + blocks)
    assert shown.count(SCORES[0]) == 2 * 18


def test_neighbors_share_the_heading_of_their_group_only():
    columns = ["original", "DLG\nnone\npaper", "DLG\nLRP\npaper", "DLG\nLRP\nknowing", "iDLG\nLRP\nknowing"]
    shown = [text.get_text() for text in texts(grid(columns, rows=1))]
    assert (shown.count("DLG"), shown.count("iDLG"), shown.count("LRP")) == (1, 1, 2)
    assert (shown.count("paper"), shown.count("knowing")) == (2, 2)


def test_equal_single_headings_are_not_merged():
    shown = [text.get_text() for text in texts(grid(["original", "seed", "seed"], rows=1))]
    assert shown.count("seed") == 2


@pytest.mark.parametrize(("side", "channels"), [(28, 1), (224, 3)])
def test_pixels_are_shown_as_they_are(side, channels):
    image = photograph(side, channels) * 1.5 - 0.25
    figure = image_grid([GridRow("", (Picture(image),))], ["original"])
    (axes,) = pictures(figure)
    drawn = np.asarray(axes.images[0].get_array())
    factor = drawn.shape[0] // side
    expected = image.clamp(0, 1).permute(1, 2, 0).numpy()
    assert np.array_equal(drawn[::factor, ::factor].reshape(expected.shape), expected)
    assert axes.images[0].get_interpolation() == "nearest"
    assert axes.images[0].get_clim() == (0, 1)


def test_a_missing_picture_says_why():
    row = GridRow("image 7", (Picture(photograph(28)), Picture(None, ("not run: no weights",))))
    figure = image_grid([row], ["original", "LRP"])
    assert "not run: no" in " ".join(text.get_text() for text in texts(figure))
    assert len(pictures(figure)) == 1


@pytest.mark.parametrize("rows", [[], [GridRow("too short", (Picture(None),))]])
def test_rows_must_fit_the_columns(rows):
    with pytest.raises(ValueError, match="needs 2 pictures"):
        image_grid(rows, ["original", "LRP"])


def test_files_have_the_same_bytes_in_every_run(tmp_path):
    for run in ("one", "two"):
        style.save(grid(["original", "LRP"]), tmp_path / run / "figure.png", tmp_path / run / "figure.pdf")
    for name in ("figure.png", "figure.pdf"):
        assert (tmp_path / "one" / name).read_bytes() == (tmp_path / "two" / name).read_bytes()
        assert {path.name for path in (tmp_path / "one").iterdir()} == {"figure.png", "figure.pdf"}
    assert b"CreationDate" not in (tmp_path / "one" / "figure.pdf").read_bytes()


def test_drawing_leaves_the_settings_of_the_session_alone():
    before = dict(mpl.rcParams), mpl.colors.to_rgb("b")
    grid(["original", "LRP"])
    assert (dict(mpl.rcParams), mpl.colors.to_rgb("b")) == before


def test_house_fonts_are_large_enough():
    sizes = ("axes.labelsize", "axes.titlesize", "font.size", "legend.fontsize", "xtick.labelsize", "ytick.labelsize")
    with style.styled():
        assert min(mpl.rcParams[size] for size in sizes) >= style.SMALLEST_FONT
