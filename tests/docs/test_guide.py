"""The guide is true: messages are those of the code, words and letters those of the reference, its commands work."""

import ast
import json
import re
from functools import cache
from pathlib import Path

import pytest
from typer.testing import CliRunner

from leaklab.cli import app
from leaklab.guests.verdict import STATUS
from leaklab.report.judge.verdicts import SIGNS

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
GUIDE = ("index", "getting-started", "concepts", "artifact", "own-defense", "own-attack", "own-data", "own-model",
         "own-paper", "gate", "probe", "record", "papers/lrp", "papers/outpost", "papers/hyperfl")  # fmt: skip
NAMES = {"CIFAR", "MNIST", "EMNIST", "FEMNIST", "CINIC", "LFW", "JSON", "YAML", "HTML", "PNG", "CPU", "GPU", "README",
         "SHA", "TOML", "RAM", "ID", "GB", "GPT", "URL", "NVFLARE"}  # fmt: skip
"""Names of data sets, formats and machines, which are no words of this field."""


def text_of(name):
    return (DOCS / f"{name}.md").read_text(encoding="utf-8")


def cells(name):
    """Return the cells of every line of every table of a page, heads left out."""
    lines = re.findall(r"^\| (.*) \|$", text_of(name), re.MULTILINE)
    return [[cell.strip() for cell in re.split(r"(?<!\\)\|", line)] for line in lines if not re.match(r"-+", line)]


@cache
def texts_of_the_code():
    """The texts of modules that refuse something, and the Makefile, with a sign for each place that is filled in."""
    found = [(ROOT / "Makefile").read_text(encoding="utf-8")]
    sources = [path.read_text(encoding="utf-8") for path in (ROOT / "src/leaklab").rglob("*.py")]
    sources = [one for one in sources if "Error" in one or "failed" in one]  # all of them take seconds
    before = (ROOT / ".ci/before_setup.py").read_text(encoding="utf-8")
    for source in (before, *sources):
        for node in ast.walk(ast.parse(source)):
            if isinstance(node, ast.JoinedStr):
                parts = (part.value if isinstance(part, ast.Constant) else "\0" for part in node.values)
                found.append("".join(map(str, parts)))
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                found.append(node.value)
    return found


def said_by_the_code(message):
    """Whether some text of the code has the parts of a message between its dots, in this order."""
    parts = [re.escape(part.strip(" ")) for part in re.split(r"(?:\.\.\.)+", message) if part.strip(" .,:'()")]
    wanted = re.compile(".*?".join(parts), re.DOTALL)
    return any(wanted.search(text) for text in texts_of_the_code())


def test_every_message_of_troubleshooting_is_one_of_the_code():
    messages = [row[0] for row in cells("troubleshooting") if row[0] != "it says"]
    assert len(messages) > 25
    assert [said for said in messages if not said_by_the_code(said.strip("`"))] == []


def test_a_message_that_nobody_says_is_noticed():
    assert said_by_the_code("... is damaged (sha256 ......, not ......): delete it")
    assert not said_by_the_code("... is broken (sha256 ......, not ......): delete it")


def test_letters_and_words_are_those_of_the_reference():
    letters = [row for row in cells("attacks") if re.fullmatch("[A-H]", row[0])]
    assert letters == [row for row in cells("concepts") if re.fullmatch("[A-H]", row[0])]
    assert {f"{sign} {word}" for word, sign in SIGNS.items()} <= {row[0] for row in cells("concepts")}


def test_every_abbreviation_of_the_guide_is_spelled_out():
    known = {row[0] for row in cells("glossary")}
    assert len(known) == len(cells("glossary")), "a word stands twice"
    used = set()
    for name in GUIDE:
        prose = re.sub(r"```.*?```|`[^`]*`|\]\([^)]*\)", "", text_of(name), flags=re.DOTALL)
        used |= set(re.findall(r"(?<![\w-])[A-Z]{2,}[A-Z0-9]*(?![\w-])", prose))
    assert {"DLG", "LRP", "OUTPOST"} <= used
    assert sorted(used - {word.upper() for word in known} - known - NAMES) == []


def test_the_command_of_getting_started_makes_a_card_of_ones_own_defense(tmp_path, monkeypatch):
    """All that is left out is time: the budget is the shortest, so that the word may be open."""
    page = text_of("getting-started")
    (guest,) = re.findall(r"^```python\n(# rounding.py\n.*?)^```$", page, re.MULTILINE | re.DOTALL)
    assert guest in text_of("own-defense")
    (line,) = re.findall(r"^```bash\nleaklab (try .*)\n```$", page, re.MULTILINE)
    (tmp_path / "rounding.py").write_text(guest, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    words = line.split()
    words[words.index("--budget") + 1] = "15s"
    done = CliRunner().invoke(app, words)
    card = json.loads(Path("card/card.json").read_text(encoding="utf-8"))
    assert card["warnings"] == []
    assert done.exit_code == STATUS[card["verdict"]]
    assert card["verdict"] in done.stdout
    assert {path.name for path in Path("card").iterdir()} == {"card.json", "card.html", "card.md", "badge.svg"}
    assert all(f"*{word}*" in " ".join(page.split()) for word in STATUS)


@pytest.mark.parametrize("name", ["index", "getting-started", "concepts"])
def test_the_first_pages_stay_short(name):
    assert len(text_of(name).splitlines()) < 160
