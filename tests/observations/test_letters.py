"""An attack's letter follows from what it declares, and the page says the same."""

import re
import subprocess
from pathlib import Path

import pytest

from leaklab.observations import letters, requirements
from leaklab.observations.declared import Requirements
from leaklab.observations.letters import (
    HOUSE,
    LETTERS,
    Letter,
    letter,
    letter_of,
    letter_of_facts,
    made_for,
    without_attacker,
)
from leaklab.observations.threat_models import MARKS, OF_A_LETTER, granted
from leaklab.records import plugins
from leaklab.records.errors import UserError
from leaklab.specs.attack import AttackSpec
from leaklab.specs.generator import GeneratorSpec
from leaklab.specs.text import TextAttackSpec

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/attacks.md").read_text(encoding="utf-8")


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
        return GeneratorSpec.model_validate({"dataset": "mnist", "steps": 3, **fields}).made_from

    assert named() == "train part of mnist"
    assert named(split="test") == "test part of mnist"
    assert named(steps=0, model="biggan-deep") == "published weights of biggan-deep"


class TestWhomAnAttackIsMadeFor:
    @staticmethod
    def attack(defense, transform="none", text=False):
        capture = {"dataset": "digits", "images": {"count": 1}, "model": "mlp", "defense": defense}
        if text:
            capture = {"dataset": "printed-sentences", "sentences": {}, "model": "bert-classifier", "defense": defense}
            return TextAttackSpec.model_validate({"attack": "tag", "capture": capture})
        fields = {"attack": "dlg", "transform": transform, "iterations": 1, "capture": capture}
        return AttackSpec.model_validate(fields)

    def test_of_a_defense_from_elsewhere_nobody_knows(self):
        """A transform that fits every defense was made for none of them."""
        free = ("none", "closed-form-scale", "profiled-scale", "learnt")
        tried = [self.attack("mine", transform) for transform in free]
        assert not made_for("mine", [*tried, self.attack("mine", text=True)])
        assert without_attacker(tried) == ("mine",)

    def test_who_names_it_was_made_for_it(self, monkeypatch):
        def naming_mine(room, name):
            return Requirements(fits=("none", "mine") if name == "closed-form-scale" else ())

        monkeypatch.setattr(letters, "declared", naming_mine)
        assert made_for("mine", [self.attack("mine"), self.attack("mine", "closed-form-scale")])
        assert not made_for("mine", [self.attack("mine")])
        assert not made_for("another", [self.attack("another", "closed-form-scale")])

    def test_each_defense_is_judged_by_what_was_tried_on_it(self, monkeypatch):
        monkeypatch.setattr(letters, "declared", lambda room, name: Requirements(fits=("mine",)))
        monkeypatch.setattr(letters, "HOUSE", frozenset({"none", "lrp"}))
        attacks = [self.attack(defense, "profiled-scale") for defense in ("none", "lrp", "mine", "thine", "thine")]
        assert without_attacker(attacks) == ("thine",)

    def test_the_house_is_what_this_package_comes_with(self):
        """Files that git does not know are the user's own."""
        command = ["git", "ls-files", "src/leaklab/defenses"]
        listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False).stdout.split()
        if not listed:
            pytest.skip("no git checkout")
        known = {(ROOT / name).resolve() for name in listed}
        offers = plugins.offers("defenses")
        assert {name for name, offer in offers.items() if offer.file.resolve() in known} == HOUSE

    def test_the_items_pages_say_what_they_said(self, whole_plan):
        attacks = [run.tried for runs in whole_plan.runs.values() for run in runs if run.tried]
        assert len(attacks) > 100
        assert without_attacker(attacks) == ()
