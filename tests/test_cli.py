"""The command: what it prints, and that a mistake is one line and exit status 1."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from leaklab import cli
from leaklab.data.fetch import Found
from leaklab.planning.code import code_of_rule
from leaklab.planning.plan import build_plan
from leaklab.planning.resources import cost
from leaklab.planning.state import states
from leaklab.records.ids import stage_of
from leaklab.records.items import load_items
from leaklab.records.provenance import Recorder

ROOT = Path(__file__).parents[1]
LINE = re.compile(r"^\s*((?:lrp|outpost|hyperfl) \S+)\s.*?((?:\s{2,}(?:done|not run|planned)){3})\s*$")
RAW = Found(Path("/somewhere/else/digits.csv.gz"), "digits.csv.gz", "ab" * 32, "mirror")
DATA = Path("data/prepared/digits.safetensors")
CARD = Path("data/prepared/digits.json")
YAML = Path("config/items/lrp/table1.yaml")
TABLE = Path("results/small/lrp/table1.csv")
FIGURE = Path("figures/small/lrp/table1.png")


@pytest.fixture
def leaklab(monkeypatch, capsys):
    """Run the command in this process; return what it printed. A mistake's line comes with SystemExit."""
    load_items.cache_clear()

    def run(*arguments, folder=ROOT, columns=80):
        monkeypatch.chdir(folder)
        monkeypatch.setenv("COLUMNS", str(columns))
        monkeypatch.setattr(sys, "argv", ["leaklab", *map(str, arguments)])
        with pytest.raises(SystemExit) as ended:
            cli.main()
        if ended.value.code:
            raise ended.value
        return capsys.readouterr().out

    yield run
    load_items.cache_clear()


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
def project(tmp_path, monkeypatch):
    """Dataset, table and figure with their records, outside of any checkout."""
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    monkeypatch.chdir(tmp_path)
    shutil.copytree(ROOT / "config", "config")
    for path in (DATA, CARD, TABLE, FIGURE):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(str(path), encoding="utf-8")

    def record(rule, path, inputs, outputs, **facts):
        recorder = Recorder(rule, code_of_rule(rule), facts=facts)
        recorder.finish(path, {}, {"read": inputs}, {str(path): path for path in outputs})

    record("fetch_dataset", DATA.with_suffix(".run.json"), [], [DATA, CARD], sources=[RAW.card()])
    record("make_table", TABLE.with_suffix(".run.json"), [YAML, DATA, CARD], [TABLE])
    record("make_figure", FIGURE.with_suffix(".run.json"), [YAML, TABLE], [FIGURE])
    return tmp_path


class TestItems:
    @pytest.mark.parametrize("columns", [80, 200])
    def test_all_52_items_are_listed_with_their_states(self, leaklab, columns):
        text = leaklab("items", columns=columns)
        listed = {line[1].replace(" ", "/"): line[2] for line in map(LINE.match, text.splitlines()) if line}
        expected = {key: [s.word for s in found.values()] for key, found in states(build_plan(load_items())).items()}
        assert len(listed) == 53
        assert {key: re.split(r"\s{2,}", found.strip()) for key, found in listed.items()} == expected
        assert text.lstrip().startswith("53 items")

    def test_reasons_are_given_on_request(self, leaklab):
        reason = load_items(ROOT / "config/items")["hyperfl/figure4"].planned[:40]
        assert reason not in leaklab("items", columns=200)
        assert reason in leaklab("items", "--why", columns=200)

    def test_outside_of_a_checkout_it_says_where_to_run(self, mistake, tmp_path):
        line = mistake("items", folder=tmp_path)
        assert line == "no items below config/items: run from the project's root folder"


