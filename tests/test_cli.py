"""The command: what it prints, and that a mistake is one line and exit status 1."""

import json
import os
import re
import shutil
import subprocess
import sys
from collections import Counter
from contextlib import chdir
from importlib.metadata import version
from pathlib import Path

import pytest

from leaklab import cli
from leaklab.data.fetch import Found
from leaklab.items.items import load_items, load_papers
from leaklab.planning import kept_plans
from leaklab.planning.code import code_of_result
from leaklab.planning.outputs import jobs_behind, states
from leaklab.planning.resources import cost
from leaklab.records.environment import duration
from leaklab.records.files import sha256
from leaklab.records.recorder import Recorder
from leaklab.report.site import checkout

ROOT = Path(__file__).parents[1]
LINE = re.compile(r"^\s*((?:lrp|outpost|hyperfl) \S+)\s.*?((?:\s{2,}(?:done|not run|planned)){3})\s*$")
RAW = Found(Path("/somewhere/else/digits.csv.gz"), "digits.csv.gz", "ab" * 32, "mirror")
DATA = Path("data/prepared/digits.safetensors")
CARD = Path("data/prepared/digits.json")
YAML = Path("config/items/lrp/table1.yaml")
TABLE = Path("results/small/lrp/table1.csv")
FIGURE = Path("figures/small/lrp/table1.png")
FEW = {"lrp/table1", "lrp/table4", "outpost/table1", "hyperfl/procedure"}


@pytest.fixture
def leaklab(monkeypatch, capsys):
    """Run the command in this process; return what it printed. A mistake's line comes with SystemExit."""
    forget_the_folder()

    def run(*arguments, folder=ROOT, columns=80):
        monkeypatch.chdir(folder)
        if columns is not None:
            monkeypatch.setenv("COLUMNS", str(columns))
        monkeypatch.setattr(sys, "argv", ["leaklab", *map(str, arguments)])
        with pytest.raises(SystemExit) as ended:
            cli.main()
        if ended.value.code:
            raise ended.value
        return capsys.readouterr().out

    yield run
    forget_the_folder()


def forget_the_folder():
    """Forget what was read of the folder of another call."""
    load_items.cache_clear()
    load_papers.cache_clear()


@pytest.fixture
def mistake(leaklab):
    """Run a command that has to end with one line."""

    def run(*arguments, **options):
        with pytest.raises(SystemExit) as ended:
            leaklab(*arguments, **options)
        line = ended.value.code
        assert isinstance(line, str), "a usage error, not a line of ours"
        assert line.startswith("leaklab: ")
        assert "\n" not in line
        return line.removeprefix("leaklab: ")

    return run


@pytest.fixture
def with_a_planned_item(tmp_path):
    """A checkout's config with one item more, whose runs are still to be written."""
    shutil.copytree(ROOT / "config", tmp_path / "config")
    with_few_items(tmp_path)
    (tmp_path / "config/items/lrp/table99.yaml").write_text(
        "paper: lrp\nitem: table99\nnumber: 22\nkind: table\ntitle: To come\nshows: Nothing yet.\n"
        "planned: needs a network that is not written yet\n"
    )
    return tmp_path


def with_few_items(folder):
    """Leave a few items: to plan all of them takes longer than what is asked here."""
    for path in (folder / "config/items").glob("*/*.yaml"):
        if path.name != "paper.yaml" and f"{path.parent.name}/{path.stem}" not in FEW:
            path.unlink()


@pytest.fixture
def project(tmp_path, monkeypatch):
    """Dataset, table and figure with their records, outside of any checkout."""
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    monkeypatch.chdir(tmp_path)
    shutil.copytree(ROOT / "config", "config")
    with_few_items(tmp_path)
    for path in (DATA, CARD, TABLE, FIGURE):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(str(path), encoding="utf-8")

    def record(rule, path, inputs, outputs, **facts):
        recorder = Recorder(rule, code_of_result(rule).digest, facts=facts)
        recorder.finish(path, {}, {"read": inputs}, {str(path): path for path in outputs})

    record("fetch_dataset", DATA.with_suffix(".run.json"), [], [DATA, CARD], sources=[RAW.card()])
    record("make_table", TABLE.with_suffix(".run.json"), [YAML, DATA, CARD], [TABLE])
    record("make_figure", FIGURE.with_suffix(".run.json"), [YAML, TABLE], [FIGURE])
    return tmp_path


