"""What each attacker reads of one defense on one network, kept in a file."""

import tempfile
import time
from pathlib import Path
from typing import Any

import torch

from leaklab.guests.calls import Subject
from leaklab.guests.description import describe
from leaklab.guests.exposure import Attacker, Exposure
from leaklab.guests.judge import attackers
from leaklab.guests.laboratory import Laboratory
from leaklab.records.errors import UserError
from leaklab.records.files import write_json
from own_defenses.named import TRANSFORMS, named
from own_defenses.sources import SOURCES


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
        exposure, facts = Exposure(subject, network), describe(Laboratory(subject, network))
        guesses = exposure.guesses().scores(exposure.private.images)
        if any(fact.name == "ignores the gradient" for fact in facts):
            return {"guesses": guesses, "facts": [fact.text for fact in facts], "rows": [], "seconds": 0.0}
        rows = [_row(where, attacker) for where, attacker in attackers(exposure, facts)]
        seconds = time.process_time() - began
        rows += [_row(exposure, attacker) for attacker in (named(name, exposure) if name in TRANSFORMS else ())]
    return {"guesses": guesses, "facts": [fact.text for fact in facts], "rows": rows, "seconds": seconds}


def _row(exposure: Exposure, attacker: Attacker) -> dict[str, Any]:
    common = {"attacker": attacker.kind, "by": attacker.by}
    try:
        reading = exposure.read(attacker, exposure.plain if attacker.kind == "undefended" else exposure.defended)
    except UserError as error:
        return {**common, "failed": str(error)}
    return {**common, "scores": reading.scores(exposure.private.images), "labels": exposure.labels_read(reading)}
