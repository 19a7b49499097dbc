"""The demo from an empty checkout to a report that can be traced and audited."""

import csv
import json
import re
import shutil
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from leaklab.items.items import load_items

pytestmark = pytest.mark.workflow
MIB = 1024**2
LINES_OF_SETUP = 20
"""`make demo` says some more while it installs, and where the report is."""
TOLD = re.compile(r" *(\d+) of (\d+)  (?:\S+/\S+(?: and \d+ more)?: )?\S.*: \d[\d.]* (?:s|min \d\d s)(?:, .* left)?$")


RUNNING = (
    *("table1", "table2", "table4", "table5", "table7"),
    *("figure1", "figure2", "figure5"),
    *("theorem1", "algorithm1", "smc"),
)


def dry_run(checkout, *targets):
    return checkout.must("snakemake", "--dry-run", "--cores", "2", *targets)


def test_demo_leaves_tables_figures_verdicts_and_a_report(demo):
    for name in RUNNING:
        for path in (f"results/demo/lrp/{name}.csv", f"figures/demo/lrp/{name}.png", f"figures/demo/lrp/{name}.pdf"):
            assert (demo.folder / path).stat().st_size > 0
    report = demo.folder / "results/demo/report"
    pages = {page.stem for page in report.glob("*.html")}
    assert pages >= {"index", *(key.replace("/", "-") for key in load_items(demo.folder / "config/items"))}
    lines, claims = (
        {line["id"]: line for line in csv.DictReader((demo.folder / path).read_text().splitlines())}
        for path in ("results/demo/claims.csv", "config/papers/claims.csv")
    )
    verdicts = {name: line["verdict"] for name, line in lines.items()}
    assert verdicts.keys() == claims.keys()
    assert verdicts["OUT-01"] == "not run"
    # the demo's data stand in for every paper's and decide nothing; what rests on no data holds at every scale
    judged = [line for line in lines.values() if line["substitutes"] and line["verdict"] != "not run"]
    assert {line["id"] for line in judged} >= {"LRP-01", "LRP-34"}
    for line in judged:
        assert line["verdict"] in ("undecided", "no premise")
        assert line["sentence"].endswith("stand-in data decide nothing about the paper")
    assert verdicts["LRP-32"] == "reproduced"
    assert demo.must("leaklab", "report").strip().endswith("results/demo/report/index.html")


def test_demo_says_in_at_most_200_lines_what_each_job_is(demo):
    lines = demo.folder.with_name("said.txt").read_text(encoding="utf-8").splitlines()
    assert len(lines) + LINES_OF_SETUP <= 200
    jobs = [match for line in lines if (match := TOLD.match(line))]
    done, everything = int(jobs[-1][1]), int(jobs[-1][2])
    assert done == everything  # the last line counts to the end
    assert len(jobs) > 0.75 * everything  # of an item's table and figure, and of the target, one line tells
    others = [line for line in lines if not TOLD.match(line)]
    assert all(line.startswith(("leaklab: ", "Using workflow specific profile")) for line in others), others
    told = "\n".join(match[0] for match in jobs)
    for words in (
        "lrp/table1: training, MLP on digits, LRP",
        "DLG on digits, no defense",
        "lrp/table1: table and figure",
    ):
        assert words in told
    assert re.search(r", (less than a minute|about \d+ min) left$", told, re.MULTILINE)
    assert f"leaklab: report: {demo.folder}/results/demo/report/index.html" in others
    assert any(line.startswith("leaklab: not run: ") for line in others)
    talk = demo.talk("\n".join(others))
    assert talk.count("Finished jobid: ") == everything + 1  # the target is one, too, of which there is nothing to tell
    assert "rule train_federated:" in talk


def test_demo_attack_recovers_a_digit_and_lrp_only_hides_it_from_the_papers_attacker(demo):
    with (demo.folder / "results/demo/lrp/figure2.csv").open() as handle:
        lines = [line for line in csv.DictReader(handle) if line["metric"] == "mse_median"]
    level = {
        (row["attack"], row["defense"], line["attacker"]): float(line["value"])
        for line in lines
        for row in [json.loads(line["row"])]
        if row["dataset"] == "digits" and line["attacker"] and not {"selection", "difference"} & row.keys()
    }
    assert level["idlg", "none", "paper"] < 1e-3
    assert level["idlg", "lrp", "paper"] > 100 * level["idlg", "lrp", "knowing"]
    assert level["idlg", "lrp", "knowing"] < 1e-3