@pytest.fixture(scope="module")
def expected(whole_plan):
    """Return a function: what this checkout's items of papers are listed with; no test changes items or results."""
    with chdir(ROOT):
        words = {key: [s.word for s in own.values()] for key, own in states(whole_plan).items()}
    return lambda *papers: {key: own for key, own in words.items() if key.split("/")[0] in papers}


@pytest.fixture
def planned(monkeypatch, whole_plan):
    """The plan of all items is the one that is there, as it takes seconds to make."""
    make = kept_plans.build_plan

    def plan(items, *scales_and_keeper):
        return whole_plan if items.keys() == whole_plan.items.keys() else make(items, *scales_and_keeper)

    monkeypatch.setattr(kept_plans, "build_plan", plan)


def running(items):
    return sum(set(words) != {"planned"} for words in items.values())


class TestItems:
    @staticmethod
    def listed(text):
        found = {line[1].replace(" ", "/"): line[2] for line in map(LINE.match, text.splitlines()) if line}
        return {key: re.split(r"\s{2,}", states.strip()) for key, states in found.items()}

    @pytest.mark.usefixtures("planned")
    @pytest.mark.parametrize("columns", [80, 200])
    def test_papers_that_run_are_listed(self, leaklab, expected, columns):
        text, every = leaklab("items", columns=columns), expected("lrp", "outpost", "hyperfl")
        assert self.listed(text) == every
        assert text.lstrip().startswith(f"{len(load_items())} items")
        assert text.splitlines()[-1].startswith(
            f"{running(every)} of {len(load_items())} items can be run; results here: "
        )

    @pytest.mark.usefixtures("planned")
    def test_titles_have_room_at_80_columns(self, leaklab):
        row = next(line for line in leaklab("items", columns=80).splitlines() if "lrp table3" in line)
        assert "Privacy of six def" in row

    def test_one_paper_is_listed_whole_in_any_case(self, leaklab, expected):
        text, own = leaklab("items", "OUTPOST", columns=200), expected("outpost")
        assert self.listed(text) == own
        assert "lrp" not in text
        assert text.splitlines()[-1].startswith(f"{running(own)} of {len(own)} items can be run; ")

    def test_an_unknown_paper_brings_up_the_known_ones(self, mistake):
        assert mistake("items", "lpr") == "unknown paper 'lpr': did you mean lrp? there are lrp, outpost, hyperfl"
        assert mistake("items", "bogus") == "unknown paper 'bogus': choose from lrp, outpost, hyperfl"
        assert mistake("items", "lrp/table1") == "'lrp/table1' is no paper: `leaklab plan lrp/table1` shows an item"
        assert mistake("items", "lrp-tabel1").startswith("unknown item 'lrp-tabel1': did you mean lrp/table1")

    def test_titles_are_whole_where_no_terminal_says_how_wide_it_is(self, leaklab, monkeypatch):
        monkeypatch.setattr(os, "environ", {key: value for key, value in os.environ.items() if key != "COLUMNS"})
        text = leaklab("items", "lrp", columns=None)
        titles = {item.title for key, item in load_items().items() if key.startswith("lrp/")}
        assert max(map(len, titles)) > 80
        assert all(any(title in line for line in text.splitlines()) for title in titles)
        assert max(map(len, text.splitlines())) < max(map(len, titles)) + 80

    def test_programs_get_what_is_listed(self, leaklab, expected):
        found = json.loads(leaklab("items", "outpost", "--json"))
        states = {f"{one['paper']}/{one['item']}": [at["state"] for at in one["scales"].values()] for one in found}
        assert states == expected("outpost")
        assert all(set(one) == {"paper", "item", "kind", "title", "scales"} for one in found)

    def test_one_item_is_no_items(self, leaklab, with_a_planned_item):
        for path in (with_a_planned_item / "config/items/outpost").glob("table[2-9]*.yaml"):
            path.unlink()
        text = leaklab("items", "outpost", folder=with_a_planned_item)
        assert text.lstrip().startswith("1 item\n") or text.lstrip().startswith("1 item ")
        assert "1 of 1 item can be run" in text

    def test_listing_plans_nothing(self, leaklab, monkeypatch):
        monkeypatch.setattr(kept_plans, "build_plan", lambda *_: pytest.fail("it takes seconds"))
        assert "results here: " in leaklab("items")

    def test_reasons_are_given_on_request(self, leaklab, with_a_planned_item):
        here = {"columns": 200, "folder": with_a_planned_item}
        reason = "needs a network that is not written yet"
        assert reason not in leaklab("items", **here)
        assert reason in leaklab("items", "--why", **here)
        assert reason in leaklab("items", "lrp", "--why", **here)

    def test_outside_of_a_checkout_it_says_where_to_run(self, mistake, tmp_path):
        line = mistake("items", folder=tmp_path)
        assert line == "no items below config/items: run from the project's root folder"


