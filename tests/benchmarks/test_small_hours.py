"""Hours of distinct jobs: sums that hold, shares in closed form, and a page that its tables make again."""

import json
import shutil
from collections import defaultdict
from datetime import UTC, datetime
from pathlib import Path

import pandas as pd
import pytest
from paper_hours.kinds import Kind, words_of
from small_hours.again import compared
from small_hours.bound import bounds, core_peaks, products_of
from small_hours.gained import committed, gained
from small_hours.page import AGAIN, BOUND, GAINED, JOBS, PAGE, ROOFLINE, TABLE, write_page
from small_hours.recorded import SCALE, Spent, fitted, hours_of, recorded
from small_hours.tables import BY, groups, heaviest

from leaklab.items.items import load_items
from leaklab.planning.plan import build_plan
from leaklab.planning.resources import cost
from leaklab.records.errors import UserError
from leaklab.report.site.publication import Published

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "results" / SCALE
ARCHIVED, SHARING, BARE = "outpost/imprint", "outpost/figure3-time", "hyperfl/table4"


@pytest.fixture(scope="module")
def costs():
    return Published.load(RESULTS).costs


@pytest.fixture(scope="module")
def plan():
    items = {key: item for key, item in load_items().items() if key in (ARCHIVED, SHARING, "outpost/figure3", BARE)}
    return build_plan(items, (SCALE,))


@pytest.fixture(scope="module")
def spent(costs, plan):
    return hours_of(plan, costs, recorded(RESULTS))


KINDS = defaultdict(lambda: Kind("any", "any", "any", "float64", 1, 3.0, 0.0, 0.0, 0.0))
"""Three operations for each unit of any kind."""


def test_what_has_no_record_is_shared_out_by_weight():
    assert fitted({"a": 1.0, "b": 3.0}, {"one": ["a", "b"]}, {"one": 8.0}) == {"a": 2.0, "b": 6.0}


def test_an_item_within_another_one_keeps_its_own_sum():
    found = fitted({"a": 5.0, "b": 5.0}, {"inner": ["a"], "outer": ["a", "b"]}, {"inner": 3.0, "outer": 10.0})
    assert found == pytest.approx({"a": 3.0, "b": 7.0})


def test_a_sum_below_what_is_known_leaves_nothing_to_share():
    assert fitted({"a": 1.0}, {"one": ["a"]}, {"one": -2.0}) == {"a": 0.0}


@pytest.mark.parametrize("item", [ARCHIVED, BARE])
def test_the_jobs_of_an_item_take_what_is_published_of_it(spent, costs, item):
    # the published sum also has the tables, the figure and the data sets
    assert sum(one.seconds for one in spent if item in one.items) == pytest.approx(costs[item].cpu_seconds, rel=0.5)


def test_jobs_of_two_items_count_once(spent):
    shared = [one for one in spent if {SHARING, "outpost/figure3"} <= {*one.items}]
    assert shared
    assert len({(one.job.spec.stage, one.job.name) for one in spent}) == len(spent)


def test_every_table_has_all_hours(spent):
    lines = groups(spent)
    for by in BY:
        for column in ("jobs", "hours", "evaluations"):
            assert sum(row[column] for row in lines if row["by"] == by) == pytest.approx(lines[0][column], abs=1e-2)


def test_a_training_asks_for_the_products_of_its_steps(spent, plan):
    one = next(one for one in spent if one.job.spec.stage == "train")
    assert products_of(one, plan, KINDS) == (3.0 * cost(one.job.spec).steps, "float64")


