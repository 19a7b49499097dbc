import csv
import json
import math
import re
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from leaklab.records import plugins
from leaklab.report.judge.claims import Claim, read_claims
from leaklab.report.judge.draws import frequency_over_draws
from leaklab.report.judge.judging import INSIDE, NOTHING_ABOUT_THE_PAPER, judge, judge_all
from leaklab.report.judge.tolerances import StandIns, Tolerances
from leaklab.report.judge.verdicts import Frequency, Sides, Verdict, write_verdicts
from leaklab.report.numbers.results import ResultRow, ResultTable

PAPERS = Path(__file__).parents[3] / "config" / "papers"
NOTHING = ResultTable()


@pytest.fixture(scope="module")
def printed():
    return ResultTable.read_printed(PAPERS / "targets.csv")


@pytest.fixture(scope="module")
def claims():
    return read_claims(PAPERS / "claims.csv")


@pytest.fixture(scope="module")
def on_print(claims, printed):
    """What the printed tables say of the checks alone: print has no undefended attack that a premise could ask for."""
    checks = [replace(claim, premise="") for claim in claims]
    return {verdict.id: verdict.verdict for verdict in judge_all(checks, printed, printed)}


def test_the_printed_tables_decide_47_claims_and_contradict_three(on_print):
    decided = {name: verdict for name, verdict in on_print.items() if verdict != "not run"}
    assert len(on_print) == 153
    assert len(decided) == 47
    assert {name for name, verdict in decided.items() if verdict != "reproduced"} == {"HYP-04", "HYP-09", "OUT-45"}
    assert {on_print[name] for name in ("HYP-04", "HYP-09", "OUT-45")} == {"not reproduced"}


def test_the_catalogue_says_the_same_about_print(claims, on_print):
    for claim in claims:
        said = {"reproduced": "satisfies the check", "not reproduced": "does not satisfy the check"}
        assert claim.paper_numbers.endswith(said.get(on_print[claim.id], "")), claim.id
        assert ("the check" in claim.paper_numbers) == (on_print[claim.id] != "not run"), claim.id


def test_the_check_per_draw_agrees_with_the_check_on_print(claims, printed):
    corners = {0.005, 0.02}
    draw = ResultTable(
        tuple(
            replace(row, variant="partition-seed=0")
            for item in ("table1", "table5")
            for row in printed.select("lrp", item).rows
            if row.row["model"] != "cnn" or {row.row["eta1"], row.row["eta2"]} <= corners
        )
    )
    with_check = [claim for claim in claims if claim.draw_check]
    assert [claim.id for claim in with_check] == [f"LRP-0{number}" for number in range(1, 7)]
    for claim in with_check:
        assert frequency_over_draws(claim, draw) == Frequency(1, 1, tie=claim.tie), claim.id


CLAIM = Claim("X-01", "lrp", "table1", "a beats b", "T('table1','acc',m='a')>T('table1','acc',m='b')",
              sentence="accuracy of a, against b [%]", check_per_draw="same")  # fmt: skip


def rows(a, b, **more):
    values = (("a", a), ("b", b))
    return ResultTable(tuple(ResultRow("lrp", "table1", {"m": m}, "acc", value, **more) for m, value in values))


def judged(results, claim=CLAIM, **more):
    return judge(claim, results, NOTHING, **more)


def test_a_verdict_carries_its_numbers():
    verdict = judged(rows(2.0, 1.0))
    assert verdict.verdict == "reproduced"
    assert [(fact.item, fact.row, fact.metric, fact.value) for fact in verdict.judgement.evidence] == [
        ("table1", {"m": "a"}, "acc", 2.0),
        ("table1", {"m": "b"}, "acc", 1.0),
    ]


def test_the_line_says_what_was_needed_what_was_found_and_the_margin():
    verdict = judged(rows(1.0, 2.0))
    assert verdict.verdict == "not reproduced"
    assert verdict.judgement.sentence == "accuracy of a, against b: needed: above 2 %; found: 1 %; margin: -1 point"
    assert verdict.judgement.sides == Sides("above", 2.0, 1.0, -1.0, -1.0, -1.0)