class TestPlan:
    def test_jobs_and_steps_of_table1(self, leaklab, whole_plan):
        text = leaklab("plan", "lrp", "table1", "--scale", "small")
        row = next(line for line in text.splitlines() if re.match(r"\W*train\b", line))
        jobs, missing = (int(n.replace(",", "")) for n in re.findall(r"\d[\d,]*(?![.\d])", row)[:2])
        plan = whole_plan
        planned = [job for job in plan.jobs_of("small", plan.items["lrp/table1"]) if job.spec.stage == "train"]
        assert jobs == len(planned) >= 62
        assert 0 <= missing <= jobs
        assert f" {duration(max(cost(job.spec).seconds for job in planned))} " in row
        assert row.split()[-4:-2] == ["4", "GB"]
        assert row.split()[-1] == "GB"
        steps = sum(cost(job.spec).steps for job in planned)
        assert steps > 1_000_000
        assert f"{steps:,} client steps, one of one client on one batch each" in text.splitlines()
        assert "evaluations" not in text
        assert "data mnist: " in text
        assert text.splitlines()[-1] == "make it: snakemake --cores 2 results/small/lrp/table1.csv"

    def test_programs_get_what_is_planned(self, leaklab, whole_plan):
        found = json.loads(leaklab("plan", "lrp", "table1", "--scale", "small", "--json"))
        jobs = whole_plan.jobs_of("small", whole_plan.items["lrp/table1"])
        assert {one["stage"]: one["jobs"] for one in found["stages"]} == Counter(job.spec.stage for job in jobs)
        assert found["total"]["jobs"] == len(jobs)
        assert found["total"]["steps"] > 1_000_000
        assert found["command"] == "snakemake --cores 2 results/small/lrp/table1.csv"
        assert list(found["data"]) == ["mnist"]
        paper = json.loads(leaklab("plan", "lrp", "--scale", "demo", "--json"))
        assert "lrp table1" in [one["item"] for one in paper["items"]]

    def test_attacks_are_counted_in_evaluations(self, leaklab):
        text = leaklab("plan", "lrp/figure2", "--scale", "demo")
        stages = [line.split()[0] for line in text.splitlines() if re.match(r"\s*(capture|attack|score)\b", line)]
        assert stages == ["capture", "attack", "score"]
        assert re.search(r"^[1-9][\d,]* evaluations of attacks' matching losses, at most$", text, re.MULTILINE)
        assert "data digits: " in text

    def test_the_last_line_adds_up_the_others(self, leaklab):
        text = leaklab("plan", "lrp", "table1", "--scale", "small")
        rows = [
            re.findall(r"\d[\d,]*(?![.\d])", line)[:2] for line in text.splitlines() if re.match(r"\s*\w+ +\d", line)
        ]
        *stages, total = [[int(number.replace(",", "")) for number in row] for row in rows]
        assert total == [sum(column) for column in zip(*stages, strict=True)]
        assert re.search(r"^ *total .* (min|h) ", text, re.MULTILINE)

    def test_a_whole_scale_has_a_plan(self, leaklab, whole_plan):
        text = leaklab("plan", "--scale", "demo")
        plan = whole_plan
        jobs = jobs_behind(plan, "demo", plan.ready("demo"))
        assert text.startswith(f"scale demo: {len(plan.ready('demo'))} items")
        assert re.search(rf"^ *total +{len(jobs)} ", text, re.MULTILINE)
        assert text.splitlines()[-1] == "make it: snakemake --cores 2 demo"

    def test_the_items_of_a_paper_stand_below_each_other_and_a_shared_job_counts_once(self, leaklab, whole_plan):
        text = leaklab("plan", "LRP", "--scale", "demo")
        plan = whole_plan
        ready = [item for item in plan.ready("demo") if item.paper == "lrp"]
        assert text.startswith(f"lrp at scale demo: {len(ready)} items")
        lines = {line.split("  ")[0].strip(): line for line in text.splitlines() if line.startswith(" lrp ")}
        assert list(lines) == [f"lrp {item.item}" for item in ready]
        own = {item.item: len(plan.jobs_of("demo", item)) for item in ready}
        assert all(re.match(rf" lrp {item} +{count} ", lines[f"lrp {item}"]) for item, count in own.items())
        total = len(jobs_behind(plan, "demo", ready))
        assert total < sum(own.values())
        assert re.search(rf"^ *total +{total} ", text, re.MULTILINE)
        assert text.splitlines()[-1].split()[:4] == ["make", "it:", "snakemake", "--cores"]
        assert f"figures/demo/lrp/{ready[0].item}.png" in text.splitlines()[-1]

    @pytest.mark.usefixtures("planned")
    def test_it_fails_on_request_where_much_would_run(self, mistake, leaklab, capsys):
        line = mistake("plan", "--scale", "paper", "--stop-above", "10")
        assert re.fullmatch(
            r"nothing was started: what is still to run may take [\d,]+ days of one CPU core, more than 10 min 00 s",
            line,
        )
        assert "scale paper" in capsys.readouterr().out
        assert "lrp/table4" in leaklab("plan", "lrp", "table4", "--stop-above", "0")

    @pytest.mark.parametrize(
        "item", ["lrp/table1", "lrp:table1", "lrp.table1", "lrp-table1", "LRP-Table1", " lrp  table1"]
    )
    def test_an_item_may_be_written_in_one_word_and_any_case(self, leaklab, item):
        assert "lrp/table1 at scale demo" in leaklab("plan", item, "--scale", "demo")

    @pytest.mark.parametrize(
        ("item", "offered"),
        [
            ("figure2", "did you mean lrp/figure2, outpost/figure2 or hyperfl/figure2?"),
            ("tabel1", "did you mean lrp/table1, outpost/table1 or hyperfl/table1?"),
            ("LRP Tabel1", "did you mean lrp/table1, lrp/table7 or lrp/table6?"),
            ("lrp lemma", "choose from lrp/max-pooling, lrp/table1, "),
            ("lpr", "did you mean a paper, lrp? `leaklab items lrp` lists its items"),
            ("bogus", "name a paper and one of its items, such as lrp/max-pooling; `leaklab items` lists them"),
        ],
    )
    def test_an_unknown_item_brings_up_what_was_meant(self, mistake, item, offered):
        assert mistake("plan", *item.split()).startswith(f"unknown item '{item}': {offered}")

    def test_an_item_that_does_not_run_yet_says_why(self, mistake, with_a_planned_item):
        line = mistake("plan", "lrp", "table99", folder=with_a_planned_item)
        assert line == "lrp/table99 does not run yet: needs a network that is not written yet"

    @pytest.mark.parametrize("arguments", [["plan", "lrp", "table1"], ["report"]])
    def test_an_unknown_scale_is_refused_with_the_known_ones(self, mistake, arguments):
        line = mistake(*arguments, "--scale", "huge")
        assert line == "unknown scale 'huge': choose from demo, small, paper"


