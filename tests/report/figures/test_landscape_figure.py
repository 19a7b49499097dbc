"""Surfaces and maps of a plane of latents: the given numbers in the same colors, and what is comparable."""

import numpy as np
import pytest
from matplotlib import colormaps
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import LogNorm
from matplotlib.contour import QuadContourSet
from scipy.interpolate import RegularGridInterpolator
from scipy.stats import spearmanr

from leaklab.records.errors import UserError
from leaklab.report.figures import style
from leaklab.report.figures.landscape_figure import COLORS, Landscape, arrays, draw

ALPHA, BETA = np.linspace(-0.5, 1.5, 10), np.linspace(-1, 1, 8)
A, B = np.meshgrid(ALPHA, BETA, indexing="ij")
BOWL = 0.3 + (A - 0.2) ** 2 + 0.5 * (B - 0.1) ** 2
DISTANCE = 0.25 + 0.3 * np.hypot(A - 0.1, B)
DECADES = 10 ** (3 * BOWL / BOWL.max())


def plane(name="no defense", loss=BOWL, **parts):
    return Landscape(**{"name": name, "alpha": ALPHA, "beta": BETA, "loss": loss, "distance": DISTANCE, **parts})


SHOWN = (plane(), plane("LRP", DECADES, distance=DISTANCE + 0.2))
SURFACE, MAP, BAR = range(3)


@pytest.fixture(scope="module")
def figure():
    shown = draw(SHOWN, "Matching loss and LPIPS over a plane of latents (scale small)", ["Stand-in generator."])
    FigureCanvasAgg(shown).draw()
    return shown


def quantities(figure):
    """Yield (given plane, given values, its three axes); every quantity has a surface, a map and a color bar."""
    for place, given in enumerate(SHOWN):
        for half, values in enumerate((given.loss, given.distance)):
            start = 6 * place + 3 * half
            yield given, values, figure.axes[start : start + 3]


def surface(axes):
    return axes[SURFACE].collections[0]


def mesh(axes):
    return axes[MAP].collections[0]


class TestWhatIsDrawn:
    def test_the_map_has_every_value_at_its_place(self, figure):
        for _, values, axes in quantities(figure):
            assert np.array_equal(np.asarray(mesh(axes).get_array()).reshape(8, 10), values.T)
            corners = np.asarray(mesh(axes).get_coordinates())
            assert np.array_equal(corners[0, :, 0], ALPHA)
            assert np.array_equal(corners[:, 0, 1], BETA)

    def test_the_surface_is_made_of_the_same_values(self, figure):
        for given, values, axes in quantities(figure):
            heights = np.log10(values) if values is DECADES else values
            faces = (heights[:-1, :-1] + heights[1:, :-1] + heights[:-1, 1:] + heights[1:, 1:]) / 4
            assert np.sort(np.asarray(surface(axes).get_array())) == pytest.approx(np.sort(faces.ravel())), given.name

    def test_a_value_has_one_color_in_surface_and_map(self, figure):
        for _, values, axes in quantities(figure):
            height = np.log10(values) if values is DECADES else values
            assert np.allclose(surface(axes).norm(height), mesh(axes).norm(values))
            assert surface(axes).get_cmap().name == mesh(axes).get_cmap().name == COLORS

    def test_both_latents_and_the_least_value_are_marked(self, figure):
        for given, values, axes in quantities(figure):
            row, column = np.unravel_index(values.argmin(), values.shape)
            assert [(*own.get_xdata(), *own.get_ydata()) for own in axes[MAP].lines] == [
                (0, 0),
                (1, 0),
                (given.alpha[row], given.beta[column]),
            ]
            heights = np.log10(values) if values is DECADES else values
            between = RegularGridInterpolator((ALPHA, BETA), heights)
            for own in axes[SURFACE].lines:
                x, y, z = (part[0] for part in own.get_data_3d())
                assert z == pytest.approx(between((x, y)).item())
            signs = [[own.get_marker() for own in axes[place].lines] for place in (SURFACE, MAP)]
            assert signs[0] == signs[1] == ["o", "^", "X"]

    def test_contour_lines_stand_at_the_ticks_of_the_color_bar(self, figure):
        for _, values, axes in quantities(figure):
            (contours,) = [own for own in axes[MAP].collections if isinstance(own, QuadContourSet)]
            ticks = axes[BAR].get_yticks()
            assert contours.levels.tolist() == [tick for tick in ticks if values.min() < tick < values.max()]
            assert 2 <= len(ticks) <= 7

    def test_each_row_says_how_well_the_ranks_agree(self, figure):
        words = [text.get_text() for text in figure.texts]
        for given in SHOWN:
            expected = spearmanr(given.loss.ravel(), given.distance.ravel()).statistic
            assert words[words.index(given.name) + 1] == f"Spearman correlation {expected:.2f}"

    def test_what_is_kept_is_what_was_given(self):
        kept = arrays(SHOWN)
        assert list(kept)[:4] == [f"no defense: {name}" for name in ("alpha", "beta", "loss", "distance")]
        assert kept["LRP: loss"] is DECADES


