"""What a rule declares reaches its step: the command is no part of the digest of code, so it may say nothing more."""

import re

NOT_TOLD = {
    # Snakemake compares it, and the step records the digest itself
    ("params", "generation"),
    # they only have to be there first: a checkpoint is found beside the outputs
    ("input", "checkpoint"),
    ("input", "before"),
    # the catalog's entry, which the step looks up
    ("params", "source"),
    # they are built into the folder of the index
    ("output", "pages"),
}


def test_every_command_passes_on_all_that_its_rule_declares(rule_texts):
    assert len(rule_texts) > 25
    for rule, sections in rule_texts.items():
        declared = {
            (section, name)
            for section in ("input", "output", "params")
            for name in re.findall(r"^        (\w+)=", sections.get(section, ""), re.MULTILINE)
        }
        passed = set(re.findall(r"\{(input|output|params)\.(\w+)", sections["shell"]))
        assert passed <= declared, rule
        assert declared - passed <= NOT_TOLD, rule
        assert f"leaklab.steps.{rule} " in sections["shell"] or "piece" in rule or rule == "join_pieces"


def test_every_rule_with_a_step_gives_snakemake_its_generation_and_the_step_its_digest(rule_texts):
    for rule, sections in rule_texts.items():
        if "--code " in sections["shell"]:
            assert "--code {params.code}" in sections["shell"], rule
            for kind in ("generation", "code"):
                assert (
                    len(re.findall(rf"^        {kind}={kind}_of_(run|rule)\(", sections["params"], re.MULTILINE)) == 1
                )