def test_a_share_is_told_in_percent():
    claim = replace(CLAIM, check="T('table1','acc',m='a')<=0.7*T('table1','acc',m='b')", sentence="words found [share]")
    line = judged(rows(1.0, 0.7437), claim).judgement.sentence
    assert line == "words found: needed: at most 52.1 %; found: 100 %; margin: -47.94 points"


class TestIntervals:
    """One difference, ever better known."""

    def word(self, reach, a=2.0, b=1.0, **more):
        cells = [replace(row, ci_low=row.value - reach, ci_high=row.value + reach) for row in rows(a, b, **more).rows]
        return judged(ResultTable(tuple(cells)))

    def test_intervals_that_overlap_decide_nothing(self):
        verdict = self.word(0.6, n=3)
        assert verdict.verdict == "undecided"
        assert verdict.judgement.reason == INSIDE
        assert "margin: 1 point (interval -0.2 to 2.2)" in verdict.judgement.sentence
        assert self.word(0.6, 1.0, 2.0, n=3).verdict == "undecided"

    def test_intervals_apart_decide(self):
        assert self.word(0.4, n=3).verdict == "reproduced"
        assert self.word(0.4, 1.0, 2.0, n=3).verdict == "not reproduced"

    def test_one_seed_decides_nothing_however_large_the_difference(self):
        for a, b in ((99.0, 1.0), (1.0, 99.0)):
            verdict = self.word(0.1, a, b, n=1)
            assert verdict.verdict == "undecided"
            assert verdict.judgement.reason == "table1: one seed"

    @pytest.mark.parametrize(("images", "word"), [(5, "undecided"), (6, "reproduced")])
    def test_fewer_than_six_updates_decide_nothing(self, images, word):
        more = {"attacker": "paper", "n": 40, "clusters": images}
        cells = [replace(row, **more, ci_low=row.value, ci_high=row.value) for row in rows(2.0, 1.0).rows]
        assert judged(ResultTable(tuple(cells))).verdict == word

    def test_one_surely_false_case_decides_beside_doubtful_ones(self):
        third = replace(rows(1.5, 1.0).rows[0], row={"m": "c"}, n=1)
        claim = replace(CLAIM, check="all(T('table1','acc',m=m)>1.4 for m in ('a','b','c'))")
        verdict = judged(ResultTable((*rows(2.0, 1.0).rows, third)), claim)
        assert (verdict.verdict, verdict.judgement.reason) == (
            "not reproduced", "the check fails for b (found 1 %, needed above 1.4 %); holds for a, c",
        )  # fmt: skip


class TestPremise:
    CLAIM = replace(CLAIM, premise="T('table1','acc',m='b')>=1.5", premise_sentence="accuracy of b [%]")

    def test_without_its_premise_a_claim_has_no_verdict(self):
        verdict = judged(rows(2.0, 1.0), self.CLAIM)
        assert verdict.verdict == "no premise"
        assert verdict.judgement.sentence == "accuracy of b: needed: at least 1.5 %; found: 1 %; margin: -0.5 points"
        assert verdict.judgement.reason == "the premise fails"
        assert judged(rows(0.5, 1.0), self.CLAIM).verdict == "no premise"

    def test_with_it_the_check_decides(self):
        assert judged(rows(2.0, 1.6), self.CLAIM).verdict == "reproduced"
        assert judged(rows(1.0, 1.6), self.CLAIM).verdict == "not reproduced"

    def test_a_premise_in_doubt_leaves_the_claim_undecided(self):
        cells = [replace(row, n=3, ci_low=row.value - 0.2, ci_high=row.value + 0.2) for row in rows(9.0, 1.6).rows]
        verdict = judged(ResultTable(tuple(cells)), self.CLAIM)
        assert (verdict.verdict, verdict.judgement.reason) == ("undecided", "the premise lies inside its interval")

    def test_a_doubt_is_named_only_where_it_keeps_something_open(self):
        one_seed = tuple(replace(rows(9.0, 1.0).rows[0], row={"m": f"c{place}"}, n=1) for place in range(8))
        cells = [replace(row, n=3, ci_low=row.value - 0.2, ci_high=row.value + 0.2) for row in rows(9.0, 1.6).rows]
        names = tuple(f"c{place}" for place in range(8))
        claim = replace(self.CLAIM, check=f"share([T('table1','acc',m=m)>1.4 for m in {names}])>=0.5")
        verdict = judged(ResultTable((*cells, *one_seed)), claim)
        assert (verdict.verdict, verdict.judgement.reason) == ("undecided", "the premise lies inside its interval")
        claim = replace(claim, check="T('table1','acc',m='c0')>1.4")
        verdict = judged(ResultTable((*cells, *one_seed)), claim)
        assert verdict.judgement.reason == "table1: one seed; the premise lies inside its interval"

    def test_a_premise_that_was_not_run_is_not_run(self):
        claim = replace(self.CLAIM, premise="T('table1','acc',m='c')>=1.5")
        assert judged(rows(2.0, 1.0), claim).verdict == "not run"


