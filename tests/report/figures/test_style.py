"""Saved figures have the same bytes whatever the layout's solver does in its last digits."""

import numpy as np
import pytest
import seaborn
from PIL import Image

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
    """Published figures rest on it; the colormap aside, which every figure chooses for itself."""
    theme = seaborn.plotting_context("paper") | seaborn.axes_style("ticks")
    assert theme.keys() - style.settings().keys() == {"image.cmap"}
    del theme["image.cmap"]
    own = style._FONT_SIZES | style._LOOK
    assert {key: value for key, value in theme.items() if key not in own} == style._THEME


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
