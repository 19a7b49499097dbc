"""From a card to a line of the scoreboard, by the commands of its page, and what the page shows."""

import json
import shutil
from pathlib import Path

import pytest
from typer.testing import CliRunner

from leaklab.cli import app
from leaklab.guests.scoreboard import FOLDER, read_entries
from leaklab.metrics.gains import CLEAR
from leaklab.records.errors import UserError
from leaklab.report.site import scoreboard
from leaklab.report.site.site import _environment

ROOT = Path(__file__).parents[3]
NAME = "lrp"


@pytest.fixture
def repository(tmp_path, monkeypatch):
    """Return a folder with a defense, and the card that `leaklab try` wrote of it."""
    (tmp_path / FOLDER).mkdir(parents=True)
    shutil.copy(ROOT / FOLDER / f"{NAME}.py", tmp_path / FOLDER)
    card = json.loads((ROOT / FOLDER / f"{NAME}.json").read_text(encoding="utf-8"))["card"]
    (tmp_path / "card.json").write_text(json.dumps(card), encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def submitted(*more, card="card.json", file=f"{FOLDER}/{NAME}.py"):
    words = ["submit", card, "--file", file, "--title", "Mine", "--source", "my paper", *more]
    return CliRunner().invoke(app, words, catch_exceptions=True)


def test_a_card_becomes_an_entry_and_a_line(repository):
    done = submitted("--name", "mine")
    assert done.exit_code == 0, done.output
    assert "open a pull request" in done.output
    (entry,) = read_entries()
    assert (entry.name, entry.origin, entry.file) == ("mine", "guest", f"{FOLDER}/{NAME}.py")
    shown = CliRunner().invoke(app, ["scoreboard"]).output
    assert "Mine" in shown
    assert "older attackers" not in shown
    (line,) = json.loads(CliRunner().invoke(app, ["scoreboard", "--json"]).output)
    assert (line["name"], line["current"]) == ("mine", True)
    assert CliRunner().invoke(app, ["scoreboard", "--stale"]).output == ""
    assert submitted("--name", "mine").exit_code == 0  # judged again


def test_slips_are_one_line(repository):
    def refused(*more, **other):
        error = submitted(*more, **other).exception
        assert isinstance(error, UserError), error
        return str(error)

    (repository / "other.py").write_text("def defend(gradients):\n    return gradients\n", encoding="utf-8")
    assert "judge this one with `leaklab try other.py`" in refused(file="other.py")
    (repository / "no.json").write_text("[]", encoding="utf-8")
    assert "no card of a defense" in refused(card="no.json")
    assert "it is no card" in refused(card="lacking.json")
    submitted("--name", "mine")
    shutil.copy(repository / FOLDER / f"{NAME}.py", repository / "copy.py")
    assert "another defense's" in refused("--name", "mine", file="copy.py")
    shutil.rmtree(repository / FOLDER)
    with pytest.raises(UserError, match="there are no entries"):
        CliRunner().invoke(app, ["scoreboard"], catch_exceptions=False)


def test_the_page_is_whole_without_its_script(monkeypatch):
    monkeypatch.chdir(ROOT)
    lines = scoreboard.standings()

    class Site:
        scale, version, commit, dirty, scoreboard = "small", "1", "", False, lines

    text = _environment().get_template("scoreboard.html").render(site=Site, **scoreboard.page(lines))
    body = text.partition("<script>")[0]
    for line in lines:
        assert f'id="{line.entry.name}"' in body
        assert scoreboard.percent(line) in body
        assert f"leaklab try {line.entry.file}" in body.replace("<wbr>", "")
    assert '<form class="filters" hidden>' in body
    assert "http" not in text.replace("http://www.w3.org", "")


def test_page_and_document_say_from_which_gain_on_nothing_is_left(monkeypatch):
    monkeypatch.chdir(ROOT)

    class Site:
        scale, version, commit, dirty, scoreboard = "small", "1", "", False, ()

    text = _environment().get_template("scoreboard.html").render(site=Site, **scoreboard.page(()))
    assert f"at least {CLEAR:g}&nbsp;dB above that guess" in text
    assert f"at least {CLEAR:g} dB above that guess" in (ROOT / "docs/scoreboard.md").read_text(encoding="utf-8")