class TestScales:
    def test_the_distance_has_one_scale_and_the_loss_its_own(self, figure):
        limits = [mesh(axes).get_clim() for _, _, axes in quantities(figure)]
        assert limits[1] == limits[3] == (DISTANCE.min(), DISTANCE.max() + 0.2)
        assert limits[0] == (BOWL.min(), BOWL.max())
        assert limits[2] == (DECADES.min(), DECADES.max())
        said = " ".join(text.get_text() for text in figure.texts).replace("\n", " ")
        assert "Colors of LPIPS mean the same in all rows" in said
        assert "has a logarithmic scale under LRP." in said

    @pytest.mark.parametrize(
        ("loss", "is_log"),
        [(DECADES, True), (BOWL, False), (BOWL - BOWL.min(), False), (BOWL / BOWL.max() * 1e4 - 5000, False)],
    )
    def test_logarithmic_only_beyond_two_decades_of_positive_numbers(self, loss, is_log):
        shown = draw([plane(loss=loss)], "T")
        assert isinstance(mesh(shown.axes[:3]).norm, LogNorm) == is_log

    @pytest.mark.parametrize(
        ("factor", "label"),
        [(1e-6, "matching loss ($10^{-6}$)"), (1e7, "matching loss ($10^{7}$)"), (1, "matching loss")],
    )
    def test_a_power_of_ten_stands_in_the_label(self, factor, label):
        shown = draw([plane(loss=factor * BOWL)], "T")
        FigureCanvasAgg(shown).draw()
        bar = shown.axes[BAR]
        assert bar.get_ylabel() == label
        assert [float(text.get_text()) for text in bar.get_yticklabels()] == pytest.approx(bar.get_yticks() / factor)

    def test_a_constant_is_drawn_too(self):
        shown = draw([plane(loss=np.ones((10, 8)))], "T")
        assert mesh(shown.axes[:3]).get_clim() == (0.5, 1.5)
        assert any("Spearman correlation undefined" in text.get_text() for text in shown.texts)

    def test_lightness_rises_throughout(self):
        light = colormaps[COLORS](np.linspace(0, 1, 50))[:, :3] @ [0.2126, 0.7152, 0.0722]
        assert (np.diff(light) > 0).all()


@pytest.mark.parametrize(("count", "level"), [(1, 1.0), (2, 300.0), (6, 1e-5)])
def test_no_text_leaves_the_page_or_covers_another(count, level):
    planes = [plane(f"gradient compression {place}", level * BOWL) for place in range(count)]
    planes[-1] = plane("LRP", level * DECADES)
    figure = draw(planes, "Matching loss and LPIPS over a plane of latents (scale small)", ["A note. " * 30])
    FigureCanvasAgg(figure).draw()
    flat = [axes for axes in figure.axes if axes.name != "3d"]
    solid = [axes for axes in figure.axes if axes.name == "3d"]
    texts = [*figure.texts, *figure.legends[0].get_texts()]
    texts += [axis.label for axes in solid for axis in (axes.xaxis, axes.yaxis)]
    texts += [text for axes in flat for text in (axes.xaxis.label, axes.yaxis.label) if text.get_text()]
    boxes = [text.get_window_extent() for text in texts]
    boxes += [label.get_window_extent() for axes in flat for axis in (axes.xaxis, axes.yaxis)
              for tick in axis.get_major_ticks() for label in (tick.label1, tick.label2)
              if label.get_visible() and label.get_text() and shown(axis, tick)]  # fmt: skip
    for place, box in enumerate(boxes):
        assert figure.bbox.x0 <= box.x0
        assert box.x1 <= figure.bbox.x1
        assert figure.bbox.y0 <= box.y0
        assert box.y1 <= figure.bbox.y1
        assert not any(box.padded(-1).overlaps(other.padded(-1)) for other in boxes[place + 1 :])
    ticks = [label for axes in solid for axis in (axes.xaxis, axes.yaxis) for label in axis.get_ticklabels()]
    assert min(text.get_fontsize() for text in (*texts, *ticks)) >= style.SMALLEST_FONT


def shown(axis, tick):
    low, high = sorted(axis.get_view_interval())
    return low <= tick.get_loc() <= high


def test_the_same_numbers_give_the_same_bytes(tmp_path):
    for name in ("a", "b"):
        style.save(draw(SHOWN[1:], "T"), tmp_path / f"{name}.png", tmp_path / f"{name}.pdf")
    for kind in ("png", "pdf"):
        assert (tmp_path / f"a.{kind}").read_bytes() == (tmp_path / f"b.{kind}").read_bytes()


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        ({"alpha": ALPHA[::-1]}, "'alpha' has to be two or more"),
        ({"beta": BETA[:1]}, "'beta' has to be two or more"),
        ({"alpha": ALPHA / 2}, "'alpha' goes from -0.25 to 0.75: it has to contain 0 and 1"),
        ({"beta": BETA + 2}, "'beta' goes from 1 to 3: it has to contain 0"),
        ({"loss": BOWL.T}, r"'loss' has shape \[8, 10\], but there are \[10, 8\] points"),
        ({"distance": DISTANCE.ravel()}, "'distance' has shape"),
        ({"loss": np.where(BOWL > 1, np.inf, BOWL)}, "'loss' is not finite at"),
    ],
)
def test_what_cannot_be_drawn_is_refused_in_one_line(parts, message):
    with pytest.raises(UserError, match=message) as refused:
        plane(**parts)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(("planes", "message"), [([], "run the item first"), ([plane(), plane()], "its own name")])
def test_there_must_be_defenses_with_names_of_their_own(planes, message):
    with pytest.raises(UserError, match=message):
        draw(planes, "T")
