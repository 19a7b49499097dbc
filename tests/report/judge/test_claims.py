import csv
import json
import re
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from leaklab.records import plugins
from leaklab.records.errors import UserError
from leaklab.report.judge.claims import (
    Claim,
    Frequency,
    Verdict,
    frequency_over_draws,
    judge,
    judge_all,
    read_claims,
    write_verdicts,
)
from leaklab.report.judge.tolerances import StandIns, Tolerances
from leaklab.report.numbers.results import ResultRow, ResultTable

PAPERS = Path(__file__).parents[3] / "config" / "papers"
NOTHING = ResultTable()


@pytest.fixture(scope="module")
def printed():
    return ResultTable.read_printed(PAPERS / "targets.csv")


@pytest.fixture(scope="module")
def claims():
    return read_claims(PAPERS / "claims.csv")


def test_the_printed_tables_decide_39_claims_and_contradict_two(claims, printed):
    verdicts = {verdict.id: verdict.verdict for verdict in judge_all(claims, printed, printed)}
    decided = {name: verdict for name, verdict in verdicts.items() if verdict != "not testable"}
    assert len(verdicts) == 87
    assert len(decided) == 39
    assert {name for name, verdict in decided.items() if verdict == "not reproduced"} == {"HYP-04", "HYP-09"}


def test_the_catalogue_says_the_same_about_print(claims, printed):
    for claim, verdict in zip(claims, judge_all(claims, printed, printed), strict=True):
        said = {"reproduced": "satisfies the check", "not reproduced": "does not satisfy the check"}
        assert claim.paper_numbers.endswith(said.get(verdict.verdict, "")), claim.id
        assert ("the check" in claim.paper_numbers) == (verdict.verdict != "not testable"), claim.id


def test_the_check_per_draw_agrees_with_the_check_on_print(claims, printed):
    corners = {0.005, 0.02}
    draw = ResultTable(
        tuple(
            replace(row, variant="partition-seed=0")
            for row in printed.select("lrp", "table1").rows
            if row.row["model"] != "cnn" or {row.row["eta1"], row.row["eta2"]} <= corners
        )
    )
    with_check = [claim for claim in claims if claim.check_per_draw]
    assert [claim.id for claim in with_check] == ["LRP-01", "LRP-02", "LRP-03"]
    for claim in with_check:
        assert frequency_over_draws(claim, draw) == Frequency(1, 1)


def test_the_spelling_is_one(claims, printed):
    text = " ".join([PAPERS.joinpath(name).read_text() for name in ("claims.csv", "targets.csv")])
    assert "defence" not in text
    assert "'fig" not in text.replace("'figure", "")


CLAIM = Claim("X-01", "lrp", "table1", "a beats b", "T('table1','acc',m='a')>T('table1','acc',m='b')",
              "T('table1','acc',m='a')>T('table1','acc',m='b')")  # fmt: skip


def rows(a, b, **more):
    values = (("a", a), ("b", b))
    return ResultTable(tuple(ResultRow("lrp", "table1", {"m": m}, "acc", value, **more) for m, value in values))


def test_a_verdict_carries_its_numbers():
    verdict = judge(CLAIM, rows(2.0, 1.0), NOTHING)
    assert verdict.verdict == "reproduced"
    assert [(fact.item, fact.row, fact.metric, fact.value) for fact in verdict.evidence] == [
        ("table1", {"m": "a"}, "acc", 2.0),
        ("table1", {"m": "b"}, "acc", 1.0),
    ]


def test_a_claim_that_fails_says_where():
    verdict = judge(CLAIM, rows(1.0, 2.0), NOTHING)
    assert verdict.verdict == "not reproduced"
    assert "(with 1, 2)" in verdict.reason


def test_a_missing_row_is_not_testable_and_named():
    verdict = judge(CLAIM, ResultTable(rows(1.0, 2.0).rows[:1]), NOTHING)
    assert verdict.verdict == "not testable"
    assert '{"m": "b"}' in verdict.reason


def test_another_papers_rows_are_not_seen():
    other = ResultTable(tuple(replace(row, paper="outpost") for row in rows(2.0, 1.0).rows))
    assert judge(CLAIM, other, NOTHING).verdict == "not testable"


def test_a_claim_on_stand_ins_says_so():
    verdict = judge(CLAIM, rows(2.0, 1.0, substitutes=("small generator",)), NOTHING)
    assert verdict.substitutes == ("small generator",)
    assert "stand-ins: small generator" in verdict.reason