@pytest.fixture
def clone(tmp_path):
    """What is in git of the published results of one item, and nothing that was run."""
    copied = ("config", "results/small/comparison.csv", "results/small/verdicts.json")
    for name in (*copied, *map(str, (ROOT / "results/small/lrp").glob("table4.*")), str(ROOT / FIGURE)):
        source = ROOT / name
        target = tmp_path / source.relative_to(ROOT)
        target.parent.mkdir(parents=True, exist_ok=True)
        (shutil.copytree if source.is_dir() else shutil.copy2)(source, target)
    for source in (ROOT / "figures/small/lrp").glob("table4.*"):
        shutil.copy2(source, tmp_path / source.relative_to(ROOT))
    with_few_items(tmp_path)
    return tmp_path


class TestReport:
    PAGE = Path("results/small/report/index.html")

    def test_it_is_built_from_what_is_in_git(self, leaklab, clone):
        absent, shown = leaklab("report", "--scale", "small", folder=clone).splitlines()
        assert absent.startswith("built from the results in this checkout; not in it are the records of ")
        assert shown == f"report: {(clone / self.PAGE).resolve()}"
        assert "Networks attacked by DLG and iDLG" in (clone / self.PAGE).read_text()
        assert sorted(path.name for path in (clone / "results/small").iterdir()) == [
            "comparison.csv", "lrp", "report", "verdicts.json"
        ]  # fmt: skip

    def test_programs_are_told_the_page_and_what_is_absent(self, leaklab, clone):
        for _ in range(2):  # built, and found as it was built
            told = json.loads(leaklab("report", "--scale", "small", "--json", folder=clone))
            page, absent = told["report"], told["absent_records"]
            assert (told["scale"], page, absent > 0) == ("small", str((clone / self.PAGE).resolve()), True)
        own = json.loads(leaklab("report", "lrp", "table4", "--scale", "small", "--json", folder=clone))
        assert own == {
            "scale": "small",
            "page": str((clone / "results/small/report/lrp-table4/lrp-table4.html").resolve()),
        }

    def test_one_item_has_a_page_of_its_own(self, leaklab, clone):
        page = clone / "results/small/report/lrp-table4/lrp-table4.html"
        said = leaklab("report", "LRP", "table4", "--scale", "small", folder=clone)
        assert said == f"page: {page.resolve()}\n"
        assert "Networks attacked by DLG and iDLG" in page.read_text()
        assert not (clone / self.PAGE).exists()
        judged = page.read_text()
        for name in ("comparison.csv", "verdicts.json"):  # as where one item was run, and nothing else
            (clone / "results/small" / name).unlink()
        leaklab("report", "lrp/table4", "--scale", "small", folder=clone)
        assert page.read_text().count("<td") == judged.count("<td") > 0

    def test_an_item_without_results_has_no_page_and_says_how_to_have_one(self, mistake, clone):
        made = "snakemake --cores 2 figures/small/lrp/table1.png"
        line = mistake("report", "lrp", "table1", "--scale", "small", folder=clone)
        assert line == f"lrp/table1 has no result of scale small here: {made}"
        assert mistake("report", "lrp", "tabel4", folder=clone).startswith(
            "unknown item 'lrp tabel4': did you mean lrp/"
        )
        assert not (clone / "results/small/report").exists()

    def test_a_claim_that_is_newer_than_the_verdicts_is_not_judged(self, leaklab, clone):
        (clone / "results/small/verdicts.json").write_text("[]")
        leaklab("report", "--scale", "small", folder=clone)
        assert "Not judged yet" in (clone / "results/small/report/outpost-table1.html").read_text()

    def test_a_build_that_fails_leaves_the_last_one(self, leaklab, mistake, clone):
        leaklab("report", "--scale", "small", folder=clone)
        before = (clone / self.PAGE).read_bytes()
        (clone / "results/small/lrp/table4.tex").unlink()
        assert "table4.tex is missing" in mistake("report", "--scale", "small", folder=clone)
        assert (clone / self.PAGE).read_bytes() == before
        assert not list((clone / "results/small").glob(".report-*"))

    def test_without_results_it_says_how_to_have_some(self, mistake, clone):
        assert mistake("report", folder=clone) == (
            "no results of scale demo here: `leaklab plan --scale demo` says what they cost, `snakemake --cores 2 "
            "results/demo/report/index.html` makes them; `leaklab report --scale small` shows the published ones"
        )

    def test_where_all_was_run_the_workflow_builds_it(self, mistake, clone, monkeypatch):
        monkeypatch.setattr(checkout, "absent_records", lambda *_: 0)
        line = mistake("report", "--scale", "small", folder=clone)
        assert line == "no report of the results here yet: run `snakemake --cores 2 results/small/report/index.html`"

    def test_a_report_of_the_workflow_is_kept_while_the_results_are_those_that_it_shows(self, leaklab, clone):
        page, table = clone / self.PAGE, clone / "results/small/lrp/table4.csv"
        page.parent.mkdir()
        page.write_text("made by the workflow")
        read = {"results/small/lrp/table4.csv": sha256(table), "results/runs/train/x/run.json": "not here"}
        record = {"rule": "build_report", "outputs": {}, "spec": {}, "code": "", "inputs": read}
        page.with_name("run.json").write_text(json.dumps(record))
        assert leaklab("report", "--scale", "small", folder=clone) == f"report: {page.resolve()}\n"
        assert page.read_text() == "made by the workflow"
        read["results/small/lrp/table4.csv"] = "of another table"
        page.with_name("run.json").write_text(json.dumps(record))
        assert leaklab("report", "--scale", "small", folder=clone).startswith("built from the results")
        assert page.read_text() != "made by the workflow"

    def test_outside_of_a_checkout_it_says_where_to_run(self, mistake, tmp_path):
        line = mistake("report", folder=tmp_path)
        assert line == "no items below config/items: run from the project's root folder"


