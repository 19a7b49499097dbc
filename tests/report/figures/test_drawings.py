"""What stands under every figure, so that a picture that was lifted out of its page still says what it shows."""

from pathlib import Path

from leaklab.records.items import load_items
from leaklab.report.figures.drawings import foot_of
from leaklab.report.numbers.results import ResultRow, ResultTable

ITEM = load_items(Path(__file__).parents[3] / "config/items")["lrp/table2"]


def results(*substitutes):
    return ResultTable((ResultRow("lrp", "table2", {}, "test_accuracy", 1.0, substitutes=substitutes),))


def test_the_foot_names_each_stand_in_and_what_the_scale_changed():
    foot = foot_of(ITEM, "small", results("resnet-small in place of resnet-18", "reduced setting of scale small"))
    assert foot.startswith("Stand-ins: resnet-small in place of resnet-18. Scale small: ")
    assert ITEM.scales["small"].note.rstrip(".") in foot
    assert "reduced setting" not in foot


def test_what_is_as_printed_has_no_foot():
    assert foot_of(ITEM, "paper", results()) == foot_of(ITEM, "small", results()) == ""