def test_the_evidence_of_a_curve_is_its_mean():
    points = tuple(ResultRow("lrp", "table1", {"m": "a", "index": i}, "loss", float(i)) for i in range(9))
    claim = replace(CLAIM, check="S('table1','loss',m='a')[-1]>S('table1','loss',m='a')[0]")
    (fact,) = judge(claim, ResultTable(points), NOTHING).evidence
    assert (fact.row, fact.metric, fact.value) == ({"m": "a"}, "loss, mean of 9 points", 4)
    assert len(judge(claim, ResultTable(points[:8]), NOTHING).evidence) == 8


class TestStandIns:
    OTHER = StandIns(metrics={"acc": "loss"})
    THERE = ResultTable(tuple(replace(row, metric="loss") for row in rows(2.0, 1.0).rows))

    def test_a_claim_is_judged_on_another_metric_where_its_own_has_no_number(self):
        empty = tuple(replace(row, value=None, note="not available: weights") for row in rows(1.0, 2.0).rows)
        for own in ((), empty):
            verdict = judge(CLAIM, ResultTable((*self.THERE.rows, *own)), NOTHING, self.OTHER)
            assert verdict.verdict == "reproduced"
            assert verdict.substitutes == ("loss in place of acc",)
            assert {fact.metric for fact in verdict.evidence} == {"loss"}

    def test_its_own_numbers_go_first(self):
        both = ResultTable((*self.THERE.rows, *rows(1.0, 2.0).rows))
        assert judge(CLAIM, both, NOTHING, self.OTHER).verdict == "not reproduced"

    def test_a_claim_with_a_threshold_waits(self):
        waiting = StandIns(metrics={"acc": "loss"}, not_for=("X-01",))
        assert judge(CLAIM, self.THERE, NOTHING, waiting).verdict == "not testable"

    def test_the_declared_ones_name_metrics_and_claims_that_exist(self, claims):
        declared = Tolerances.load(PAPERS / "tolerances.yaml").stand_ins
        assert set(declared.not_for) <= {claim.id for claim in claims}
        for claim in claims:
            if claim.id in declared.not_for:
                assert re.search(r"[<>]=?0?\.\d", claim.check)
        for name in (*declared.metrics, *declared.metrics.values()):
            plugins.check("metrics", name.replace("_", "-"), {})


def test_numbers_that_do_not_allow_the_check_are_not_testable():
    claim = replace(CLAIM, check="slope(log([T('table1','acc',m='a'),1]),[0,1])<0")
    verdict = judge(claim, rows(-2.0, 1.0), NOTHING)
    assert verdict.verdict == "not testable"
    assert "do not allow" in verdict.reason


def test_frequency_over_the_draws():
    draws = [rows(2.0, 1.0, variant="partition-seed=0"), rows(1.0, 2.0, variant="partition-seed=1"),
             rows(3.0, 2.0, variant="partition-seed=10")]  # fmt: skip
    half = ResultTable(rows(3.0, 2.0, variant="partition-seed=2").rows[:1])
    results = sum(draws, rows(5.0, 1.0)) + half
    frequency = judge(CLAIM, results, NOTHING).frequency
    assert frequency == Frequency(2, 3, ("partition-seed=1",), ("partition-seed=2",))
    assert str(frequency) == (
        "holds in 2 of 3 partition draws; fails for partition seed 1; cannot be tested for partition seed 2"
    )


def test_without_draws_there_is_no_frequency():
    assert judge(CLAIM, rows(2.0, 1.0), NOTHING).frequency is None


class TestTheAttackerWhoKnowsTheDefense:
    def results(self, adaptive):
        """Rows a and b of the paper's attacker, and b again as an adaptive attacker makes it."""
        own = rows(2.0, 1.0, attacker="as-printed")
        stronger = replace(own.rows[1], value=adaptive, attacker="adaptive", row={"m": "b", "transform": "profiled"})
        beaten = replace(stronger, value=-9.0, row={**stronger.row, "selection": "transform other"})
        return ResultTable((*own.rows, beaten, stronger))

    def test_a_claim_is_judged_on_the_worst_case_too(self):
        verdict = judge(CLAIM, self.results(3.0), NOTHING)
        assert verdict.verdict == "reproduced"
        assert verdict.adaptive.verdict == "not reproduced"
        assert "(with 2, 3)" in verdict.adaptive.reason
        assert [(fact.value, fact.attacker) for fact in verdict.adaptive.evidence] == [
            (2.0, "as-printed"),
            (3.0, "adaptive"),
        ]
        assert judge(CLAIM, self.results(0.5), NOTHING).adaptive.verdict == "reproduced"

    def test_without_such_numbers_there_is_no_second_verdict(self):
        assert judge(CLAIM, rows(2.0, 1.0, attacker="as-printed"), NOTHING).adaptive is None

    def test_it_survives_json_and_the_table(self, tmp_path):
        verdict = judge(CLAIM, self.results(3.0), NOTHING)
        assert Verdict.from_json(json.loads(json.dumps(asdict(verdict)))) == verdict
        write_verdicts(tmp_path / "c.csv", [CLAIM], [verdict])
        with (tmp_path / "c.csv").open(newline="") as handle:
            (line,) = csv.DictReader(handle)
        assert line["adaptive_verdict"] == "not reproduced"