def test_a_search_that_ended_early_asks_for_less():
    attacked = build_plan({"lrp/figure2": load_items()["lrp/figure2"]}, (SCALE,))
    job = next(job for job in attacked.jobs["attack"].values() if cost(job.spec).evaluations)
    most = cost(job.spec).evaluations
    for done, counted in ((0, most), (most, most), (most // 4, most // 4)):
        one = Spent(job, ("lrp/figure2",), 1.0, None, done, True)
        assert products_of(one, attacked, KINDS)[0] == pytest.approx(3.0 * counted)


def test_hours_at_the_peak_are_operations_over_the_rate_of_their_precision(spent, plan):
    whole, *groups_of_jobs = bounds(spent, plan, KINDS, {"float32": 1e-3, "float64": 2.0})
    assert whole["hours_at_peak"] == pytest.approx(whole["flop"] / 2e9 / 3600)
    assert whole["hours_at_peak"] == pytest.approx(sum(row["hours_at_peak"] for row in groups_of_jobs))
    assert whole["jobs"] == len(spent) > sum(bool(words_of(one.job.spec)) for one in spent)


def test_the_peak_is_what_the_roofline_says(tmp_path):
    assert core_peaks(ROOT / "benchmarks" / ROOFLINE)["float32"] > 1
    page = tmp_path / "page.md"
    page.write_text("at most\n1,050 GFLOP/s (sgemm, 1024 x 1024)")
    assert core_peaks(page) == {"float32": 1050.0, "float64": 525.0}
    page.write_text("nothing")
    with pytest.raises(UserError, match="python -m roofline"):
        core_peaks(page)


def test_jobs_gain_what_the_job_like_them_gained_unless_they_are_younger(spent):
    """The least of two gains counts; one of another group, or of no job of the plan, changes nothing."""
    one = max((one for one in spent if one.recorded and one.job.spec.stage == "train"), key=lambda one: one.seconds)
    name = f"{one.job.spec.stage}/{one.job.name}"
    again = [{"job": name, "times_faster": gain, "commit_before": "old"} for gain in (4.0, 2.0)]
    again.append({"job": "train/nothing", "times_faster": 9.0, "commit_before": "old"})
    records, late = recorded(RESULTS), datetime(2100, 1, 1, tzinfo=UTC)
    whole, group = gained(spent, records, again, lambda commit: late)
    assert group["hours_then"] == pytest.approx(group["hours"] / 2)
    assert 0 < one.seconds / 3600 <= group["hours"] * 1.0001
    assert whole["hours"] == pytest.approx(sum(one.seconds for one in spent) / 3600)
    assert whole["hours_then"] == pytest.approx(whole["hours"] - group["hours"] / 2)
    (whole,) = gained(spent, records, again, lambda commit: datetime(2000, 1, 1, tzinfo=UTC))
    assert whole["hours_then"] == whole["hours"]


def test_a_commit_that_is_not_here_is_one_line():
    with pytest.raises(UserError, match=r"0000000000 .*git fetch"):
        committed("0000000000")


def test_the_longest_jobs_come_first(spent):
    seconds = [row["seconds"] for row in heaviest(spent)]
    assert seconds == sorted(seconds, reverse=True)


def test_the_page_is_made_of_the_tables(tmp_path):
    for name in (TABLE, JOBS, AGAIN, BOUND, GAINED):
        if (ROOT / "benchmarks" / name).is_file():
            shutil.copy(ROOT / "benchmarks" / name, tmp_path)
    assert write_page(tmp_path) == (ROOT / "benchmarks" / PAGE).read_text()


def test_a_job_is_run_by_both_codes_and_its_bytes_compared(tmp_path, monkeypatch):
    """Two packages of one step stand for two codes: one writes what the other does, and one more setting."""
    for source, text in (("old", "json.dumps(spec)"), ("src", "json.dumps(spec | {'new': 1} if spec['on'] else spec)")):
        steps = tmp_path / source / "leaklab" / "steps"
        steps.mkdir(parents=True)
        for folder in (steps, steps.parent):
            (folder / "__init__.py").touch()
        (steps.parent / "fork_server.py").write_text("IMPORTED = ()\n")
        (steps / "write_it.py").write_text(
            "import json, sys\nspec = json.loads(sys.argv[sys.argv.index('--spec') + 1])\n"
            "path = next(word for word in sys.argv if word.startswith('told=')).partition('=')[2]\n"
            f"open(path, 'w').write({text})\n"
        )
    record = {"rule": "write_it", "argv": ["--spec", json.dumps({"on": 0}), "--output", "told=results/x/told.json"]}
    monkeypatch.setattr("small_hours.again.recorded", lambda results: {"results/runs/attack/x/run.json": record})
    monkeypatch.chdir(tmp_path)
    assert compared("attack/x", tmp_path / "old", {}, 1, RESULTS)["same_bytes"]
    assert not compared("attack/x", tmp_path / "old", {"on": "1"}, 1, RESULTS)["same_bytes"]


def test_the_committed_table_says_what_its_rows_come_to():
    table = pd.read_csv(ROOT / "benchmarks" / TABLE)
    assert table.loc[table["by"] == "rule", "hours"].sum() == pytest.approx(table["hours"][0], abs=1e-2)
