"""Every command with arguments that nobody meant, and with a system that refuses: one line, and no traceback."""

import errno
import io
import os
import sys
from pathlib import Path

import pytest
import typer
from cases.callers import make_project

from leaklab import cli
from leaklab.items.items import load_items, load_papers

COMMANDS = typer.main.get_command(cli.app).commands
CALLS = {
    "describe": ["{}"],
    "try": ["{}", "--budget 10s"],
    "try --arena": ["defense.py", "--arena={}", "--budget", "10s"],
    "try --budget": ["defense.py", "--budget={}"],
    "try --fail-on": ["defense.py", "--fail-on={}"],
    "list": ["{}"],
    "probe": ["{}"],
    "probe --client": ["folder", "--client={}"],
    "probe --truth": ["folder", "--truth={}"],
    "probe --fail-above": ["defense.py", "--fail-above={}"],
    "trace": ["{}"],
    "sign": ["--key={}"],
    "sign --scale": ["--key=defense.py", "--scale={}"],
    "adopt": ["--cores={}"],
    "report": ["{}"],
    "report --scale": ["--scale={}"],
    "findings": ["--scale={}"],
    "scoreboard": ["{}"],
    "submit": ["{}", "--file=defense.py", "--title=t", "--source=s"],
    "submit --file": ["defense.py", "--file={}", "--title=t", "--source=s"],
    "items": ["{}"],
    "plan": ["{}"],
    "plan --scale": ["--scale={}"],
    "plan --stop-above": ["--stop-above={}"],
    "fetch": ["{}"],
    "fetch --scale": ["--scale={}"],
    "pull": ["{}"],
    "pull --scale": ["--scale={}"],
    "calibrate": ["--device={}"],
    "audit": ["--signed-by={}"],
    "audit --git": ["--git={}"],
    "pack": ["--scale={}"],
    "remake": ["{}"],
    "remake --scale": ["--scale={}"],
    "remake --cores": ["--cores={}"],
    "schema": ["{}"],
}
"""Command with what is tried -> its words, in one of which the nonsense stands."""
NONSENSE = {
    "missing": "no/such.file",
    "empty": "empty.py",
    "no word": "",
    "binary": "binary.py",
    "a folder": "folder",
    "a file as folder": "empty.py/within",
    "closed": "closed.py",
    "over-long": "x" * 5000,
    "over-long path": "x/" * 5000,
    "a loop of links": "loop.py",
    "no text": os.fsdecode(b"M\xfcller.py"),
    "line breaks": "a\nb",
    "markup": "[red]{model}[/red]",
}


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    """A project with two items, and files of all kinds."""
    return make_project(tmp_path_factory.mktemp("edges") / "project")


@pytest.fixture
def ended(project, monkeypatch, capsys):
    """Call a command; return what it ended with, the text of its one line or its status, and what it printed."""
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(project.parent))
    load_items.cache_clear()
    load_papers.cache_clear()

    def call(*words, folder=project):
        monkeypatch.chdir(folder)
        monkeypatch.setenv("COLUMNS", "100")
        monkeypatch.setattr(sys, "argv", ["leaklab", *words])
        with pytest.raises(SystemExit) as status:
            cli.main()
        printed = capsys.readouterr()
        return status.value.code, printed.out + printed.err

    yield call
    load_items.cache_clear()
    load_papers.cache_clear()


@pytest.fixture
def closed_file(project, monkeypatch):
    """A file of another user, also for root, whom no mode stops."""

    def guarded(opened):
        def ask(file, *arguments, **more):
            if not isinstance(file, int) and Path(os.fsdecode(file)).name == "closed.py":
                raise PermissionError(errno.EACCES, "Permission denied", os.fsdecode(file))
            return opened(file, *arguments, **more)

        return ask

    monkeypatch.setattr(io, "open", guarded(io.open))
    monkeypatch.setattr("builtins.open", guarded(open))
    monkeypatch.setattr(os, "open", guarded(os.open))


def test_every_command_is_tried():
    assert {call.split()[0] for call in CALLS} == set(COMMANDS)


@pytest.mark.usefixtures("closed_file")
@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("kind", NONSENSE)
def test_a_nonsense_argument_is_refused_in_one_line(ended, name, kind):
    words = [word for words in CALLS[name] for word in words.split(" ")]
    said, printed = ended(name.split()[0], *(word.replace("{}", NONSENSE[kind]) for word in words))
    assert "Traceback" not in printed
    if isinstance(said, str):
        assert said.startswith("leaklab: ")
        assert "\n" not in said
        assert len(said) < 4100


@pytest.mark.parametrize("command", ["fetch", "items", "plan", "pull", "remake", "report"])
def test_a_name_that_is_empty_does_not_stand_for_everything(ended, command):
    said, printed = ended(command, "")
    assert said == "leaklab: the name of the item or paper is empty: write it, or leave it out where all are meant"
    assert printed == ""


REFUSALS = {
    "another user's": errno.EACCES,
    "read-only": errno.EROFS,
    "full": errno.ENOSPC,
    "quota": errno.EDQUOT,
    "broken": errno.EIO,
}


@pytest.mark.parametrize("name", COMMANDS)
@pytest.mark.parametrize("number", REFUSALS.values(), ids=REFUSALS)
def test_what_the_system_refuses_is_one_line_with_the_path(ended, monkeypatch, name, number):
    def refuse(*_):
        raise OSError(number, os.strerror(number), "results/small/x.csv")

    monkeypatch.setattr(COMMANDS[name], "invoke", refuse)
    monkeypatch.setattr(typer.main, "get_command", lambda _: _with(name, refuse))
    said, printed = ended(name)
    assert said.startswith("leaklab: ")
    assert "results/small/x.csv" in said
    assert "\n" not in said
    assert printed == ""


def _with(name, refuse):
    group = typer.main.get_group(cli.app)
    group.commands[name].params, group.commands[name].invoke = [], refuse
    return group
