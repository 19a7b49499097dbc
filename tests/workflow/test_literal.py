"""The commands as README and docs print them, without a target: what they plan, and what is not run without data."""

import csv
import json
import re

import pytest
import yaml

pytestmark = pytest.mark.workflow
# a port where nothing listens: no test may reach the network
NO_NETWORK = dict.fromkeys(("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY"), "http://127.0.0.1:9")
# with GPUs where the Slurm of another test, which runs meanwhile, is said to have some
LINE = re.compile(
    r"^leaklab: scale (\w+): (\d+) jobs, .*at most ([\d.,]+) (?:CPU hours|hours of one GPU); (.*)$", re.MULTILINE
)


def planned(text):
    """Return what the opening line says (scale, jobs, data) after checking that Snakemake plans as many."""
    (line,) = LINE.findall(text)
    total = re.search(r"^total\s+(\d+)$", text, re.MULTILINE)
    assert total, text[-2000:]
    assert int(total[1]) == int(line[1]) + 1  # and the target itself
    return line[0], int(line[1]), line[3]


@pytest.fixture(scope="module")
def unmade(checkout, tmp_path_factory):
    """A fresh clone: in the other checkout the demo may have been made meanwhile."""
    return checkout.clone(tmp_path_factory.mktemp("unmade") / "leaklab")


@pytest.fixture(scope="module")
def command_of_dvc(unmade):
    """The command that `dvc repro` would run."""
    text = unmade.must("dvc", "repro", "--dry")
    found = re.search(r"^> (snakemake .*)$", text, re.MULTILINE)
    assert found, text
    return found[1].split()


def test_bare_snakemake_plans_the_demo(unmade):
    scale, jobs, data = planned(unmade.must("snakemake", "-n", **NO_NETWORK))
    assert (scale, data) == ("demo", "all data are at hand")
    assert jobs > 100


def test_dvc_repro_makes_the_same(unmade, command_of_dvc):
    assert command_of_dvc == yaml.safe_load((unmade.folder / "dvc.yaml").read_text())["stages"]["demo"]["cmd"].split()
    text = unmade.must("snakemake", "--dry-run", *command_of_dvc[1:], **NO_NETWORK)
    assert planned(text)[0] == "demo"


def test_the_slurm_profile_plans_the_paper_without_what_has_no_data(unmade, tmp_path):
    raw = tmp_path / "mirror/data/MNIST/raw"
    raw.mkdir(parents=True)
    for name in ("train-images-idx3", "train-labels-idx1", "t10k-images-idx3", "t10k-labels-idx1"):
        (raw / f"{name}-ubyte.gz").touch()
    text = unmade.must("snakemake", "--profile", "slurm", "-n", LEAKLAB_MIRROR=str(tmp_path / "mirror"), **NO_NETWORK)
    scale, jobs, data = planned(text)
    assert scale == "paper"
    assert jobs > 200
    assert data.startswith("not run for want of data: ")
    assert {"cifar10", "imagenet-full", "text/cola"} <= set(data.split(": ")[1].split(", "))
    assert "mnist" not in data.split(": ")[1].split(", ")


@pytest.mark.parametrize("profile", [[], ["--profile", "slurm"]])
def test_the_command_line_chooses_another_scale(unmade, profile):
    text = unmade.must("snakemake", *profile, "-n", "--config", "scale=demo", **NO_NETWORK)
    assert planned(text)[0] == "demo"


def test_data_and_weights_are_fetched_before_anything_runs(unmade, tmp_path):
    login = unmade.copy(tmp_path / "login")
    place = login.folder / "data/prepared/digits.safetensors"
    assert not place.exists()
    told = login.must("leaklab", "fetch", "lrp", "figure2", "--scale", "demo", **NO_NETWORK).splitlines()[-2:]
    assert told == ["digits: 1,433 training and 364 test images of 10 classes, 1x28x28, mean 0.31", "1 of 1 are here"]
    assert place.is_file()
    text = login.must("leaklab", "fetch", "lrp", "table1", "--scale", "small", **NO_NETWORK)
    assert "mnist: data not here: MNIST" in text
    assert text.endswith("0 of 1 are here; bring the others by hand\n")


def test_what_has_no_data_is_shown_as_not_run_and_nothing_else_stops(few, tmp_path):
    poor = few.copy(tmp_path / "poor")
    for name, dataset in (("figure2", ["digits", "mnist"]), ("table5", "cifar10")):
        path = poor.folder / f"config/items/lrp/{name}.yaml"
        item = yaml.safe_load(path.read_text())
        item["scales"]["demo"].setdefault("set", {})["dataset"] = dataset
        path.write_text(yaml.safe_dump(item, allow_unicode=True, sort_keys=False))
        for folder in ("results", "figures"):
            for made in (poor.folder / folder / "demo/lrp").glob(f"{name}.*"):
                made.unlink()
    text = poor.must("snakemake", "--quiet", "rules", "progress", **NO_NETWORK)
    assert "not run for want of data: cifar10, mnist" in text
    with (poor.folder / "results/demo/lrp/figure2.csv").open() as handle:
        lines = [(json.loads(line["row"])["dataset"], line["value"], line["note"]) for line in csv.DictReader(handle)]
    assert {bool(value) for dataset, value, _ in lines if dataset == "digits"} == {True}
    absent = [(value, note) for dataset, value, note in lines if dataset == "mnist"]
    assert absent
    assert all(not value and note.startswith("not run: data not here: MNIST") for value, note in absent)
    page = (poor.folder / "results/demo/report/lrp-table5.html").read_text()
    assert "not run" in page
    assert "data not here: CIFAR-10" in page
    assert "audit passed" in poor.run("leaklab", "audit").stdout or "uncommitted" in poor.run("leaklab", "audit").stdout
    assert "Nothing to be done" in poor.must("snakemake", "-n", **NO_NETWORK)


def test_a_lost_table_is_made_again_by_the_bare_call(few, tmp_path):
    torn = few.copy(tmp_path / "torn")
    table = torn.folder / "results/demo/lrp/table1.csv"
    before = table.read_bytes()
    table.unlink()
    torn.must("snakemake", "--quiet", "rules", "progress")
    assert table.read_bytes() == before


def test_papers_own_rows_are_not_needed(few, tmp_path):
    fourth = few.copy(tmp_path / "fourth")
    folder = fourth.folder / "config/items/mine"
    folder.mkdir()
    (folder / "paper.yaml").write_text("title: A paper of my own\ncitation: Somebody (MINE)\norder: 9\n")
    item = yaml.safe_load((fourth.folder / "config/items/lrp/table4.yaml").read_text())
    own = {**item, "paper": "mine", "number": 1, "claims": []}
    (folder / "table4.yaml").write_text(yaml.safe_dump(own, allow_unicode=True, sort_keys=False))
    fourth.must("snakemake", "--quiet", "rules", "progress")
    assert "A paper of my own" in (fourth.folder / "results/demo/report/index.html").read_text()
    assert (fourth.folder / "results/demo/mine/table4.csv").is_file()