def test_the_lines_of_one_attack_make_its_picture(demo):
    page = Path("docs/one-attack.md").read_text(encoding="utf-8")
    (lines,) = re.findall(r"^```python\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    demo.must("python", "-c", f"{lines}\nprint(found.images.shape)")
    with Image.open(demo.folder / "guesses.png") as made, Image.open("docs/one-attack.png") as shown:
        small = shown.convert("L").resize(made.size)
        far = np.abs(np.asarray(made.convert("L"), dtype=float) - np.asarray(small, dtype=float)).mean()
    assert far < 10  # of 255


def test_demo_reads_the_printed_sentences_under_lrp_without_a_search(demo):
    with (demo.folder / "results/demo/lrp/table7.csv").open() as handle:
        lines = [line for line in csv.DictReader(handle) if line["metric"] == "position_recovery_mean"]
    found = {
        (row["method"], line["attacker"]): float(line["value"])
        for line in lines
        for row in [json.loads(line["row"])]
        if line["attacker"] and not {"selection", "difference"} & row.keys()
    }
    assert found["lrp", "knowing"] == 1
    assert found["lrp", "paper"] < found["fedavg", "paper"]


def test_the_page_shows_who_holds_what_and_what_was_not_run(demo):
    page = (demo.folder / "results/demo/report/lrp-table2.html").read_text()
    assert "Who holds what" in page
    assert "data not here" in page
    with (demo.folder / "results/demo/lrp/table2.csv").open() as handle:
        lines = list(csv.DictReader(handle))
    absent = [line for line in lines if "data not here" in line["note"]]
    assert absent
    assert {line["value"] for line in absent} == {""}


def test_a_checkout_without_runs_shows_costs_cards_and_deals(demo, tmp_path):
    bare = demo.copy(tmp_path / "bare")
    for gone in ("results/runs", "data/prepared", "results/demo/report"):
        shutil.rmtree(bare.folder / gone)
    assert "records of" in bare.must("leaklab", "report")
    for name in RUNNING:
        page = (bare.folder / f"results/demo/report/lrp-{name}.html").read_text()
        assert "time to make, measured" in page, name
        assert f"snakemake --cores 2 results/demo/lrp/{name}.csv" in page.replace("<wbr>", "")
    assert "Metric cards" in (bare.folder / "results/demo/report/lrp-figure2.html").read_text()
    assert "Who holds what" in (bare.folder / "results/demo/report/lrp-table2.html").read_text()
    readme = (demo.folder / "results/demo/README.md").read_text()
    for target in re.findall(r"\]\(([^)]+)\)", readme):
        assert (demo.folder / "results/demo" / target.partition("#")[0]).exists(), target


def test_second_demo_runs_no_job(demo):
    assert "Nothing to be done" in dry_run(demo, "demo")
    assert "Nothing to be done" in dry_run(demo)


def test_the_report_of_snakemake_is_no_empty_shell(demo, tmp_path):
    demo.must("snakemake", "--nolock", "--cores", "1", "--report", str(tmp_path / "stock.html"), "--", "demo")
    page = (tmp_path / "stock.html").read_text()
    table1 = load_items()["lrp/table1"]
    captions = ("is the report proper", "drawn from", "The papers' claims, each judged")
    for told in (*captions, "lrp at scale demo", table1.title):
        assert told in page, told


def test_no_job_takes_more_than_two_gibibytes(demo):
    for file in (demo.folder / "results/runs").rglob("run.json"):
        assert json.loads(file.read_text())["peak_memory_mb"] < 2048, file


CHAIN = ("make_figure", "make_table", "score_attack", "run_attack", "capture_updates", "train_federated",
         "partition_data")  # fmt: skip


def test_trace_goes_through_attack_capture_training_and_deal_to_the_checksum_of_the_raw_data(demo):
    """Each stop stands below the one that read it and further in."""
    lines = demo.must("leaklab", "trace", "figures/demo/outpost/table1.png").splitlines()
    stops = iter(CHAIN)
    wanted, depth = next(stops), -1
    for line in lines:
        indent = len(line) - len(line.lstrip())
        if wanted and f"  {wanted} at " in line and indent > depth:
            wanted, depth = next(stops, ""), indent
    assert not wanted
    assert re.search(r"sha256 [0-9a-f]{64}  \(raw data", "\n".join(lines))


def test_crate_describes_every_run(demo):
    crate = json.loads((demo.folder / "results/demo/provenance/ro-crate-metadata.json").read_text())
    actions = [entity for entity in crate["@graph"] if entity["@type"] == "CreateAction"]
    rules = {action["instrument"]["@id"] for action in actions}
    assert {"#fetch_dataset", "#train_federated", "#run_attack", "#make_table", "#build_report"} <= rules