def test_verdicts_survive_json_and_are_written_one_per_line(tmp_path):
    verdict = judge(CLAIM, rows(2.0, 1.0) + rows(2.0, 1.0, variant="partition-seed=0"), NOTHING)
    assert Verdict.from_json(json.loads(json.dumps(asdict(verdict)))) == verdict
    write_verdicts(tmp_path / "c.csv", [CLAIM], [verdict])
    with (tmp_path / "c.csv").open(newline="") as handle:
        (line,) = csv.DictReader(handle)
    assert (line["id"], line["verdict"], line["holds"], line["draws"]) == ("X-01", "reproduced", "1", "1")
    assert json.loads(line["evidence"])[0] == ["table1", {"m": "a"}, "acc", 2.0]


def test_a_claim_that_asks_for_more_is_refused_when_read(tmp_path):
    text = "id,paper,item,statement,check,check_per_draw,paper_numbers\nX-09,lrp,table1,s,__import__('os'),,\n"
    (tmp_path / "claims.csv").write_text(text)
    with pytest.raises(UserError, match="claim X-09"):
        read_claims(tmp_path / "claims.csv")
    (tmp_path / "claims.csv").write_text("id,paper\n")
    with pytest.raises(UserError, match="no column item"):
        read_claims(tmp_path / "claims.csv")


NOT_HERE = "not run: data not here"


@pytest.fixture(scope="module")
def partly(claims, printed):
    """Verdicts on the printed numbers of two tables, without the data sets that are not at hand."""
    gone = ("cifar100", "imagenet", "femnist")
    rows = [
        replace(row, value=None, std=None, n=0, note=NOT_HERE) if row.row["dataset"] in gone else row
        for item in ("table2", "table6")
        for row in printed.select("lrp", item).rows
    ]
    return {verdict.id: verdict for verdict in judge_all(claims, ResultTable(tuple(rows)), printed)}


@pytest.mark.parametrize(
    ("claim", "holds", "numbers"),
    [("LRP-07", "mnist, cifar10", 10), ("LRP-10", "dataset mnist, x=0.07; dataset cifar10, x=0.29", 4)],
)
def test_a_claim_on_partly_absent_data_names_what_holds_and_what_could_not_be_tested(partly, claim, holds, numbers):
    verdict = partly[claim]
    last = "cifar100" if claim == "LRP-07" else "dataset cifar100"
    assert verdict.verdict == "not testable"
    assert verdict.reason == f"holds for {holds}; not testable for {last}: {NOT_HERE}"
    assert len(verdict.evidence) == numbers


def test_a_claim_that_needs_nothing_absent_is_decided_and_one_that_needs_only_that_is_not(partly):
    assert partly["LRP-08"].verdict == "reproduced"
    for name in ("LRP-09", "LRP-11"):
        assert (partly[name].verdict, partly[name].evidence) == ("not testable", ())
        assert NOT_HERE in partly[name].reason
    assert "dataset mnist" in partly["LRP-14"].reason
    assert partly["LRP-14"].verdict == "not testable"


def test_a_case_that_fails_decides_beside_absent_ones(printed):
    rows = [
        replace(
            row,
            value=None if row.row["dataset"] == "cifar100" else 50.0 if row.row["method"] == "lrp" else 60.0,
            note=NOT_HERE,
        )
        for row in printed.select("lrp", "table2").rows
    ]
    check = "all(x>=0 for d,x in D('table2','test_accuracy','method','vanilla','lrp',setting='iid'))"
    verdict = judge(Claim("X-01", "lrp", "table2", "s", check), ResultTable(tuple(rows)), printed)
    assert verdict.verdict == "not reproduced"
    assert verdict.reason == (
        f"the check fails: dataset mnist, x=-10; dataset cifar10, x=-10; not testable for dataset cifar100: {NOT_HERE}"
    )
