"""Judge defenses of known truth as files without a name, beside the attackers of the house that know them by name.

PYTHONPATH=benchmarks .venv/bin/python -m own_defenses --keep FOLDER            all of them, two hours on two cores
PYTHONPATH=benchmarks .venv/bin/python -m own_defenses --keep FOLDER sign clip  some of them; the page shows all
"""

import argparse
import json
import multiprocessing
import tempfile
import time
from functools import partial
from pathlib import Path
from typing import Any

import torch

from leaklab.guests.arena import Attacker, Tiny
from leaklab.guests.calls import Subject
from leaklab.guests.description import describe
from leaklab.guests.judge import attackers
from leaklab.guests.laboratory import Laboratory
from leaklab.guests.moments import NETWORKS
from leaklab.records.errors import UserError
from leaklab.records.files import read_json, write_json, write_text
from own_defenses.named import TRANSFORMS, named
from own_defenses.page import page
from own_defenses.sources import SOURCES

PAGE = Path(__file__).parent.with_suffix(".md")


def main() -> None:
    """Judge what is missing in the folder, and write the page of all that is there."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help="of defenses; none for all")
    parser.add_argument("--keep", type=Path, metavar="FOLDER", required=True, help="what is there is not judged again")
    parser.add_argument("--jobs", type=int, default=2, help="processes, of one thread each")
    parser.add_argument("--output", type=Path, default=PAGE, metavar="FILE", help="where the page goes")
    asked = parser.parse_args()
    wanted = [(name, network) for name in asked.names or SOURCES for network in NETWORKS]
    todo = [pair for pair in wanted if not place(asked.keep, *pair).is_file()]
    with multiprocessing.get_context("spawn").Pool(asked.jobs, maxtasksperchild=1) as pool:
        for name, network in pool.imap_unordered(partial(kept, folder=asked.keep), todo):
            print(f"{name} on the {network}", flush=True)
    found = {pair: place(asked.keep, *pair) for pair in ((name, network) for name in SOURCES for network in NETWORKS)}
    write_text(asked.output, page({pair: read_json(file) for pair, file in found.items() if file.is_file()}))


def place(folder: Path, name: str, network: str) -> Path:
    """Return where the readings of a defense on a network are kept."""
    return folder / network / f"{name.replace(':', '-').replace(' ', '-').replace(',', '')}.json"


def kept(pair: tuple[str, str], folder: Path) -> tuple[str, str]:
    """Judge one defense on one network, and keep what was read."""
    torch.set_num_threads(1)
    write_json(place(folder, *pair), readings(*pair))
    return pair


def readings(name: str, network: str) -> dict[str, Any]:
    """Return what each attacker read of the six updates, and how long all of them took."""
    began = time.process_time()
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "unnamed.py"
        file.write_text(SOURCES[name][0], encoding="utf-8")
        subject = Subject.load(file)
        arena, facts = Tiny(subject, network), describe(Laboratory(subject, network))
        guesses = arena.guesses().decibels(arena.private.images)
        if any(fact.name == "ignores the gradient" for fact in facts):
            return {"guesses": guesses, "facts": [fact.text for fact in facts], "rows": [], "seconds": 0.0}
        rows = [_row(where, attacker) for where, attacker in attackers(arena, facts)]
        seconds = time.process_time() - began
        rows += [_row(arena, attacker) for attacker in (named(name, arena) if name in TRANSFORMS else ())]
    return json.loads(  # type: ignore[no-any-return]
        json.dumps({"guesses": guesses, "facts": [fact.text for fact in facts], "rows": rows, "seconds": seconds})
    )


def _row(arena: Tiny, attacker: Attacker) -> dict[str, Any]:
    common = {"attacker": attacker.kind, "by": attacker.by}
    try:
        reading = arena.read(attacker, arena.plain if attacker.kind == "undefended" else arena.defended)
    except UserError as error:
        return {**common, "failed": str(error)}
    labels = int((reading.labels == arena.private.labels).sum())
    return {**common, "decibels": reading.decibels(arena.private.images), "labels": labels}


if __name__ == "__main__":
    main()
