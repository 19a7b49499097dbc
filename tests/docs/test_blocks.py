"""Every example of the documentation is one that works: Python and data are read, commands and their options are there.

What the examples do is tested where the thing itself is: those that make something run in tests of their own.
"""

import ast
import re
import shlex
import tomllib
from pathlib import Path

import pytest
import typer
import yaml

from leaklab.cli import app
from leaklab.items.items import load_items
from leaklab.records.config import SCALES

ROOT = Path(__file__).parents[2]
FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
FOLDERS = ("docs", "docs/examples", "config", "profiles")
PAGES = sorted(path for folder in FOLDERS for path in (ROOT / folder).glob("*.md"))
READERS = {"python": ast.parse, "yaml": yaml.safe_load, "toml": tomllib.loads}
SHELL = {"leaklab", "snakemake", "make", "python", "git", "cd", "cp", "source", "srun", "tail", "openssl"}
PROMPTS = {"LEAKLAB_RECORD=$PWD/leaves", "PYTHONPATH=benchmarks", ".venv/bin/python"}
RESULT = re.compile(r"(?:results|figures)/(?P<scale>\w+)/(?P<paper>[\w-]+)/(?P<item>[\w-]+)\.(?:csv|png)")
OWN = {("mine", "rounding"), ("mine", "scans"), ("dlg", "digits")}
"""Items that the pages have their reader write."""


def blocks():
    for page in PAGES:
        for number, (language, text) in enumerate(FENCE.findall(page.read_text(encoding="utf-8")), 1):
            yield pytest.param(language, text, id=f"{page.relative_to(ROOT)}-{number}")


def commands(text):
    """Return the words of each line that is a command; comments are left out."""
    lines = (shlex.split(line, comments=True) for line in text.replace("\\\n", " ").splitlines())
    return [words for words in lines if words]


def workflows():
    for path in sorted((ROOT / ".github/workflows").glob("*.yml")):
        for job in yaml.safe_load(path.read_text(encoding="utf-8"))["jobs"].values():
            yield from (step["run"] for step in job["steps"] if "run" in step)


@pytest.fixture(autouse=True)
def arena(tmp_path, monkeypatch):
    """The folder of a reader who has written the arena of the page, which `--arena` looks at."""
    monkeypatch.chdir(tmp_path)
    (text,) = re.findall(r"^# scans.yaml\n.*?(?=^```)", (ROOT / "docs/try.md").read_text("utf-8"), re.M | re.S)
    Path("scans.yaml").write_text(text, encoding="utf-8")


@pytest.fixture(scope="module")
def items():
    return {tuple(key.split("/")) for key in load_items(ROOT / "config/items")} | OWN


@pytest.fixture(scope="module")
def targets():
    return set(re.findall(r"^([a-z0-9-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))


@pytest.mark.parametrize(("language", "text"), blocks())
def test_an_example_can_be_read(language, text, items, targets):
    if language in READERS:
        READERS[language](text)
    elif language == "bash" or text.split(maxsplit=1)[0] in SHELL | PROMPTS:
        for words in commands(text):
            understood(words, items, targets)
    else:
        assert not language, "a language that nobody reads here"


@pytest.mark.parametrize("page", ["docs/masked-sums.md", "config/README.md"])
def test_an_example_that_needs_no_other_file_runs(page):
    Path("mine/data").mkdir(parents=True)
    (text,) = (text for kind, text in FENCE.findall((ROOT / page).read_text(encoding="utf-8")) if kind == "python")
    exec(compile(text, page, "exec"), {})


@pytest.mark.parametrize("text", workflows())
def test_a_step_of_a_workflow_is_a_command_that_is_there(text, items, targets):
    for words in commands(text):
        words = words[1:] if words[0] == "sudo" else words
        if not (ROOT / words[0]).is_file():
            understood([Path(words[0]).name, *words[1:]], items, targets)


@pytest.mark.parametrize("text", ["leaklab prove case.py", "leaklab try mine.py --bugdet 3m", "make domo",
                                  "snakemake figures/demo/lrp/figure99.png", "leaklab plan lrp tabel1"])  # fmt: skip
def test_a_command_that_is_not_there_is_noticed(text, items, targets):
    (words,) = commands(text)
    with pytest.raises(AssertionError):
        understood(words, items, targets)


def understood(words, items, targets):
    """Hold a command against what is there: its name, its options, and the items that it names."""
    while "=" in words[0] or words[0] == "srun" or words[0].startswith("--"):
        words = words[1:]
    program, *rest = words
    assert program in SHELL | PROMPTS
    if program == "leaklab":
        parsed(rest, items)
    if program == "make":
        assert {word for word in rest if "=" not in word} <= targets
    for word in rest:
        if found := RESULT.fullmatch(word):
            assert found["scale"] in SCALES
            assert (found["paper"], found["item"]) in items | {("report", "index")}, word


def parsed(words, items):
    """Hold the words after ``leaklab`` against the command that they call."""
    whole = typer.main.get_command(app)
    known = whole.commands
    name, *rest = words
    if name.startswith("--"):
        assert name in {option for one in whole.params for option in one.opts}, name
        return
    assert name in known, name
    try:
        made = known[name].make_context(name, list(rest))
    except Exception as error:
        raise AssertionError(f"leaklab {' '.join(words)}: {error}") from error
    asked = made.params.get("item")
    if asked:
        named = tuple(" ".join(asked).replace("/", " ").split())
        assert any(item[: len(named)] == named for item in items), asked