class TestTrace:
    def test_the_chain_of_a_figure_ends_at_the_raw_data(self, leaklab, project):
        lines = leaklab("trace", FIGURE, folder=project).splitlines()
        assert [line.split("  sha256")[0] for line in lines] == [
            str(FIGURE),
            f"  {YAML}  (an input of this repository)",
            f"  {TABLE}",
            f"    {YAML}  (an input of this repository)",
            f"    {CARD}",
            f"      {RAW.listed}",
            f"    {DATA}",
        ]
        assert lines[5].endswith(f"sha256 {RAW.sha256}  (raw data, mirror)")
        assert "make_figure at no commit, code " in lines[0]

    def test_a_path_may_start_with_a_dot(self, leaklab, project):
        assert leaklab("trace", f"./{TABLE}", folder=project).startswith(f"{TABLE}  sha256 ")

    def test_a_path_may_be_absolute(self, leaklab, project):
        assert leaklab("trace", project / TABLE, folder=project).startswith(f"{TABLE}  sha256 ")

    def test_what_a_clone_lacks_is_no_input_of_the_repository(self, leaklab, project):
        for path in (DATA, CARD, DATA.with_suffix(".run.json")):
            (project / path).unlink()
        lines = leaklab("trace", TABLE, folder=project).splitlines()
        assert lines[1:] == [
            f"  {YAML}  (an input of this repository)",
            f"  {CARD}  (not in this checkout)",
            f"  {DATA}  (not in this checkout)",
        ]

    def test_a_summary_counts_jobs_by_rule_and_names_the_raw_data(self, leaklab, project):
        every = leaklab("trace", FIGURE, folder=project).splitlines()
        lines = leaklab("trace", FIGURE, "--summary", folder=project).splitlines()
        rules = {line.split("  sha256 ")[1].split()[1] for line in every if ", code " in line}
        assert {line.split(":")[0].strip() for line in lines[1:] if " of processors, at " in line} == rules
        assert f"{FIGURE}: " in lines[0]
        raw = [line for line in every if "(raw data, " in line]
        assert len([line for line in lines if "raw data from " in line]) == len(set(map(str.strip, raw)))

    def test_json_says_the_same_with_absolute_paths(self, leaklab, project):
        every = leaklab("trace", FIGURE, folder=project).splitlines()
        links = json.loads(leaklab("trace", FIGURE, "--json", folder=project))
        assert [link["path"] for link in links] == [line.split()[0] for line in every if "(raw data, " not in line]
        assert links[0]["absolute_path"] == str((project / FIGURE).resolve())
        assert all(link["here"] == (project / link["path"]).is_file() for link in links)
        assert all(len(link["sha256"]) == 64 for link in links if link["record"])

    def test_a_file_that_no_record_names(self, mistake, project):
        assert mistake("trace", "nothing.csv", folder=project).startswith("nothing.csv: no record names this file")


