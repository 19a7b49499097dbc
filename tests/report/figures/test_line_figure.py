"""Figures along a line of latents: the given numbers, their marks and scales, and nothing that covers another."""

import io

import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from scipy.stats import spearmanr

from leaklab.records.errors import UserError
from leaklab.report.figures import style
from leaklab.report.figures.latent_line import LatentLine, Words
from leaklab.report.figures.line_figure import arrays, draw

ALPHA = np.linspace(-0.25, 1.25, 61)
DISTANCE = 0.2 + 0.4 * np.abs(ALPHA - 0.1)
BOWL = 0.05 + (ALPHA - 0.1) ** 2


def line(name="no defense", loss=BOWL, **parts):
    return LatentLine(**{"name": name, "alpha": ALPHA, "loss": loss, "distance": DISTANCE, **parts})


PRINTED = (
    line(profiled=0.9 * BOWL),
    line("additive noise", BOWL + 20, profiled=0.9 * BOWL + 20),
    line("LRP", 5 - 3 * ALPHA, profiled=4 * BOWL, distance=2 * DISTANCE),
)


def axes_of(figure, count=3):
    """Return the axes of the losses and, below each, of the distances: two panels abreast."""
    columns = min(2, count)
    uppers = [place // columns * 2 * columns + place % columns for place in range(count)]
    return [figure.axes[place] for place in uppers], [figure.axes[place + columns] for place in uppers]


def shown_axes(figure):
    return [axes for axes in figure.axes if axes.get_visible()]


def curves(axes):
    return [own for own in axes.lines if len(own.get_xdata()) == len(ALPHA)]


@pytest.fixture(scope="module")
def figure():
    shown = draw(PRINTED, "Matching loss and LPIPS along a line of latents (scale small)", ["Stand-in generator."])
    with style.styled():
        shown.savefig(io.BytesIO(), format="png", dpi=style.DOTS_PER_INCH)
    return shown


class TestWhatIsDrawn:
    def test_every_curve_is_the_given_one(self, figure):
        for given, upper, lower in zip(PRINTED, *axes_of(figure), strict=True):
            raw, profiled = curves(upper)
            (distance,) = curves(lower)
            assert np.array_equal(raw.get_ydata(), given.loss)
            assert np.array_equal(profiled.get_ydata(), given.profiled)
            assert np.array_equal(distance.get_ydata(), given.distance)
            assert all(np.array_equal(own.get_xdata(), ALPHA) for own in (raw, profiled, distance))

    def test_both_latents_are_marked_in_all_axes(self, figure):
        for axes in shown_axes(figure):
            assert sorted(own.get_xdata()[0] for own in axes.lines if list(own.get_xdata()) in ([0, 0], [1, 1])) == [
                0,
                1,
            ]
        for upper in axes_of(figure)[0]:
            assert [(text.get_text(), text.xy[0]) for text in upper.texts] == [("$z_1$", 0), ("$z_2$", 1)]

    @pytest.mark.parametrize("loss", [2 - BOWL, 10 ** (3 - 2.5 * BOWL)], ids=["linear", "log"])
    def test_no_curve_enters_the_strip_of_their_names(self, loss):
        shown = draw([line(loss=loss)], "T")
        FigureCanvasAgg(shown).draw()
        upper = shown.axes[0]
        highest = upper.transData.transform([(0, loss.max())])[0, 1]
        assert min(text.get_window_extent().y0 for text in upper.texts) > highest

    def test_the_smallest_value_of_each_curve_is_marked(self, figure):
        for axes in shown_axes(figure):
            marked = [(own.get_xdata()[0], own.get_ydata()[0]) for own in axes.lines if len(own.get_xdata()) == 1]
            least = [own.get_ydata().argmin() for own in curves(axes)]
            assert marked == [(ALPHA[i], own.get_ydata()[i]) for i, own in zip(least, curves(axes), strict=True)]

    def test_each_panel_says_how_well_the_ranks_agree(self, figure):
        for given, upper, lower in zip(PRINTED, *axes_of(figure), strict=True):
            raw, profiled = (spearmanr(own, given.distance).statistic for own in (given.loss, given.profiled))
            expected = f"Spearman {raw:.2f}, profiled {profiled:.2f}".replace("-", "\u2212")
            assert lower.get_title(loc="left") == expected
            assert upper.get_title(loc="left") == given.name

    def test_long_names_and_spreads_keep_clear_of_each_other(self):
        names = (
            "compression, without transforms",
            "clipping, without transforms",
            "compression, entries that were sent",
        )
        many = {"correlations": (-0.92, -0.87, 0.07), "other_losses": BOWL[None], "other_distances": DISTANCE[None]}
        shown = draw([line(name, **many) for name in names], "T")
        FigureCanvasAgg(shown).draw()
        titles = [axes._left_title.get_window_extent() for axes in shown_axes(shown)]
        page = shown.bbox.width
        assert all(title.x1 <= page for title in titles)
        assert not any(one.overlaps(other) for place, one in enumerate(titles) for other in titles[:place])

    def test_a_constant_curve_has_no_rank_correlation(self):
        constant = draw([line(loss=np.ones(61))], "Constant")
        assert axes_of(constant, 1)[1][0].get_title(loc="left") == "Spearman undefined"

    def test_axes_are_named_once_and_x_below_the_last(self, figure):
        upper, lower = axes_of(figure)
        assert [axes.get_ylabel() for axes in upper] == ["matching loss", "", "matching loss"]
        assert [axes.get_ylabel() for axes in lower] == ["LPIPS", "", "LPIPS"]
        assert {axes.get_xlabel() for axes in upper} == {""}
        assert [axes.get_xlabel() for axes in lower] == ["", r"$\alpha$", r"$\alpha$"]

    def test_units_stand_beside_the_names(self):
        upper, lower = draw([line()], "T", words=Words(loss_unit="a.u.", distance="LPIPS (VGG)")).axes
        assert (upper.get_ylabel(), lower.get_ylabel()) == ("matching loss (a.u.)", "LPIPS (VGG)")

    def test_the_legend_names_the_profiled_curve_where_there_is_one(self, figure):
        def named(shown):
            return [text.get_text() for text in shown.legends[0].get_texts()]

        assert "matching loss, scale profiled out" in named(figure)
        assert not any("profiled" in name for name in named(draw([line()], "T")))

    def test_what_is_kept_is_what_was_given(self):
        kept = arrays((*PRINTED[:1], line("clipping")))
        assert list(kept) == [
            *(f"no defense: {name}" for name in ("alpha", "loss", "profiled", "distance")),
            *(f"clipping: {name}" for name in ("alpha", "loss", "distance")),
        ]
        assert np.array_equal(kept["no defense: profiled"], 0.9 * BOWL)


class TestScales:
    def test_the_distance_has_one_scale_and_the_loss_its_own(self, figure):
        upper, lower = axes_of(figure)
        assert len({axes.get_ylim() for axes in lower}) == 1
        assert len({axes.get_ylim() for axes in upper}) == 3

    @pytest.mark.parametrize(
        ("loss", "scale"),
        [
            (np.geomspace(1, 101, 61), "log"),
            (np.geomspace(1, 99, 61), "linear"),
            (np.linspace(0, 1000, 61), "linear"),
            (np.linspace(-1, 1000, 61), "linear"),
        ],
    )
    def test_logarithmic_only_beyond_two_decades_of_positive_numbers(self, loss, scale):
        shown = draw([line("LRP", loss)], "T")
        assert shown.axes[0].get_yscale() == scale
        text = " ".join(text.get_text() for text in shown.texts).replace("\n", " ")
        assert ("logarithmic scale everywhere" in text) == (scale == "log")

    @pytest.mark.parametrize("largest", [0.064, 0.0099, 20000.0, 5.0])
    def test_a_power_of_ten_above_the_axis_keeps_clear_of_the_name(self, largest):
        shown = draw([line(loss=largest * (0.5 + 0.5 * np.linspace(0, 1, 61)))], "T")
        FigureCanvasAgg(shown).draw()
        upper = shown.axes[0]
        power, name = upper.yaxis.get_offset_text(), upper._left_title
        assert name.get_text() == "no defense"
        if power.get_text():
            assert name.get_window_extent().y0 >= power.get_window_extent().y1

    def test_the_note_names_the_panels_with_a_logarithmic_scale(self):
        shown = draw([line(), line("LRP", np.geomspace(1e-3, 1, 61))], "T")
        assert "logarithmic scale under LRP." in " ".join(text.get_text() for text in shown.texts).replace("\n", " ")

    def test_both_losses_decide_on_the_scale(self):
        assert draw([line(profiled=1e-3 * BOWL)], "T").axes[0].get_yscale() == "log"


def is_shown(axis, tick):
    low, high = sorted(axis.get_view_interval())
    return low <= tick.get_loc() <= high


def all_texts(figure):
    ticks = [tick.label1 for axes in figure.axes if axes.get_visible() for axis in (axes.xaxis, axes.yaxis)
             for tick in axis.get_major_ticks() if tick.label1.get_visible() and is_shown(axis, tick)]  # fmt: skip
    titles = [text for axes in figure.axes for text in (axes._left_title, axes.xaxis.label, axes.yaxis.label,
              axes.yaxis.get_offset_text(), *axes.texts)]  # fmt: skip
    found = [*figure.texts, *figure.legends[0].get_texts(), *titles, *ticks]
    return [text for text in found if text.get_text()]


@pytest.mark.parametrize(("count", "level"), [(1, 1.0), (2, 1e-5), (3, 1e-5), (5, 1e6)])
def test_no_text_leaves_the_page_or_covers_another(count, level):
    lines = [line(f"defense {place}", level * BOWL, profiled=level * BOWL / 2) for place in range(count)]
    figure = draw(lines, "Matching loss and LPIPS along a line of latents (scale small)", ["A note. " * 20])
    FigureCanvasAgg(figure).draw()
    texts = all_texts(figure)
    boxes = [text.get_window_extent() for text in texts]
    assert min(text.get_fontsize() for text in texts) >= style.SMALLEST_FONT
    for place, box in enumerate(boxes):
        assert figure.bbox.x0 <= box.x0
        assert box.x1 <= figure.bbox.x1
        assert figure.bbox.y0 <= box.y0
        assert box.y1 <= figure.bbox.y1
        assert not any(box.padded(-1).overlaps(other.padded(-1)) for other in boxes[place + 1 :])
    assert sum(axes.get_visible() for axes in figure.axes) == 2 * count


def test_the_same_numbers_give_the_same_bytes(tmp_path):
    for name in ("a", "b"):
        style.save(draw(PRINTED[:1], "T"), tmp_path / f"{name}.png", tmp_path / f"{name}.pdf")
    for kind in ("png", "pdf"):
        assert (tmp_path / f"a.{kind}").read_bytes() == (tmp_path / f"b.{kind}").read_bytes()


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        ({"alpha": np.array([])}, "two or more finite numbers"),
        ({"alpha": ALPHA[::-1]}, "rising order"),
        ({"alpha": np.where(ALPHA > 1, np.nan, ALPHA)}, "finite numbers"),
        ({"alpha": np.linspace(0.1, 1, 61)}, "has to contain 0 and 1"),
        ({"loss": BOWL[:-1]}, "'loss' has shape"),
        ({"distance": DISTANCE[:, None]}, "'distance' has shape"),
        ({"profiled": np.full(61, np.inf)}, "'profiled' is not finite at 61 of 61 points"),
        ({"loss": np.where(BOWL > 1, np.nan, BOWL)}, "'loss' is not finite at"),
    ],
)
def test_what_cannot_be_drawn_is_refused_in_one_line(parts, message):
    with pytest.raises(UserError, match=message) as refused:
        line(**parts)
    assert str(refused.value).startswith("no defense: ")
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(("lines", "message"), [([], "run the item first"), ([line(), line()], "its own name")])
def test_there_must_be_defenses_with_names_of_their_own(lines, message):
    with pytest.raises(UserError, match=message):
        draw(lines, "T")
