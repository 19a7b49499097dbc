import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg

from leaklab.data.deal import deal
from leaklab.report.figures import style
from leaklab.report.figures.partition_figure import Holdings, draw, holdings
from leaklab.specs.training import PartitionSpec

LABELS = np.repeat(np.arange(10), 300)


def held(labels=LABELS, num_classes=10, **partition):
    spec = PartitionSpec.model_validate({"dataset": "toy", "partition": partition})
    return holdings(deal(spec, labels), labels, num_classes)


HUNDRED = held(name="label-shards", shard_size=10, validation=0.2)
TWO = held(name="two-clients", shard_size=30)


def panels(figure):
    """Return the axes of the sizes, the histogram and the labels."""
    return figure.axes[0], figure.axes[1], figure.axes[2]


class TestHoldings:
    def test_counts_by_hand(self):
        partition = {
            "spec": {"dataset": "toy", "partition": {"name": "iid", "settings": {"clients": 2}, "seed": 7}},
            "clients": [[0, 1, 2], [5]],
            "validation": [[3], []],
        }
        shown = holdings(partition, np.array([1, 1, 0, 0, 2, 2]), 4)
        assert shown.training.tolist() == [[1, 2, 0, 0], [0, 0, 1, 0]]
        assert shown.aside.tolist() == [1, 0]
        assert shown.title == "toy, iid (clients 2, seed 7)"
        assert shown.summary == "A client trains on 1 to 3 samples of 1 to 2 labels; 5 of 6 samples are used."

    def test_settings_that_were_not_chosen_are_named_too(self):
        assert HUNDRED.title == (
            "toy, label-shards (clients 100, shard size 10, smallest 1, largest 9, use all true, seed 0)"
        )

    def test_all_samples_of_a_partition_are_counted(self):
        assert HUNDRED.training.sum() + HUNDRED.aside.sum() == len(LABELS)
        assert HUNDRED.summary.endswith("; 3,000 of 3,000 samples are used.")

    def test_sorted_by_size_and_then_by_number(self):
        training = np.array([[1, 1], [0, 5], [2, 0], [9, 0]])
        assert Holdings(training, np.zeros(4), "", "").by_size.tolist() == [3, 1, 0, 2]


class TestDrawing:
    def test_bars_are_the_sizes_in_falling_order(self):
        training, aside = panels(draw(HUNDRED))[0].containers
        assert [bar.get_height() for bar in training] == sorted(HUNDRED.training.sum(1).tolist(), reverse=True)
        assert [bar.get_height() for bar in aside] == HUNDRED.aside[HUNDRED.by_size].tolist()
        assert [bar.get_y() for bar in aside] == [bar.get_height() for bar in training]

    def test_a_bar_stands_above_its_column(self):
        figure = draw(HUNDRED)
        FigureCanvasAgg(figure).draw()
        sizes, _, labels = panels(figure)
        bars = [bar.get_window_extent() for bar in sizes.containers[1]]
        columns = labels.transData.transform([(place + 0.5, 0) for place in range(100)])[:, 0]
        assert [(box.x0 + box.x1) / 2 for box in bars] == pytest.approx(columns, abs=0.5)

    def test_the_same_counts_give_the_same_bytes(self, tmp_path):
        for name in "ab":
            style.save(draw(HUNDRED), tmp_path / f"{name}.png", tmp_path / f"{name}.pdf")
        for kind in ("png", "pdf"):
            assert (tmp_path / f"a.{kind}").read_bytes() == (tmp_path / f"b.{kind}").read_bytes()

    def test_equal_sizes_still_show_in_the_histogram(self):
        (bar,) = panels(draw(held(name="iid", clients=12)))[1].patches
        assert bar.get_edgecolor() == bar.get_facecolor()
        assert bar.get_linewidth() > 0

    def test_a_column_is_the_shares_of_the_client_in_its_place(self):
        (mesh,) = panels(draw(HUNDRED))[2].collections
        shares = mesh.get_array().filled(0)
        assert shares.shape == (10, 100)
        assert shares.sum(0).tolist() == pytest.approx([1] * 100)
        for place, client in enumerate(HUNDRED.by_size):
            own = HUNDRED.training[client]
            assert shares[:, place].tolist() == pytest.approx((own / own.sum()).tolist())

    def test_what_a_client_does_not_have_is_blank(self):
        (mesh,) = panels(draw(TWO))[2].collections
        assert mesh.get_array().mask.tolist() == [[False, True]] * 2 + [[True, False]] * 8

    def test_the_histogram_counts_every_client_once(self):
        histogram = panels(draw(HUNDRED))[1]
        assert sum(bar.get_width() for bar in histogram.patches) == 100

    def test_few_clients_have_numbers_and_no_histogram(self):
        sizes, histogram, labels = panels(draw(TWO))
        assert [text.get_text() for text in labels.get_xticklabels()] == ["1", "2"]
        assert not histogram.axison
        assert sizes.get_legend() is None
        assert [text.get_text() for text in panels(draw(HUNDRED))[2].get_xticklabels()] == []

    def test_lightness_falls_with_the_share_for_any_color_vision(self):
        (mesh,) = panels(draw(HUNDRED))[2].collections
        colors = mesh.to_rgba(np.linspace(0, 1, 50))[:, :3]
        assert (np.diff(colors @ [0.2126, 0.7152, 0.0722]) < 0).all()
        assert colors[0].min() < 0.95

    @pytest.mark.parametrize(
        "shown",
        [HUNDRED, TWO, held(name="iid", clients=10), held(np.tile(np.arange(200), 5), 200, name="iid", clients=12)],
        ids=["hundred", "two", "ten", "many-labels"],
    )
    def test_the_words_fit_on_the_page(self, shown):
        figure = draw(shown)
        FigureCanvasAgg(figure).draw()
        assert figure.get_figwidth() <= style.PAGE_WIDTH
        page = figure.bbox
        texts = [figure._suptitle, *(t for a in figure.axes if a.axison for t in (a.xaxis.label, a.yaxis.label))]
        for text in texts:
            box = text.get_window_extent()
            assert page.x0 <= box.x0, text.get_text()
            assert box.x1 <= page.x1, text.get_text()
            assert box.y1 <= page.y1, text.get_text()
            assert text.get_fontsize() >= style.SMALLEST_FONT
