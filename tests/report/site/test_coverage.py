"""Coverage: what a row of the papers says is checked, and whether it is whole is found out."""

from types import SimpleNamespace

import pytest
import yaml

from leaklab.items.items import ScaleChange, load_items
from leaklab.records.errors import UserError
from leaklab.report.judge.claims import Claim
from leaklab.report.judge.comparison import Comparison
from leaklab.report.judge.verdicts import Judgement, Verdict
from leaklab.report.numbers.words import NONE
from leaklab.report.site.coverage import Coverage, load_coverage
from leaklab.report.site.coverage_page import coverage_page
from leaklab.report.site.covered import Here, covered
from leaklab.report.site.pages import ItemPage, JudgedClaim, PaperPages

ITEM, OTHER = "lrp/table2", "lrp/figure8"
NOT_HERE = "not run: data not here: ImageNet"


def row(**changes):
    return {"what": "a table", "place": "table 2", "where": [ITEM], **changes}


def loaded(tmp_path, rows=(), kind="table", paper="lrp", **rest):
    path = tmp_path / "coverage.yaml"
    path.write_text(yaml.safe_dump({"rows": {paper: {kind: list(rows)}}, **rest}), encoding="utf-8")
    return load_coverage(load_items(), path)


def test_a_row_is_read(tmp_path):
    found = loaded(tmp_path, [row(cells={"dataset": ["mnist", "cifar10"]})])
    ((paper, kind, one),) = found
    assert (paper, kind, one.where, one.cells) == ("lrp", "table", (ITEM,), {"dataset": ("mnist", "cifar10")})


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"where": []}, "a row that is nowhere lacks everything: say why"),
        ({"lacks": "a column"}, "say why it lacks that"),
        ({"lacks": "a column", "why": "hours"}, "as_long_as"),
        ({"as_long_as": {ITEM: "x"}}, "say what"),
        ({"place": "line 96"}, "place"),
        ({"place": "table 2: 96"}, "place"),
        ({"what": ""}, "what"),
        ({"wher": [ITEM]}, "rows.lrp.table.0.wher: unknown key; known keys are as_long_as, cells"),
        ({"where": ["lrp/table99"]}, "lrp, table, a table: there is no lrp/table99"),
        ({"where": ["defenses/armour"]}, "lrp, table, a table: unknown defenses plug-in 'armour'"),
        ({"where": ["datasets/moon"]}, "lrp, table, a table: unknown dataset 'moon'"),
        ({"where": ["texts/moon"]}, "lrp, table, a table: unknown text data set 'moon'"),
        ({"where": ["table2"]}, "there is no table2"),
    ],
)
def test_a_bad_row_is_refused_in_one_line(tmp_path, changes, said):
    with pytest.raises(UserError) as refused:
        loaded(tmp_path, [row(**changes)])
    assert said in str(refused.value)
    assert str(refused.value).startswith(f"{tmp_path / 'coverage.yaml'}: ")
    assert "\n" not in str(refused.value)


def test_what_stands_twice_or_belongs_nowhere_is_refused(tmp_path):
    with pytest.raises(UserError, match="lrp, table: a table stands 2 times"):
        loaded(tmp_path, [row(), row()])
    with pytest.raises(UserError, match="there is no paper dlg: choose from hyperfl, lrp, outpost"):
        loaded(tmp_path, [row()], paper="dlg")
    with pytest.raises(UserError, match=r"rows\.lrp\.chapter"):
        loaded(tmp_path, [row()], kind="chapter")
    with pytest.raises(UserError, match="house: unknown attacks plug-in 'sword'"):
        loaded(tmp_path, [row()], house={"attacks": ["sword"]})


def test_everything_named_is_one_set(tmp_path):
    found = loaded(tmp_path, [row(where=[ITEM, "defenses/lrp"])], house={"items": [OTHER], "attacks": ["dlg"]})
    assert found.named == {ITEM, "defenses/lrp", OTHER, "attacks/dlg"}


# Whether a row is whole: two items at all scales, of which OTHER has no printed numbers.


def printed(value, reason="", **keys):
    return Comparison("lrp", "table2", keys, "test_accuracy", 90.0, value=value, reason=reason)


