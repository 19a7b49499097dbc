"""What adopted code stands for, what Snakemake sees of it, and that a changed adoption is noticed."""

from pathlib import Path

import pytest

from leaklab.planning import code
from leaklab.planning.adopted import FILE, Adopted, Adoption, Code, Evidence, Pair
from leaklab.records.errors import UserError
from leaklab.records.ledger import Entry, Ledger

RULE, MODULES = "run_attack", ("leaklab.steps.run_attack", "leaklab.attacks.dlg")
OTHER = ("leaklab.steps.run_attack", "leaklab.attacks.idlg")


def evidence(old="a", **fields):
    made = {"record": "results/runs/attack/x/run.json", "rule": RULE, "old": old, "new": "n", "commit": "c0"}
    return Evidence(**{**made, "parts": (RULE, "attacks/dlg"), "outputs": {"results/x": "1"}, **fields})


def pair(new, old, oldest=None, modules=MODULES, **fields):
    made = {"rule": RULE, "modules": modules, "new": new, "old": old, "oldest": oldest or old, "commits": ("c0",)}
    return Pair(**{**made, "parts": (RULE, "attacks/dlg"), **fields})


def adoption(*pairs, found=None):
    shown = (evidence(),) if found is None else found
    return Adoption(commit="f" * 40, date="now", machine={}, pairs=pairs, evidence=shown).sealed()


NOTHING = Ledger(Path(), ())


def test_snakemake_compares_the_oldest_digest_and_the_command_line_gets_the_real_one():
    """Snakemake compares ``repr`` and formats with ``str`` (persistence: ``_serialize_param_builtin``)."""
    code = Code("new", "old")
    assert repr(code) == "'old'"
    assert f"--code {code}" == "--code new"
    assert isinstance(code, str)


def test_without_adoption_a_digest_stands_for_itself():
    assert Adopted().oldest(RULE, MODULES, "a") == "a"
    assert Adopted().same(RULE, MODULES, "a") == {"a"}


def test_a_chain_of_adoptions_ends_at_the_oldest():
    chain = Adopted((adoption(pair("b", "a")), adoption(pair("c", "a"), pair("c", "b", oldest="a"))))
    assert {chain.oldest(RULE, MODULES, digest) for digest in "abc"} == {"a"}
    assert chain.same(RULE, MODULES, "c") == {"a", "b", "c"}
    assert chain.oldest(RULE, MODULES, "d") == "d"


def test_code_with_other_plugins_is_not_adopted_along():
    one = Adopted((adoption(pair("b", "a")),))
    assert one.oldest(RULE, OTHER, "b") == "b"
    assert one.same(RULE, OTHER, "b") == {"b"}


def test_merged_code_stands_for_different_code_by_its_plugins():
    """A refactoring may make two digests one; each keeps its own past."""
    merged = Adopted((adoption(pair("n", "a"), pair("n", "b", modules=OTHER)),))
    assert merged.oldest(RULE, MODULES, "n") == "a"
    assert merged.oldest(RULE, OTHER, "n") == "b"


def test_a_sound_adoption_has_no_faults_and_is_read_as_it_was_written(tmp_path):
    made = Adopted((adoption(pair("b", "a")),))
    made.write(tmp_path)
    assert Adopted.load(tmp_path) == made
    assert made.faults(NOTHING) == []


@pytest.mark.parametrize("change", [{"outputs": {"results/x": "2"}}, {"parts": (RULE,)}, {"commit": "c1"}])
def test_edited_evidence_is_noticed(change):
    sound = adoption(pair("b", "a"))
    edited = sound.model_copy(update={"evidence": (evidence(**change),)})
    assert any("changed since it was written" in fault for fault in Adopted((edited,)).faults(NOTHING))


@pytest.mark.parametrize(
    "found", [(), (evidence(parts=(RULE, "attacks/idlg")),), (evidence(old="z", commit="c9"),), (evidence(rule="x"),)]
)
def test_a_pair_without_evidence_is_noticed_even_under_a_seal(found):
    (fault,) = {f.split(": no ")[1] for f in Adopted((adoption(pair("b", "a"), found=found),)).faults(NOTHING)} - {
        f"repeated run shows {RULE} for {RULE} by code b"
    }
    assert fault == f"repeated run shows attacks/dlg for {RULE} by code b"


def test_a_run_of_another_digest_speaks_for_code_of_its_commit():
    shown = adoption(pair("b", "a"), found=(evidence(old="z"),))
    assert Adopted((shown,)).faults(NOTHING) == []


def test_evidence_that_its_record_contradicts_is_noticed(tmp_path):
    content = {"rule": RULE, "code": "a", "commit": "c0", "inputs": {}, "outputs": {"results/x": "other"}, "spec": {}}
    ledger = Ledger(tmp_path, (Entry(tmp_path / "run.json", content),))
    found = evidence(record=str(tmp_path / "run.json"))
    (fault,) = Adopted((adoption(pair("b", "a"), found=(found,)),)).faults(ledger)
    assert "results/x is not what" in fault


def test_a_damaged_file_is_one_line(tmp_path):
    (tmp_path / FILE).parent.mkdir()
    (tmp_path / FILE).write_text('{"adoptions": [{"commit": 1}]}', encoding="utf-8")
    with pytest.raises(UserError, match=r"results/adopted\.json: adoptions"):
        Adopted.load(tmp_path)


def test_the_command_line_of_a_rule_is_code_and_its_layout_is_not(tmp_path, monkeypatch):
    rules = tmp_path / "rules.smk"

    def command(text):
        rules.write_text(f"# a rule\nrule one:\n    input:\n        'a',\n    shell:\n{text}\n\nrule two:\n    shell:\n"
                         "        'other'\n", encoding="utf-8")  # fmt: skip
        code.command_of.cache_clear()
        return code.command_of("one")

    monkeypatch.setattr(code, "RULES", tmp_path)
    assert (
        command('        "run {input}"') == command("        'run'\n        # why\n        ' {input}'") == "run {input}"
    )
    assert command('        "run {output}"') == "run {output}"
    code.command_of.cache_clear()


def test_every_rule_with_a_step_has_a_command_that_names_it():
    for rule in [*code.RULE_OF_STAGE.values(), "make_table", "build_report", "fetch_dataset"]:
        assert f"leaklab.steps.{rule} " in code.command_of(rule)
