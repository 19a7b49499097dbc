"""DVC and Snakemake together: what one clone made, another one does not make again."""

import os
import random
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.workflow
OWN = ("data/prepared/scans-guest-0123456789ab.json", "results/runs/capture/scans-guest-0123456789ab-mlp-1/run.json",
       "results/demo/mine/scans.csv", "figures/demo/mine/scans.png")  # fmt: skip
SHARE = ("make", "share", "READY=", f"BIN={Path(sys.executable).parent}")


@pytest.fixture(scope="module")
def pulled(demo, tmp_path_factory):
    """A clone of a clone that ran the demo and pushed it to a folder."""
    place = tmp_path_factory.mktemp("sharing")
    author = demo.copy(place / "author")
    author.must("dvc", "remote", "add", "--default", "store", str(place / "store"))
    for path in OWN:
        (author.folder / path).parent.mkdir(parents=True, exist_ok=True)
        (author.folder / path).write_text("a private sentence")
    said = author.must(*SHARE)
    assert "git add dvc.lock results/dvc.lock .dvc/config && git commit" in said
    author.must("git", "add", "--all")
    author.must("git", "commit", "--quiet", "--message", "the demo")
    author.must("git", "clone", "--quiet", str(author.folder), str(place / "reader"))
    reader = type(demo)(place / "reader")
    reader.must("dvc", "pull")
    return reader


def test_one_item_alone_is_pulled_and_needs_no_work(pulled, tmp_path):
    colleague = pulled.clone(tmp_path / "colleague")
    colleague.must("dvc", "remote", "add", "--force", "--default", "store", str(pulled.folder.parent / "store"))
    said = colleague.must("leaklab", "pull", "lrp", "table1", "--scale", "demo")
    runs = {path.parent.name for path in (colleague.folder / "results/runs").rglob("run.json")}
    assert f"{len(runs)} of {len(runs)} runs are here" in said
    assert 0 < len(runs) < len(list((pulled.folder / "results/runs").rglob("run.json"))) / 5
    assert "Nothing to be done" in colleague.must(
        "snakemake", "--dry-run", "--cores", "2", "figures/demo/lrp/table1.png"
    )
    assert not (colleague.folder / "figures/demo/lrp/table4.png").exists()


def test_what_is_ones_own_is_shared_with_nobody(pulled):
    assert not [path for path in OWN if (pulled.folder / path).exists()]
    stored = [path.read_bytes() for path in (pulled.folder.parent / "store").rglob("*") if path.is_file()]
    assert stored
    assert not [content for content in stored if b"a private sentence" in content or b"-guest-" in content]


def test_without_a_remote_pull_says_what_to_do(pulled, tmp_path):
    alone = pulled.clone(tmp_path / "alone")
    alone.must("dvc", "remote", "remove", "store")
    done = alone.run("leaklab", "pull", "lrp", "table1", "--scale", "demo")
    assert done.returncode == 1
    assert "dvc remote add" in done.stdout.splitlines()[-1]
    assert "Traceback" not in done.stdout


def nothing_to_do(checkout):
    return "Nothing to be done" in checkout.must("snakemake", "--dry-run", "--cores", "2", "demo")


def test_a_clone_with_pulled_files_has_nothing_to_do(pulled):
    assert nothing_to_do(pulled)


def test_times_of_files_do_not_matter(pulled):
    files = [path for path in pulled.folder.rglob("*") if path.is_file() and ".git" not in path.parts]
    random.Random(0).shuffle(files)
    for second, path in enumerate(files):
        os.utime(path, (1_900_000_000 + second, 1_900_000_000 + second))
    assert nothing_to_do(pulled)


def test_the_audit_passes_on_the_clone(pulled):
    assert "audit passed" in pulled.must("leaklab", "audit")


def test_a_missing_report_is_made_again_and_nothing_before_it(pulled, tmp_path):
    torn = pulled.copy(tmp_path / "torn")
    (torn.folder / "results/demo/report/index.html").unlink()
    text = torn.must("snakemake", "--dry-run", "--cores", "2", "demo")
    assert "rule build_report" in text
    assert "rule make_table" not in text