def here(comparisons=(), changes=None, state="done", uses=(), substitutes=()):
    items = {
        key: item.model_copy(update={"scales": {s: ScaleChange(**(changes or {}).get(s, {})) for s in item.scales}})
        for key, item in load_items().items()
        if key in (ITEM, OTHER)
    }
    claim = JudgedClaim(
        Claim("LRP-07", "lrp", "table2", "It costs little.", "1<2"), Verdict("LRP-07", Judgement("undecided"))
    )
    pages = {
        ITEM: ItemPage("lrp", "table2", "t", state, "make it", comparisons=tuple(comparisons), claims=(claim,),
                       substitutes=tuple(substitutes)),
        OTHER: ItemPage("lrp", "figure8", "f", "done"),
    }  # fmt: skip
    jobs = {
        (scale, ITEM): [SimpleNamespace(dataset=data, spec=SimpleNamespace(executed_plugins=lambda own=parts: own))]
        for scale, data, parts in uses
    }
    runs = {(scale, key): [] for scale in ("demo", "small", "paper") for key in items}
    plan = SimpleNamespace(items=items, runs=runs, jobs_of=lambda scale, item: jobs.get((scale, item.key), []))
    return Here("small", pages, plan)


def one(kind="table", at=None, **changes):
    coverage = Coverage.model_validate({"rows": {"lrp": {kind: [row(**changes)]}}})
    (found,) = covered(coverage, at or here())
    return found


def test_a_row_without_lack_is_whole():
    found = one(at=here([printed(91.0, dataset="mnist")]))
    assert (found.status, found.measured, len(found.printed), found.gaps) == ("whole", 1, 1, ())
    assert found.scales == {"demo": "●", "small": "●", "paper": "●"}
    assert [judged.claim.id for judged in found.claims] == ["LRP-07"]
    assert found.doubt == ""


def test_a_printed_number_without_value_takes_the_whole_away():
    numbers = [printed(91.0, dataset="mnist"), printed(None, NOT_HERE, dataset="imagenet")]
    found = one(at=here(numbers))
    assert (found.status, found.measured, len(found.printed)) == ("in part", 1, 2)
    assert found.gaps == (f"{NOT_HERE} (1 number: dataset imagenet)",)
    assert one(at=here(numbers), cells={"dataset": "mnist"}).status == "whole"
    assert one(at=here(numbers), cells={"dataset": ["mnist", "imagenet"]}).status == "in part"
    assert one(at=here(numbers), cells={"metric": "psnr"}).printed == ()


def test_numbers_of_an_item_are_those_of_a_setting_only_where_it_asks_for_them():
    at = here([printed(None, NOT_HERE, dataset="imagenet")])
    assert one("setting", at).status == "whole"
    assert one("data set", at, where=["datasets/imagenet"], cells={"dataset": "imagenet"}).measured == 0
    assert one("data set", at, where=["datasets/imagenet"], cells={"dataset": "imagenet"}).status == "in part"


def test_what_is_said_to_lack_takes_the_whole_away():
    found = one(lacks="a column", why="hours", as_long_as={ITEM: "paper: lrp item: table2"})
    assert (found.status, found.gaps, found.doubt) == ("in part", (), "")


def test_what_is_nowhere_is_missing():
    found = one(where=[], why="not written")
    assert (found.status, found.scales, found.printed, found.gaps) == ("missing", {}, (), ())


@pytest.mark.parametrize(
    ("scale", "change", "said"),
    [
        ("small", {"absent": {"b": "data not here: moon"}}, "table2 at small: data not here: moon"),
        ("small", {"missing": {"moon": "data not here: moon"}}, "table2 at small: data not here: moon"),
        ("paper", {"absent": {"b": "weights not here: moon"}}, "table2 at paper: weights not here: moon"),
    ],
)
def test_runs_that_are_left_out_take_the_whole_away_of_what_is_printed(scale, change, said):
    at = here(changes={scale: change})
    found = one(at=at)
    assert (found.status, found.gaps, found.scales[scale]) == ("in part", (said,), "◐")
    assert one("setting", at).status == "whole"
    assert one(at=here(changes={"demo": change})).status == "whole"


def test_a_reason_is_said_once():
    at = here([printed(None, f"not run: {NOT_HERE}", dataset="moon")], {"small": {"absent": {"b": NOT_HERE}}})
    assert len(one(at=at).gaps) == 1


def test_an_item_that_is_not_made_takes_the_whole_away_of_every_kind():
    at = here(state="not run")
    for kind in ("table", "setting"):
        found = one(kind, at)
        assert (found.status, found.gaps, found.scales["small"]) == (
            "in part",
            ("table2 is not made at small: make it",),
            NONE,
        )


def test_apart_is_seen():
    assert one(at=here(changes={"demo": {"apart": True}})).scales == {"demo": "○", "small": "●", "paper": "●"}
    assert one(where=[ITEM, OTHER], at=here(state="not run")).scales["small"] == "◐"