def test_a_missing_row_is_not_run_and_named():
    verdict = judged(ResultTable(rows(1.0, 2.0).rows[:1]))
    assert verdict.verdict == "not run"
    assert '{"m": "b"}' in verdict.judgement.reason


def test_another_papers_rows_are_not_seen():
    other = ResultTable(tuple(replace(row, paper="outpost") for row in rows(2.0, 1.0).rows))
    assert judged(other).verdict == "not run"


def test_a_claim_on_stand_ins_says_so_in_its_own_line():
    verdict = judged(rows(2.0, 1.0, substitutes=("small generator",)))
    assert verdict.substitutes == ("small generator",)
    assert verdict.judgement.sentence.endswith("; on stand-ins: small generator")


def test_at_scale_demo_stand_ins_decide_nothing():
    for a, b in ((2.0, 1.0), (1.0, 2.0)):
        verdict = judged(rows(a, b, substitutes=("digits",)), scale="demo")
        assert verdict.verdict == "undecided"
        assert verdict.judgement.sentence.endswith(NOTHING_ABOUT_THE_PAPER)
        assert "found:" in verdict.judgement.sentence
    assert judged(rows(2.0, 1.0), scale="demo").verdict == "reproduced"


class TestCapped:
    """A cell that did not reach its goal counts as worse than all others."""

    CLAIM = replace(CLAIM, check="T('table1','rounds',m='a')<T('table1','rounds',m='b')")

    def results(self, **values):
        return ResultTable(
            tuple(
                ResultRow("lrp", "table1", {"m": m}, "rounds", value, better="lower", n=3, std=0.0, unit="rounds",
                          note="" if value else "capped: 3 of 3 runs did not get there")
                for m, value in values.items()
            )
        )  # fmt: skip

    def test_it_wins_nothing(self):
        verdict = judged(self.results(a=None, b=900.0), self.CLAIM)
        assert verdict.verdict == "not reproduced"
        assert "needed: below 900" in verdict.judgement.sentence
        assert "found: not reached" in verdict.judgement.sentence
        assert verdict.judgement.sides.found is None

    def test_all_others_win_over_it(self):
        assert judged(self.results(a=900.0, b=None), self.CLAIM).verdict == "reproduced"


def test_the_evidence_of_a_curve_is_its_mean():
    points = tuple(ResultRow("lrp", "table1", {"m": "a", "index": i}, "loss", float(i)) for i in range(9))
    claim = replace(CLAIM, check="S('table1','loss',m='a')[-1]>S('table1','loss',m='a')[0]", check_per_draw="")
    (fact,) = judged(ResultTable(points), claim).judgement.evidence
    assert (fact.row, fact.metric, fact.value) == ({"m": "a"}, "loss, mean of 9 points", 4)
    assert len(judged(ResultTable(points[:8]), claim).judgement.evidence) == 8


