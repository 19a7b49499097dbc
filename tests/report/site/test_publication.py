"""What a scale's runs leave beside its results for a checkout that has no runs: costs and metric cards."""

import pytest

from leaklab.records.errors import UserError
from leaklab.report.site.pages import Cost, MetricCard
from leaklab.report.site.publication import Published, write_cards, write_costs

COSTS = {
    "lrp/table1": Cost(12, 3725.5, 61.25, 2048.0, ("cpu", "cuda"), 0),
    "lrp/figure2": Cost(3, 0.5, 0.25, 20.0, ("cpu",), 1234567),
}
MSE, SEEN = MetricCard("mse", {"domain": "[0, 1], clamped"}), MetricCard("test_accuracy", {"averaging": "mean"})
CARDS = {"lrp/table1": (SEEN,), "lrp/figure2": (MSE, SEEN), "lrp/table4": ()}


def test_costs_and_cards_are_read_as_they_were_written(tmp_path):
    write_costs(tmp_path / "costs.csv", COSTS)
    write_cards(tmp_path / "cards.json", CARDS)
    found = Published.load(tmp_path)
    assert found.costs == COSTS
    assert found.cards == CARDS


def test_a_card_that_items_share_is_written_once(tmp_path):
    write_cards(tmp_path / "cards.json", CARDS)
    assert (tmp_path / "cards.json").read_text().count("averaging") == 1


def test_two_cards_of_one_metric_stay_apart(tmp_path):
    other = MetricCard("mse", {"not available": "no weights"})
    write_cards(tmp_path / "cards.json", {"a/b": (MSE,), "a/c": (other,)})
    assert Published.load(tmp_path).cards == {"a/b": (MSE,), "a/c": (other,)}


def test_where_nothing_was_published_nothing_is_known(tmp_path):
    assert Published.load(tmp_path) == Published({}, {})


def test_a_damaged_file_is_refused(tmp_path):
    write_costs(tmp_path / "costs.csv", COSTS)
    text = (tmp_path / "costs.csv").read_text()
    (tmp_path / "costs.csv").write_text(text.replace("3725.5", "long"))
    with pytest.raises(UserError, match=r"costs\.csv, line 2"):
        Published.load(tmp_path)
    (tmp_path / "costs.csv").unlink()
    (tmp_path / "cards.json").write_text('{"cards": [], "items": {"a/b": [4]}}')
    with pytest.raises(UserError, match=r"cards\.json"):
        Published.load(tmp_path)
