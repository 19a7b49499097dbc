"""The cards of the defenses in docs/examples, made anew, and the page that shows them.

PYTHONPATH=benchmarks .venv/bin/python -m example_cards               all of them, one at a time, some minutes each
PYTHONPATH=benchmarks .venv/bin/python -m example_cards censor        some of them; the page shows all
"""

import argparse
import json
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from leaklab.guests.card import lines_of
from leaklab.guests.verdict import STATUS
from leaklab.records.files import read_json, write_json, write_text

FOLDER = Path(__file__).resolve().parents[1] / "docs/examples"
CARDS, PAGE = FOLDER / "cards", FOLDER / "cards.md"
BUDGET = 30
"""Minutes for one; an idle machine needs a tenth of it."""
HEAD = """# What was read of the examples

Made by `benchmarks/example_cards.py`; do not edit. What the words mean, and what they do not: [the page of
`leaklab try`](../own-defense.md#ten-minutes-leaklab-try). Who was not tried is not in here.
"""


def main() -> None:
    """Judge the examples that are named, or all, and write their cards and the page."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help="of files in docs/examples; none for all")
    CARDS.mkdir(exist_ok=True)
    for name in parser.parse_args().names or names():
        write_json(CARDS / f"{name}.json", judged(FOLDER / f"{name}.py"))
    write_text(PAGE, page({file.stem: read_json(file) for file in sorted(CARDS.glob("*.json"))}))


def names() -> list[str]:
    """Return the examples by name."""
    return sorted(file.stem for file in FOLDER.glob("*.py"))


def judged(file: Path) -> dict[str, Any]:
    """Return the card of an example.

    Raises:
        SystemExit: it could not be judged; with the line that says why.
    """
    command = [sys.executable, "-m", "leaklab.cli", "try", str(file), "--json", "--budget", str(BUDGET)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode not in set(STATUS.values()) - {STATUS["invalid"]}:
        sys.exit(done.stderr)
    card: dict[str, Any] = json.loads(done.stdout)
    return card


def page(cards: Mapping[str, Mapping[str, Any]]) -> str:
    """Return the page of all cards, in Markdown."""
    parts = [HEAD]
    for name, card in cards.items():
        lines = "\n".join(lines_of(card))
        parts.append(f"## [{card['subject']['name']}]({name}.py)\n\n```\n{lines}\n```\n")
    return "\n".join(parts)


if __name__ == "__main__":
    main()