class TestStandIns:
    OTHER = StandIns(metrics={"acc": "loss"})
    THERE = ResultTable(tuple(replace(row, metric="loss") for row in rows(2.0, 1.0).rows))

    def test_a_claim_is_judged_on_another_metric_where_its_own_has_no_number(self):
        empty = tuple(replace(row, value=None, note="not available: weights") for row in rows(1.0, 2.0).rows)
        for own in ((), empty):
            verdict = judge(CLAIM, ResultTable((*self.THERE.rows, *own)), NOTHING, self.OTHER)
            assert verdict.verdict == "reproduced"
            assert verdict.substitutes == ("loss in place of acc",)
            assert {fact.metric for fact in verdict.judgement.evidence} == {"loss"}

    def test_its_own_numbers_go_first(self):
        both = ResultTable((*self.THERE.rows, *rows(1.0, 2.0).rows))
        assert judge(CLAIM, both, NOTHING, self.OTHER).verdict == "not reproduced"

    def test_a_claim_with_a_threshold_waits(self):
        waiting = StandIns(metrics={"acc": "loss"}, not_for=("X-01",))
        assert judge(CLAIM, self.THERE, NOTHING, waiting).verdict == "not run"

    def test_the_declared_ones_name_metrics_and_claims_that_exist(self, claims):
        declared = Tolerances.load(PAPERS / "tolerances.yaml").stand_ins
        assert set(declared.not_for) <= {claim.id for claim in claims}
        for claim in claims:
            if claim.id in declared.not_for:
                assert re.search(r"[<>]=?0?\.\d", claim.check)
        # what is replaced may bear the name that a paper prints it under
        printed = {target.metric for target in ResultTable.read_printed(PAPERS / "targets.csv").rows}
        for name in declared.metrics.keys() - printed | set(declared.metrics.values()):
            plugins.check("metrics", name.replace("_", "-"), {})


def test_numbers_that_do_not_allow_the_check_decide_nothing():
    claim = replace(CLAIM, check="slope(log([T('table1','acc',m='a'),1]),[0,1])<0", check_per_draw="")
    verdict = judged(rows(-2.0, 1.0), claim)
    assert verdict.verdict == "undecided"
    assert "do not allow" in verdict.judgement.reason


