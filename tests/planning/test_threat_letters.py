"""An attack's letter follows from what it declares, and the page says the same."""

import re
from pathlib import Path

import pytest

from leaklab.observations import requirements
from leaklab.observations.threat_models import MARKS, OF_A_LETTER, granted
from leaklab.planning.threat_letters import LETTERS, Letter, letter, letter_of, letter_of_facts, public_data
from leaklab.records import plugins
from leaklab.records.errors import UserError
from leaklab.records.generator_spec import GeneratorSpec
from leaklab.records.text_specs import TextAttackSpec

PAGE = (Path(__file__).parents[2] / "docs/attacks.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("attack", plugins.available("attacks"))
def test_the_page_names_the_letters_of_every_attack(attack):
    row = re.search(rf"^\| `{attack}` \| (\S+) \| (\S+) \| (\S+) \| \S", PAGE, re.MULTILINE)
    assert row, f"docs/attacks.md has no line for {attack}"
    expected = letter(attack), letter(attack, kind="delta"), letter(attack, manipulated=True)
    assert row.groups() == expected


def test_the_page_explains_every_letter():
    for name, text in LETTERS.items():
        assert f"| {name} | {text.split(':')[0]} |" in PAGE


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ({"attack": "ig", "settings": {"label_rule": "bias"}}, "B"),
        ({"attack": "idlg", "transform": "closed-form-scale", "kind": "delta"}, "B"),
        ({"attack": "idlg", "transform": "matched-noise"}, "C+d"),
        ({"attack": "annealed-map", "settings": {"label_rule": "known"}}, "D+y+p"),
        ({"attack": "ggl", "manipulated": True}, "G+p"),
    ],
)
def test_settings_transforms_and_servers_move_the_letter(arguments, expected):
    assert letter(**arguments) == expected


def test_a_threat_model_has_the_letter_of_what_it_grants():
    named = {name: str(letter_of_facts(granted(name))) for name in ("honest-but-curious", "malicious-server")}
    assert named == {"honest-but-curious": "D+d+p", "malicious-server": "G+d+p"}
    assert [letter_of_facts(granted(name)).name for name in OF_A_LETTER] == ["B", "C", "D"]
    assert str(letter_of_facts(granted("parameter-aware+y+d"))) == "C+y+d"


@pytest.mark.parametrize("transform", plugins.available("attacks/adaptive"))
@pytest.mark.parametrize("attack", plugins.available("attacks"))
def test_what_a_letters_model_allows_has_that_letter_or_a_weaker_one(attack, transform):
    for model in (name + mark for name in OF_A_LETTER for mark in MARKS):
        most = letter_of_facts(granted(model))
        for kind in ("gradient", "delta"):
            try:
                requirements.check(attack, {}, model, transform, {}, kind)
            except UserError:
                continue
            found = letter(attack, {}, transform, kind)
            assert found[0] <= most.name
            assert most.labels or "+y" not in found
            assert most.defense or "+d" not in found


def test_attacks_on_text_have_letters_too():
    def found(attack, labels="searched", **fields):
        capture = {"dataset": "printed-sentences", "sentences": {}, "model": "bert-classifier", **fields}
        return str(letter_of(TextAttackSpec.model_validate({"capture": capture, "attack": attack, "labels": labels})))

    assert found("tag") == found("token-order") == "B"
    assert found("tag", kind="delta") == "C"
    assert found("mean-cosine", kind="delta") == "B"
    assert found("tag", "known") == "B+y"


def test_marks_stand_in_one_order():
    assert str(Letter("D", labels=True, defense=True, public=True)) == "D+y+d+p"
    assert str(Letter("A")) == "A"


def test_data_of_others_are_named():
    def named(**fields):
        return public_data(GeneratorSpec.model_validate({"dataset": "mnist", "steps": 3, **fields}))

    assert public_data(None) == ""
    assert named() == "train part of mnist"
    assert named(split="test") == "test part of mnist"
    assert named(steps=0, model="biggan-deep") == "published weights of biggan-deep"