class TestAudit:
    def test_an_untouched_project_passes(self, leaklab, project):
        assert leaklab("audit", folder=project) == "audit passed: 3 records, 5 files checked\n"

    def test_a_changed_file_is_named(self, mistake, project, capsys):
        (project / TABLE).write_text("changed", encoding="utf-8")
        line = mistake("audit", folder=project)
        assert line == (
            "audit failed: 2 changed files, 0 stale records, 0 files missing or without a record, "
            "0 faults of the code lock; 3 records, 5 files checked"
        )
        named = capsys.readouterr().out.splitlines()
        assert [text.split(":")[0] for text in named] == [str(TABLE), str(TABLE)]

    def test_programs_get_what_was_found(self, leaklab, project, capsys):
        found = json.loads(leaklab("audit", "--json", folder=project))
        assert (found["passed"], found["records"], found["files"], found["changed"]) == (True, 3, 5, [])
        (project / TABLE).write_text("changed", encoding="utf-8")
        with pytest.raises(SystemExit) as ended:
            leaklab("audit", "--json", folder=project)
        assert ended.value.code == 1
        found = json.loads(capsys.readouterr().out)
        assert not found["passed"]
        assert [line.split(":")[0] for line in found["changed"]] == [str(TABLE), str(TABLE)]
        assert found["verdict"].startswith("audit failed: 2 changed files, ")

    def test_what_is_not_here_is_counted_and_passes(self, leaklab, project):
        (project / DATA).unlink()
        first, last = leaklab("audit", folder=project).splitlines()
        assert first.startswith("not in this checkout, so not checked: 1 below data ")
        assert last == "audit passed: 3 records, 4 files checked"

    def test_a_forgery_with_records_to_match_is_found_by_a_commit(self, leaklab, mistake, project, capsys):
        def git(*arguments):
            who = ("-c", "user.name=tests", "-c", "user.email=tests@localhost")
            subprocess.run(["git", *who, *arguments], cwd=project, check=True)

        git("init", "--quiet")
        git("add", "results", "figures")
        git("commit", "--quiet", "--message", "published")
        assert leaklab("audit", "--git", "HEAD", folder=project).startswith(
            "audit passed: 3 records, 5 files checked, 4 "
        )
        before = sha256(project / TABLE)
        (project / TABLE).write_text("forged", encoding="utf-8")
        for record in (TABLE.with_suffix(".run.json"), FIGURE.with_suffix(".run.json")):
            text = (project / record).read_text()
            (project / record).write_text(text.replace(before, sha256(project / TABLE)), encoding="utf-8")
        assert leaklab("audit", folder=project).startswith("audit passed")
        assert mistake("audit", "--git", "HEAD", folder=project).startswith(
            "audit failed: 3 differences from the commit, 0 changed files, 0 stale records, "
        )
        named = [text.split(":")[0] for text in capsys.readouterr().out.splitlines()]
        assert named == sorted(map(str, (FIGURE.with_suffix(".run.json"), TABLE, TABLE.with_suffix(".run.json"))))
        assert mistake("audit", "--git", "v1", folder=project).startswith("no commit 'v1' here")

    def test_results_of_other_code_fail(self, mistake, project):
        record = project / TABLE.with_suffix(".run.json")
        record.write_text(record.read_text().replace(code_of_result("make_table").digest, "0" * 16), encoding="utf-8")
        assert "0 changed files, 1 stale records" in mistake("audit", folder=project)