class TestDraws:
    def results(self, *draws, table=(2.0, 1.0), **more):
        every = [rows(a, b, variant=f"partition-seed={seed}") for seed, (a, b) in enumerate(draws)]
        return sum(every, rows(*table, **more))

    def test_how_often_it_holds(self):
        draws = [rows(2.0, 1.0, variant="partition-seed=0"), rows(1.0, 2.0, variant="partition-seed=1"),
                 rows(3.0, 2.0, variant="partition-seed=10")]  # fmt: skip
        half = ResultTable(rows(3.0, 2.0, variant="partition-seed=2").rows[:1])
        frequency = judged(sum(draws, rows(5.0, 1.0)) + half).frequency
        assert frequency == Frequency(2, 3, ("partition-seed=1",), ("partition-seed=2",))
        assert str(frequency) == (
            "holds in 2 of 3 partition draws; fails for partition seed 1; not run for partition seed 2"
        )

    def test_without_draws_there_is_no_frequency(self):
        assert judged(rows(2.0, 1.0)).frequency is None

    def test_draws_that_do_not_agree_leave_the_claim_undecided(self):
        verdict = judged(self.results(*[(2, 1)] * 4, *[(1, 2)] * 6))
        assert verdict.verdict == "undecided"
        assert verdict.judgement.reason == "the partition draws do not agree"
        assert "holds in 4 of 10 partition draws" in verdict.judgement.sentence

    @pytest.mark.parametrize(
        ("holds", "word"), [(10, "reproduced"), (9, "reproduced"), (8, "undecided"), (2, "undecided"), (1, "undecided")]
    )
    def test_draws_that_agree_decide_unless_the_table_surely_says_the_contrary(self, holds, word):
        draws = [(2, 1)] * holds + [(1, 2)] * (10 - holds)
        assert judged(self.results(*draws)).verdict == word
        overlap = {"n": 3, "ci_low": 0.0, "ci_high": 3.0}
        doubtful = {10: "reproduced", 9: "reproduced", 1: "not reproduced"}.get(holds, "undecided")
        assert judged(self.results(*draws, **overlap)).verdict == doubtful

    @pytest.mark.parametrize(
        ("holds", "word"), [(10, "undecided"), (9, "undecided"), (8, "undecided"), (1, "not reproduced")]
    )
    def test_draws_that_agree_do_not_overrule_a_table_that_surely_fails(self, holds, word):
        draws = [(2, 1)] * holds + [(1, 2)] * (10 - holds)
        assert judged(self.results(*draws, table=(1.0, 2.0))).verdict == word

    def test_draws_that_fail_at_other_places_each_do_not_decide(self):
        claim = replace(CLAIM, check="T('table1','acc',m='a')>1.5 and T('table1','acc',m='b')>1.5")
        apart = self.results(*[(2, 1)] * 5, *[(1, 2)] * 5, table=(1.0, 1.0), n=3, ci_low=0.0, ci_high=3.0)
        assert judged(apart, claim).verdict == "undecided"
        alike = self.results(*[(2, 1)] * 10, table=(1.0, 1.0), n=3, ci_low=0.0, ci_high=3.0)
        assert judged(alike, claim).verdict == "not reproduced"

    def test_draws_do_not_overrule_a_table_that_surely_says_the_contrary(self):
        assert judged(self.results(*[(2, 1)] * 10, table=(1.0, 2.0))).verdict == "undecided"
        assert judged(self.results(*[(1, 2)] * 10, table=(2.0, 1.0))).verdict == "undecided"

    @pytest.mark.parametrize(
        ("gap", "per_draw", "word"),
        [
            (-0.05, "same", "undecided"),
            (-0.05, "same within 0.2", "reproduced"),
            (-0.3, "same within 0.2", "not reproduced"),
            (-0.2, "same within 0.2", "undecided"),
            (0.3, "same within 0.2", "reproduced"),
        ],
    )
    def test_a_declared_tie_is_a_tie(self, gap, per_draw, word):
        """The gap differs by 0.1 from draw to draw, so its mean is known to 0.08."""
        draws = [(1 + gap + 0.1 * (-1) ** place, 1.0) for place in range(10)]
        claim = replace(CLAIM, check_per_draw=per_draw)
        verdict = judged(self.results(*draws, table=(1.0, 1.0), n=3, ci_low=0.0, ci_high=3.0), claim)
        assert verdict.verdict == word
        assert (" within 0.2 in " in verdict.judgement.sentence) == ("within" in per_draw)

    @pytest.mark.parametrize(
        ("gap", "spread", "said"),
        [
            (-0.05, 0.5, "in the mean of 10 partition draws every comparison holds, ties of 0.2 included"),
            (-1.0, 0.5, "in the mean of 10 partition draws a comparison surely fails"),
            (0.5, 0.0, ""),
        ],
    )
    def test_where_the_draws_decide_the_sentence_begins_with_them(self, gap, spread, said):
        """What the table's own draw says alone may be the contrary of the word, so it is told as that."""
        draws = [(1 + gap, 1.0)] * 10
        claim = replace(CLAIM, check_per_draw="same within 0.2")
        table = {"table": (1.0 + gap, 1.0), "n": 3, "ci_low": gap - spread, "ci_high": gap + spread + 2 * spread}
        sentence = judged(
            self.results(*draws, **(table if spread else {"table": (1.5, 1.0)})), claim
        ).judgement.sentence
        assert sentence.startswith(said)
        assert ("in the table's own draw: " in sentence) == bool(said)

    def test_the_links_of_a_chain_are_compared_each_by_itself(self):
        claim = replace(CLAIM, check="0<=T('table1','acc',m='a')<=1")
        beyond = self.results(*[(3, 1)] * 10, table=(1.0, 1.0), n=3, ci_low=0.0, ci_high=3.0)
        assert judged(beyond, claim).verdict == "not reproduced"

    def test_five_draws_are_too_few_to_decide(self):
        assert judged(self.results(*[(1, 2)] * 5)).verdict == "reproduced"


class TestTheStrongestAttacker:
    def results(self, knowing, by="profiled"):
        """Rows a and b of the paper's attacker, and both again under the strongest of all that were tried."""
        own = rows(2.0, 1.0, attacker="paper", better="lower")
        known = {"a": own.rows[0].value, "b": knowing}
        strongest = [replace(r, value=known[r.row["m"]], attacker="knowing", row={**r.row, "by": by}) for r in own.rows]
        tried = [
            replace(own.rows[1], attacker="", row={"m": "b", "tried": name}) for name in dict.fromkeys(("own", by))
        ]
        return ResultTable((*own.rows, *strongest, *tried))

    def test_a_claim_is_judged_on_the_strongest_too(self):
        verdict = judged(self.results(3.0))
        assert verdict.verdict == "reproduced"
        assert verdict.knowing.verdict == "not reproduced"
        assert [(fact.value, fact.attacker) for fact in verdict.knowing.evidence] == [
            (2.0, "knowing"),
            (3.0, "knowing"),
        ]

    def test_where_the_papers_is_the_strongest_of_several_both_verdicts_agree(self):
        verdict = judged(self.results(1.0))
        assert verdict.knowing.verdict == verdict.verdict == "reproduced"

    def test_where_nothing_else_was_tried_there_is_no_second_verdict(self):
        assert judged(self.results(1.0, by="own")).knowing is None
        assert judged(rows(2.0, 1.0, attacker="paper")).knowing is None

    def test_it_survives_json_and_the_table(self, tmp_path):
        verdict = judged(self.results(3.0))
        assert Verdict.from_json(json.loads(json.dumps(asdict(verdict)))) == verdict
        write_verdicts(tmp_path / "c.csv", [CLAIM], [verdict])
        with (tmp_path / "c.csv").open(newline="") as handle:
            (line,) = csv.DictReader(handle)
        assert line["knowing_verdict"] == "not reproduced"
        assert "found: 2 %" in line["knowing_sentence"]