class TestPlan:
    def test_jobs_and_steps_of_table1(self, leaklab):
        text = leaklab("plan", "lrp", "table1", "--scale", "small")
        row = next(line for line in text.splitlines() if re.match(r"\W*train\b", line))
        jobs, missing, steps, evaluations = (int(n.replace(",", "")) for n in re.findall(r"\d[\d,]*(?![.\d])", row)[:4])
        plan = build_plan(load_items())
        planned = [job for job in plan.jobs_of("small", plan.items["lrp/table1"]) if stage_of(job.spec) == "train"]
        assert jobs == len(planned) >= 62
        assert 0 <= missing <= jobs
        assert steps == sum(cost(job.spec).steps for job in planned) > 1_000_000
        assert evaluations == 0
        assert "data mnist: " in text
        assert text.splitlines()[-1] == "make it: snakemake --cores 2 results/small/lrp/table1.csv"

    def test_attacks_are_counted_in_evaluations(self, leaklab):
        text = leaklab("plan", "lrp/figure2", "--scale", "demo")
        stages = [line.split()[0] for line in text.splitlines() if re.match(r"\s*(capture|attack|score)\b", line)]
        assert stages == ["capture", "attack", "score"]
        assert {f"data {name}" for name in ("digits", "faces")} <= set(re.findall(r"data \w+", text))

    @pytest.mark.parametrize("item", ["lrp/table1", "lrp:table1", "lrp.table1"])
    def test_an_item_may_be_written_in_one_word(self, leaklab, item):
        assert "lrp/table1 at scale demo" in leaklab("plan", item, "--scale", "demo")

    def test_an_unknown_item_brings_up_its_neighbors(self, mistake):
        line = mistake("plan", "lrp", "table99")
        assert line.startswith("unknown item 'lrp table99': choose from lrp/table1, ")

    def test_an_item_that_does_not_run_yet_says_why(self, mistake):
        assert mistake("plan", "hyperfl", "figure4").startswith("hyperfl/figure4 does not run yet: ")

    @pytest.mark.parametrize("arguments", [["plan", "lrp", "table1"], ["report"]])
    def test_an_unknown_scale_is_refused_with_the_known_ones(self, mistake, arguments):
        line = mistake(*arguments, "--scale", "huge")
        assert line == "unknown scale 'huge': choose from demo, small, paper"


class TestReport:
    def test_without_a_report_it_says_how_to_make_one(self, mistake, tmp_path):
        line = mistake("report", "--scale", "small", folder=tmp_path)
        assert line == "no report yet: run `snakemake --cores 2 results/small/report/index.html`"

    def test_a_report_is_shown_with_its_whole_path(self, leaklab, tmp_path):
        page = tmp_path / "results/demo/report/index.html"
        page.parent.mkdir(parents=True)
        page.touch()
        assert leaklab("report", folder=tmp_path) == f"report: {page.resolve()}\n"


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
            "0 faults of adoptions; 3 records, 5 files checked"
        )
        named = capsys.readouterr().out.splitlines()
        assert [text.split(":")[0] for text in named] == [str(TABLE), str(TABLE)]

    def test_what_is_not_here_is_counted_and_passes(self, leaklab, project):
        (project / DATA).unlink()
        first, last = leaklab("audit", folder=project).splitlines()
        assert first.startswith("not in this checkout, so not checked: 1 below data ")
        assert last == "audit passed: 3 records, 4 files checked"

    def test_results_of_other_code_fail(self, mistake, project):
        record = project / TABLE.with_suffix(".run.json")
        record.write_text(record.read_text().replace(code_of_rule("make_table"), "0" * 16), encoding="utf-8")
        assert "0 changed files, 1 stale records" in mistake("audit", folder=project)


def test_schemas_are_written_and_named(leaklab, tmp_path):
    lines = leaklab("schema", folder=tmp_path).splitlines()
    assert lines == [f"workflow/schemas/{name}.schema.json" for name in ("config", "item", "paper", "specs")]
    assert all((tmp_path / line).is_file() for line in lines)


def test_a_process_ends_with_one_line_on_stderr_and_status_1():
    command = [sys.executable, "-m", "leaklab.cli", "plan", "lrp", "table99"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("leaklab: unknown item 'lrp table99'")
    assert done.stderr.count("\n") == 1


def test_the_published_results_pass_the_audit():
    done = subprocess.run(
        [sys.executable, "-m", "leaklab.cli", "audit"], capture_output=True, text=True, check=False, cwd=ROOT
    )
    assert "audit passed" in done.stdout, done.stderr
