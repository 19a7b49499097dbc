"""Saved figures have the same bytes whatever the layout's solver does in its last digits."""

from itertools import combinations

import matplotlib as mpl
import numpy as np
import pytest
import seaborn
from matplotlib.colors import to_rgb
from PIL import Image
from skimage.color import deltaE_ciede2000, rgb2lab

from leaklab.report.figures import style

PLACE = (1 / 7, 1 / 9, 2 / 3, 0.7)


def saved(folder, nudge):
    with style.styled():
        figure = style.new_figure()
        figure.set_layout_engine("none")
        axes = figure.add_axes([length * (1 + nudge) for length in PLACE])
        axes.plot([1, 2, 4], label="curve")
        axes.legend()
    folder.mkdir()
    style.save(figure, folder / "a.png", folder / "a.pdf")
    return [(folder / name).read_bytes() for name in ("a.png", "a.pdf")], axes.get_position().bounds


def test_the_last_digits_of_a_layout_do_not_show(tmp_path):
    plain, place = saved(tmp_path / "plain", 0.0)
    nudged, other = saved(tmp_path / "nudged", 1e-14)
    assert (plain, place) == (nudged, other)
    assert np.allclose(place, PLACE, rtol=0, atol=1e-9)


@pytest.mark.parametrize("rows", [1, 2])
def test_saving_keeps_the_layout(tmp_path, rows):
    with style.styled():
        figure = style.new_figure()
        for axes in figure.subplots(rows, 2).flat:
            axes.set_ylabel("a label that needs room")
        figure.draw_without_rendering()
    before = [axes.get_position().bounds for axes in figure.axes]
    style.save(figure, tmp_path / "a.png")
    assert np.allclose([axes.get_position().bounds for axes in figure.axes], before, rtol=0, atol=1e-8)


def test_the_theme_is_seaborns():
    letters = style.SMALLEST_FONT / seaborn.plotting_context("paper")["xtick.labelsize"]
    theme = seaborn.plotting_context("paper", letters) | seaborn.axes_style("ticks")
    with style.styled():
        found = dict(mpl.rcParams)
        colors = seaborn.color_palette().as_hex()
    own = {key for key, value in theme.items() if found[key] != value}
    assert own == (style._LOOK.keys() & theme.keys()) | {"font.family"}
    assert colors == [color.lower() for color in style.PALETTE]
    assert found["font.family"] == ["DejaVu Sans"]


# how people without cones for long, middle and short waves see linear RGB (Machado and others, 2009)
VISIONS = {
    "normal": np.eye(3),
    "protanopia": [[0.152, 1.053, -0.205], [0.115, 0.786, 0.099], [-0.004, -0.048, 1.052]],
    "deuteranopia": [[0.367, 0.861, -0.228], [0.280, 0.673, 0.047], [-0.012, 0.043, 0.969]],
    "tritanopia": [[1.256, -0.077, -0.179], [-0.078, 0.931, 0.148], [0.005, 0.691, 0.304]],
}


def nearest(colors, vision):
    """Return the difference (CIEDE2000) of the two colors that are hardest to tell apart."""
    seen = np.array([to_rgb(color) for color in colors]) ** 2.2 @ np.transpose(VISIONS[vision])
    lab = rgb2lab(seen.clip(0, 1)[None] ** (1 / 2.2))[0]
    return min(float(deltaE_ciede2000(*pair)) for pair in combinations(lab, 2))


@pytest.mark.parametrize("vision", VISIONS)
def test_colors_are_told_apart_with_any_color_vision_better_than_seaborns(vision):
    own = nearest(style.PALETTE, vision)
    assert own > 10
    assert own > nearest(seaborn.color_palette("colorblind", len(style.PALETTE)), vision)


def test_only_ruled_figures_have_a_grid():
    for ruled in (False, True):
        with style.styled(ruled):
            axes = style.new_figure().subplots()
        assert axes.xaxis.get_gridlines()[0].get_visible() == ruled


def with_foot(path, foot):
    with style.styled():
        figure = style.new_figure()
        figure.subplots().plot([1, 2, 4])
    style.save(figure, path.with_suffix(".png"), path.with_suffix(".pdf"), foot)
    with Image.open(path.with_suffix(".png")) as picture:
        return np.asarray(picture.convert("L"))


@pytest.mark.parametrize(("foot", "lines"), [("Stand-ins: digits for mnist.", 1), ("Stand-ins: a, b. " * 12, 2)])
def test_a_foot_stands_below_the_figure_and_moves_nothing_in_it(tmp_path, foot, lines):
    plain, signed = with_foot(tmp_path / "plain", ""), with_foot(tmp_path / "signed", foot)
    rows, columns = plain.shape
    assert signed.shape == (rows + round((0.14 * lines + 0.1) * style.DOTS_PER_INCH), columns)
    # each has a palette of its own
    assert np.abs(signed[:rows].astype(int) - plain).max() < 32
    written = signed[rows:] < 200
    assert written.any()
    assert not written[:, -10:].any()
    assert not written[-4:].any()


@pytest.mark.parametrize(("colors", "mode"), [(3, "P"), (60_000, "RGB")])
def test_a_png_has_a_palette_where_it_loses_nothing_by_it(tmp_path, monkeypatch, colors, mode):
    with style.styled():
        figure = style.new_figure(2.0, 2.0)
        axes = figure.subplots()
        shown = np.random.default_rng(0).random((300, 300, 3))
        axes.imshow(shown if colors > 256 else (shown > 0.5).astype(float), interpolation="nearest")
    style.save(figure, png=tmp_path / "a.png")
    allowed = style.PALETTE_ERROR
    monkeypatch.setattr(style, "PALETTE_ERROR", -1)
    style.save(figure, png=tmp_path / "full.png")
    with Image.open(tmp_path / "a.png") as found, Image.open(tmp_path / "full.png") as full:
        assert full.mode != "P"
        assert (found.mode == "P") == (mode == "P")
        error = np.abs(np.asarray(found.convert("RGB"), float) - np.asarray(full.convert("RGB"), float)).mean()
    assert error <= allowed
