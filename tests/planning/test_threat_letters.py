"""An attack's letter follows from what it declares, and the page says the same."""

import re
from pathlib import Path

import pytest

from leaklab.planning.threat_letters import LETTERS, letter
from leaklab.records import plugins

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
        ({"attack": "annealed-map", "settings": {"label_rule": "known"}}, "D+y"),
        ({"attack": "ggl", "manipulated": True}, "G"),
    ],
)
def test_settings_transforms_and_servers_move_the_letter(arguments, expected):
    assert letter(**arguments) == expected