def test_a_plugin_is_counted_by_the_items_that_use_it():
    uses = [
        ("small", "mnist", [("defenses", "lrp")]),
        ("paper", "text/cola", [("defenses", "lrp"), ("defenses", "bsp")]),
    ]
    at = here(uses=uses)
    found = one("defense", at, where=["defenses/lrp"])
    assert (found.status, found.scales) == ("whole", {"demo": NONE, "small": "1", "paper": "1"})
    found = one("defense", at, where=["defenses/lrp", "defenses/bsp"])
    assert (found.status, found.gaps) == ("in part", ("defenses/bsp runs at scale paper only",))
    assert one("data set", at, where=["datasets/mnist"]).status == "whole"
    assert one("data set", at, where=["texts/cola"]).gaps == ("texts/cola runs at scale paper only",)
    assert one("attack", at, where=["attacks/dlg"]).gaps == ("no item uses attacks/dlg",)


def test_stand_ins_are_those_of_items_and_those_for_a_plugin_or_data_set():
    said = ["cifar10 in place of cifar100", "resnet-small in place of resnet-18, resnet-152", "a smaller thing",
            "LFW subset: 20 people x 39 images instead of 5,749 people and 13,233 images"]  # fmt: skip
    at = here(substitutes=said)
    assert one(at=at).stand_ins == tuple(said)
    assert one("setting", at).stand_ins == ()
    assert one("network", at, where=["models/resnet-152"]).stand_ins == (said[1],)
    assert one("data set", at, where=["datasets/cifar100"]).stand_ins == (said[0],)
    assert one("data set", at, where=["datasets/cifar10"]).stand_ins == ()
    assert one("data set", at, where=["datasets/lfw"]).stand_ins == (said[3],)


def test_words_that_fit_no_more_are_doubted(tmp_path):
    file = tmp_path / "some.txt"
    file.write_text("two draws\n  of the rates")
    lacks = {"lacks": "four of six", "why": "minutes"}
    assert one(**lacks, as_long_as={str(file): "two draws of the rates"}).doubt == ""
    assert "no longer says 'six draws'" in one(**lacks, as_long_as={str(file): ["two draws", "six draws"]}).doubt
    assert one(**lacks, until={str(file): "six draws"}).doubt == ""
    assert "now says 'two draws'" in one(**lacks, until={str(file): "two draws"}).doubt
    assert "now says 'two draws'" in one(where=[], why="not written", until={str(file): "two draws"}).doubt
    assert "no longer" in one(**lacks, as_long_as={"lrp/table99": "x"}).doubt


def test_a_reason_without_a_lack_is_doubted():
    assert "take its 'why' away" in one(why="hours").doubt
    assert one(at=here([printed(None, NOT_HERE)]), why="hours").doubt == ""


def test_an_item_that_is_not_made_is_linked_to_its_settings():
    coverage = Coverage.model_validate({"rows": {"lrp": {"table": [row()]}}})
    at = here(state="not run")
    papers = [PaperPages("lrp", "LRP's title", tuple(at.pages.values()))]
    page = coverage_page(covered(coverage, at), coverage, papers, at)
    assert "[table2](../config/items/lrp/table2.yaml)" in page
    assert "table2.png" not in page


def test_the_page_counts_and_drops_empty_columns():
    coverage = Coverage.model_validate({
        "rows": {"lrp": {"table": [row(), row(what="another", where=[], why="not written")],
                         "data set": [row(what="moon", where=["datasets/mnist"])]}},
        "house": {"attacks": ["dlg"]},
        "statements": {"lrp": [{"place": "section 6", "says": "Guessing is slow.", "needs": "a clock"}]},
    })  # fmt: skip
    at = here(uses=[("small", "mnist", [])], substitutes=["cheese in place of moon", "reduced setting of scale small"])
    papers = [PaperPages("lrp", "LRP's title", tuple(at.pages.values()))]
    page = coverage_page(covered(coverage, at), coverage, papers, at)
    assert "| LRP's title | 3 | 2 | 1 | 0 | 1 |\n| all | 3 | 2 | 1 | 0 | 1 |" in page
    assert (
        "| a table | table 2 | [table2](../figures/small/lrp/table2.png) | ● | ● | ● | ≈ LRP-07 | 1, r | whole |  |"
        in page
    )
    assert f"| another | table 2 |  | {NONE} | {NONE} | {NONE} |  |  | missing | Why: not written |" in page
    assert "### lrp: data sets\n\n| what | place | where | d | s | p | status |\n" in page
    assert f"| moon | table 2 | [datasets/mnist](../config/datasets.yaml) | {NONE} | 1 | {NONE} | whole |" in page
    assert "| section 6 | Guessing is slow. | a clock |" in page
    assert "* attacks: `dlg`" in page
    assert page.endswith("## Stand-ins\n\n1. cheese in place of moon\n")
