"""A refactoring recomputes nothing, with evidence; a changed number adopts nothing."""

import json

import pytest

pytestmark = pytest.mark.workflow
TARGETS = ("figures/demo/lrp/table4.png",)
STEP = "src/leaklab/steps/make_table.py"
LOCK = "results/code.lock"
KEY = "make_table models/dlg-lenet report/collect/checks"


def snakemake(checkout, *options):
    return checkout.must("snakemake", "--cores", "2", "--quiet", "rules", "progress", *options, "--", *TARGETS)


def nothing_to_do(checkout):
    return "Nothing to be done" in checkout.must("snakemake", "--dry-run", "--cores", "2", *TARGETS)


def commit(checkout):
    checkout.must("git", "add", "--all")
    checkout.must("git", "commit", "--quiet", "--message", "more")


@pytest.fixture(scope="module")
def made(checkout, tmp_path_factory):
    """A clone in which one quick item was made; published results would have to be adopted too, which takes long."""
    clone = checkout.clone(tmp_path_factory.mktemp("adopt") / "made").only("lrp/table4")
    snakemake(clone)
    return clone


def test_a_renamed_function_is_adopted_twice_and_a_changed_word_is_not(made, tmp_path):
    work = made.copy(tmp_path / "work")
    assert "nothing to adopt" in work.must("leaklab", "adopt")
    work.edit(STEP, "_pointer", "_elsewhere")
    assert "commit the code first" in work.run("leaklab", "adopt").stdout
    commit(work)
    assert not nothing_to_do(work)
    assert work.run("leaklab", "audit").returncode == 1

    # comes before the adoption, so that it has something to refuse
    wrong = work.copy(tmp_path / "wrong")
    wrong.edit(STEP, "(scale {", "(at scale {")
    commit(wrong)
    refused = wrong.run("leaklab", "adopt")
    assert refused.returncode == 1
    assert "nothing is adopted: results/demo/lrp/" in refused.stdout
    assert ".run.json is not the same any more" in refused.stdout
    assert not (wrong.folder / LOCK).exists()
    assert not nothing_to_do(wrong)

    work.must("leaklab", "adopt")
    assert nothing_to_do(work)
    assert "adopted on the evidence of" in work.must("leaklab", "audit")

    work.edit(STEP, "_elsewhere", "_csv_alone")
    commit(work)
    assert not nothing_to_do(work)
    work.must("leaklab", "adopt")
    assert nothing_to_do(work)
    work.must("leaklab", "audit")
    text = (work.folder / LOCK).read_text()
    line = json.loads(text)[KEY]
    assert (len(line["accepted"]), line["generation"]) == (3, line["accepted"][0])

    (work.folder / LOCK).write_text(text.replace(f'"generation":"{line["generation"]}"', f'"generation":"{"0" * 16}"'))
    tampered = work.run("leaklab", "audit")
    assert tampered.returncode == 1
    assert "its generation is not among what was accepted" in tampered.stdout


def test_an_edit_of_a_function_that_no_step_reaches_plans_no_job(made, tmp_path):
    work = made.copy(tmp_path / "work")
    files = "src/leaklab/records/files.py"
    work.edit(files, "def write_tensors(", "def unused() -> None:\n    print(1)\n\n\ndef write_tensors(")
    work.edit(files, "    content = save(", "    print(2)\n    content = save(")  # tables and figures write no tensors
    commit(work)
    assert nothing_to_do(work)
    work.must("leaklab", "audit")
    work.edit(files, "temporary.write_text(text,", "temporary.write_text(str(text),")  # and text they do
    commit(work)
    assert not nothing_to_do(work)