def test_alone_it_shows_three_doors_with_a_command_each(leaklab, tmp_path):
    text = leaklab(folder=tmp_path)
    doors = dict(re.findall(r"^(\w+ (?:the|my) \w+) {2,}(.+)$", text, re.MULTILINE))
    assert doors == {
        "regenerate the papers": "snakemake --cores 2 demo",
        "judge my defense": "leaklab try my_defense.py",
        "probe my training": "leaklab probe my_case.py",
    }
    for command in ("try", "probe"):
        assert "Usage: " in leaklab(command, "--help")


@pytest.mark.parametrize(
    ("words", "place", "offered"),
    [
        ("leaklab pl", 1, {"plan"}),
        ("leaklab plan lrp/tab", 2, {key for key in load_items(ROOT / "config/items") if key.startswith("lrp/tab")}),
        ("leaklab report mine --scale s", 4, {"small"}),
        ("leaklab items hy", 2, {"hyperfl"}),
    ],
)
def test_a_shell_completes_commands_items_and_scales(words, place, offered):
    asked = {"_LEAKLAB_COMPLETE": "complete_bash", "COMP_WORDS": words, "COMP_CWORD": str(place)}
    done = subprocess.run(
        [Path(sys.executable).with_name("leaklab")], env={**os.environ, **asked}, capture_output=True, text=True,
        check=False, cwd=ROOT,
    )  # fmt: skip
    assert set(done.stdout.split()) == offered, done.stderr