def test_verdicts_survive_json_and_are_written_one_per_line(tmp_path):
    verdict = judged(rows(2.0, 1.0) + rows(2.0, 1.0, variant="partition-seed=0"))
    assert Verdict.from_json(json.loads(json.dumps(asdict(verdict), allow_nan=False))) == verdict
    write_verdicts(tmp_path / "c.csv", [CLAIM], [verdict])
    with (tmp_path / "c.csv").open(newline="") as handle:
        (line,) = csv.DictReader(handle)
    assert (line["id"], line["verdict"], line["holds"], line["draws"]) == ("X-01", "reproduced", "1", "1")
    assert (line["about"], line["needed"], line["found"], line["margin"]) == ("utility", "1.0", "2.0", "1.0")
    assert json.loads(line["evidence"])[0] == ["table1", {"m": "a"}, "acc", 2.0]


def test_a_margin_without_bounds_is_written_without_them():
    sides = judged(rows(2.0, 1.0, n=1)).judgement.sides
    assert (sides.margin, sides.margin_low, sides.margin_high) == (1.0, None, None)
    assert all(
        value is None or not isinstance(value, float) or math.isfinite(value) for value in asdict(sides).values()
    )


GONE = "data not here"
NOT_HERE = f"not run: {GONE}"


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
    [("LRP-07", "non-IID data (MNIST), non-IID data (CIFAR-10), IID data (MNIST), IID data (CIFAR-10)", 10),
     ("LRP-10", "MNIST, CIFAR-10", 6)],
)  # fmt: skip
def test_a_claim_on_partly_absent_data_is_judged_on_what_is_there_and_names_the_rest(partly, claim, holds, numbers):
    verdict = partly[claim]
    assert verdict.verdict == "reproduced"
    assert f"; holds for {holds}; not at hand: " in verdict.judgement.sentence
    assert "CIFAR-100" in verdict.judgement.reason
    assert GONE in verdict.judgement.reason
    assert len(verdict.judgement.evidence) == numbers


def test_a_claim_that_needs_nothing_absent_is_decided_and_one_that_needs_only_that_is_not(partly):
    assert partly["LRP-08"].verdict == "reproduced"
    for name in ("LRP-09", "LRP-11"):
        assert (partly[name].verdict, partly[name].judgement.evidence) == ("not run", ())
        assert GONE in partly[name].judgement.sentence
    assert "FEMNIST" in partly["LRP-14"].judgement.reason
    assert partly["LRP-14"].verdict == "reproduced"


def test_a_case_whose_premise_was_not_tested_is_not_judged():
    check = "all(T('table1','acc',m=m)>0.5 for m in ('a','b'))"
    claim = replace(CLAIM, check=check, premise="all(T('table1','base',m=m)>1 for m in ('a','b'))")
    base = ResultRow("lrp", "table1", {"m": "a"}, "base", 2.0)
    verdict = judged(ResultTable((*rows(2.0, 0.1).rows, base)), claim)
    assert verdict.verdict == "reproduced"
    assert "not at hand: b" in verdict.judgement.reason
    other = replace(claim, premise="all(T('table1','base',k=k)>1 for k in ('a','b'))")
    assert judged(ResultTable((*rows(2.0, 1.0).rows, base)), other).verdict == "not run"


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
    assert verdict.judgement.reason == (
        "the check fails for MNIST (found -10, needed at least 0), CIFAR-10 (found -10, needed at least 0); "
        f"not at hand: CIFAR-100 ({GONE})"
    )
