"""What a rule declares reaches its step: the command is no part of the digest of code, so it may say nothing more."""

import re

from leaklab.planning.lookups import AHEAD, BESIDE

NOT_TOLD = {
    # Snakemake compares it, and the step records the digest itself
    "generation",
    # the catalog's entry, which the step looks up
    "source",
}


def test_every_command_passes_on_all_that_its_rule_declares(rule_texts):
    """Files are passed on by their names (``planning/lookups.py``), so all of them need one."""
    assert len(rule_texts) > 25
    for rule, sections in rule_texts.items():
        for section in ("input", "output", "params"):
            entries = re.findall(r"^        ([^\s)\]#]\S*)", sections.get(section, ""), re.MULTILINE)
            assert all(re.match(r"\w+=", entry) for entry in entries), (rule, entries)
        declared = set(re.findall(r"^        (\w+)=", sections["params"], re.MULTILINE))
        if rule == "join_pieces":
            assert declared == set(re.findall(r"\{params\.(\w+)", sections["shell"]))
            continue
        name, *options = re.findall(r'"(\w+)"', sections["shell"])
        assert name == rule
        assert declared - NOT_TOLD == {"spec", "code", "files", *({"device"} & set(options))}, rule


def test_what_is_not_passed_on_is_declared_somewhere(rule_texts):
    for section, names in (("input", AHEAD), ("output", BESIDE)):
        declared = "".join(sections.get(section, "") for sections in rule_texts.values())
        assert all(f"        {name}=" in declared for name in names)


def test_every_rule_with_a_step_gives_snakemake_its_generation_and_the_step_its_digest(rule_texts):
    for rule, sections in rule_texts.items():
        if rule != "join_pieces":
            for kind in ("generation", "code"):
                found = re.findall(rf"^        {kind}=(runs|results)\.{kind}_of\(", sections["params"], re.MULTILINE)
                assert len(found) == 1, rule
