"""What stands under every figure, so that a picture that was lifted out of its page still says what it shows."""

from pathlib import Path

from leaklab.items.items import load_items
from leaklab.report.figures.drawings import foot_of
from leaklab.report.numbers.results import ResultRow, ResultTable

ITEMS = load_items(Path(__file__).parents[3] / "config/items")
ITEM = ITEMS["lrp/table2"]


def results(*substitutes):
    return ResultTable((ResultRow("lrp", "table2", {}, "test_accuracy", 1.0, substitutes=substitutes),))


def test_the_foot_names_each_stand_in_and_what_the_scale_changed():
    foot = foot_of(ITEM, "small", results("resnet-small in place of resnet-18", "reduced setting of scale small"))
    assert foot.startswith("Stand-ins: resnet-small in place of resnet-18. Scale small: ")
    assert ITEM.scales["small"].note.rstrip(".") in foot
    assert "reduced setting" not in foot


def test_the_foot_does_not_say_again_what_a_table_said_of_its_columns():
    stood = results("a in place of b", "c in place of d")
    foot = foot_of(ITEM, "small", stood, ["EMNIST: a in place of b; 3 seeds"])
    assert foot.startswith("Stand-ins: c in place of d. Scale small: ")
    assert foot_of(ITEM, "small", stood, ["EMNIST: a in place of b; c in place of d"]).startswith("Scale small: ")


def counted(item, metric, **fields):
    rows = (
        ResultRow("lrp", "x", {}, metric, 1.0, **fields),
        ResultRow("lrp", "x", {"image": 3}, "mse", 1.0, clusters=1, n=1, attacker=fields.get("attacker", "")),
        ResultRow("lrp", "x", {}, metric, None, n=0, clusters=0),
    )
    return foot_of(ITEMS[f"lrp/{item}"], "paper", ResultTable(rows))


def test_curves_say_how_many_seeds_and_pictures_how_many_updates():
    assert counted("figure5", "train_loss", n=3, clusters=3, better="lower") == "Behind a number: 3 seeds."
    assert counted("figure3", "mse_median", n=20, clusters=20, attacker="paper") == "Pictures: the first of 20 updates."
    many = counted("figure6", "mse_median", n=8, clusters=2, attacker="paper")
    assert many == "Pictures: the first of 8 values of 2 updates."


def test_what_is_as_printed_has_no_foot():
    assert foot_of(ITEM, "paper", results()) == foot_of(ITEM, "small", results()) == ""
