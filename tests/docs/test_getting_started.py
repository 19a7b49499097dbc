"""The page for strangers, typed as it is printed: from a copy of the project to one's own line of the scoreboard."""

import json
import re
import shlex
from pathlib import Path

import yaml

from leaklab.guests import arenas

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/getting-started.md").read_text(encoding="utf-8")
FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
SHORT = {"updates": 2, "evaluations": 4, "rehearsals": 4, "draws": 1, "price": None}
"""What the arena has less of here than the default one, which takes minutes."""
WORDS = {0, 3, 4, 5}
"""Statuses of a try that found a word other than invalid."""


def section(head):
    """Return the files and the commands of one section of the page."""
    (text,) = re.findall(rf"^## \d\. {head}\n(.*?)(?=^## |\Z)", PAGE, re.MULTILINE | re.DOTALL)
    found = FENCE.findall(text)
    files = [content for kind, content in found if kind == "python"]
    return files, [shlex.split(line) for kind, content in found if kind == "bash" for line in content.splitlines()]


def test_a_stranger_comes_from_a_clone_to_a_line_of_the_scoreboard(checkout, tmp_path):
    """The clone is there and its packages are installed; ``make demo`` has tests of its own."""
    copy = checkout.clone(tmp_path / "leaklab")
    (text,), _ = section("A defense of your own")
    (copy.folder / text.split()[1]).write_text(text, encoding="utf-8")
    content = yaml.safe_load((arenas.FILES / "tiny.yaml").read_text(encoding="utf-8"))
    content["networks"] = {"mlp": content["networks"]["mlp"]}
    (copy.folder / "short.yaml").write_text(yaml.safe_dump({**content, **SHORT}), encoding="utf-8")

    _, commands = section("Its line on the scoreboard")
    said = {}
    for words in commands:
        short = ["--arena", "short.yaml"] if words[1] == "try" else []
        done = copy.run(*words, *short)
        assert done.returncode in (WORDS if words[1] == "try" else {0}), done.stdout[-2000:]
        said[words[1]] = done.stdout
    assert list(said) == ["try", "submit", "scoreboard", "report"]
    entry = json.loads((copy.folder / "results/scoreboard/rounding.json").read_text(encoding="utf-8"))
    assert (entry["title"], entry["card"]["ended"]) == ("Rounding", "complete")
    assert "left  Rounding\n" in said["scoreboard"]
    page = Path(said["report"].split("report: ")[1].replace("\n", "")).with_name("scoreboard.html")
    assert 'id="rounding"' in page.read_text(encoding="utf-8")