def test_the_version_is_that_of_the_package(leaklab):
    assert leaklab("--version") == f"leaklab {version('leaklab')}\n"


@pytest.mark.parametrize("command", [(), ("items",), ("plan",), ("trace",), ("report",)])
def test_help_has_a_short_form_and_counts_nothing_by_hand(leaklab, command):
    text = leaklab(*command, "-h")
    assert "Usage: " in text
    assert "`" not in text
    assert not re.search(r"\b5\d (tables|items)", text)


def test_a_help_text_flows_to_the_width_of_the_terminal(leaklab):
    lines = [line.strip() for line in leaklab("adopt", "--help", columns=80).splitlines()]
    assert "scratch folder. If all bytes are equal, results/code.lock records that the" in lines


def test_schemas_are_written_and_named(leaklab, mistake, tmp_path):
    assert mistake("schema", folder=tmp_path) == "no workflow/Snakefile here: run from the project's root folder"
    assert not list(tmp_path.iterdir())
    (tmp_path / "workflow").mkdir()
    shutil.copy2(ROOT / "workflow/Snakefile", tmp_path / "workflow")
    lines = leaklab("schema", folder=tmp_path).splitlines()
    assert lines == [
        f"workflow/schemas/{name}.schema.json"
        for name in ("card", "config", "entry", "item", "paper", "probe", "specs")
    ]
    assert all((tmp_path / line).is_file() for line in lines)


def test_a_process_ends_with_one_line_on_stderr_and_status_1():
    command = [sys.executable, "-m", "leaklab.cli", "plan", "lrp", "table99"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("leaklab: unknown item 'lrp table99'")
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize(("run", "started"), [("", False), ("1", True)])
def test_make_report_starts_hours_of_work_on_request_only(run, started, tmp_path):
    shutil.copytree(ROOT / "config", tmp_path / "config")
    with_few_items(tmp_path)
    marker = "echo workflow started; false"
    variables = ["SCALE=paper", f"RUN={run}", f"BIN={Path(sys.executable).parent}", f"SNAKEMAKE={marker}"]
    command = ["make", f"--file={ROOT / 'Makefile'}", "--old-file=.venv/.ready", "VENV=.venv", "report", *variables]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path)
    assert done.returncode != 0
    assert ("workflow started" in done.stdout) is started
    assert ("nothing was started" in done.stderr) is not started
    assert ("make report SCALE=paper RUN=1 starts it" in done.stderr) is not started


def test_what_is_compiled_on_import_is_kept_whatever_the_environment_says():
    show = "shown: ; @echo kept=$$PYTHONDONTWRITEBYTECODE"
    done = subprocess.run(
        ["make", "--no-print-directory", "--eval", show, "shown"],
        capture_output=True, text=True, check=True, cwd=ROOT, env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"},
    )  # fmt: skip
    assert done.stdout == "kept=\n"


def test_the_published_results_pass_the_audit():
    done = subprocess.run(
        [sys.executable, "-m", "leaklab.cli", "audit"], capture_output=True, text=True, check=False, cwd=ROOT
    )
    assert "audit passed" in done.stdout, done.stderr
