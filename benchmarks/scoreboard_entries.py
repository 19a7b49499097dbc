"""The entries of the scoreboard made anew: each defense judged by `leaklab try`, and its card submitted.

PYTHONPATH=benchmarks .venv/bin/python -m scoreboard_entries               those that are missing or of older attackers
PYTHONPATH=benchmarks .venv/bin/python -m scoreboard_entries lrp outpost   some of them
PYTHONPATH=benchmarks .venv/bin/python -m scoreboard_entries --adopt       two of each older version, to see who stands
"""

import argparse
import json
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from leaklab.guests import attackers
from leaklab.guests.scoreboard import FOLDER, Entry
from leaklab.guests.verdict import STATUS
from leaklab.records.files import write_text
from leaklab.report.site.scoreboard import attackers_digest, standings, submission, written

ARENA, BUDGET = "tiny", 90
"""Minutes for one; an idle machine needs a tenth of it."""
HOUSE_FILE = '''"""{title}, as the house has it."""

from leaklab.defenses.{module} import {name}

PLUGIN = {name}({settings})
'''


@dataclass(frozen=True)
class Made:
    """One entry.

    Attributes:
        title: as people call it, with its settings.
        source: where it is described.
        origin: see ``scoreboard.Entry``.
        defense: ``module:Class(settings)`` of the house, or the path of a file.
    """

    title: str
    source: str
    origin: str
    defense: str


THREE = "one of the three papers"
CONTROL = "a common control"
HOUSE = {
    "no-defense": ("No defense", CONTROL, "base:NoDefense()"),
    "lrp": ("LRP, rate from U(0, 2 mean)", f"LRP, {THREE}", "lrp:LearningRatePerturbation()"),
    "local-steps": ("Local steps drawn from 1 to 2 E - 1", f"LRP, {THREE}", "lrp:LocalStepPerturbation()"),
    "hidden-classifier": ("Last layer kept back", f"HyperFL, {THREE}", "lrp:HiddenClassifier()"),
    "noise": ("Gaussian noise, sigma 0.1", CONTROL, "noise:AdditiveNoise(sigma=0.1)"),
    "weak-noise": ("Gaussian noise, sigma 0.01", CONTROL, "noise:AdditiveNoise(sigma=0.01)"),
    "laplace-noise": ("Laplace noise, variance 0.1", CONTROL, "noise:LaplaceNoise(variance=0.1)"),
    "clipping": ("Clipping to norm 4", CONTROL, "noise:GradientClipping(bound=4.0)"),
    "clipping-noise": ("Clipping to norm 4, noise of 0.1", CONTROL, "noise:ClippingNoise(bound=4.0, sigma=0.1)"),
    "dp-sgd": ("DP-SGD, clipping to 0.04, multiplier 10.62", CONTROL, "dp_sgd:DpSgd(bound=0.04, sigma=10.62)"),
    "compression": (
        "Gradient compression, 90 % dropped", f"OUTPOST, {THREE}", "outpost:GradientCompression(dropped=0.9)",
    ),
    "outpost": ("OUTPOST, 80 % pruned, 40 % noised", f"OUTPOST, {THREE}", "outpost:Outpost()"),
    "soteria": ("Soteria, 80 % of features pruned", f"compared with by OUTPOST, {THREE}", "soteria:Soteria()"),
    "grad-defense": (
        "GradDefense, 10 slices, half of them noised", f"compared with by OUTPOST, {THREE}",
        "grad_defense:GradDefense()",
    ),
}  # fmt: skip
OTHERS = {
    "censor": ("CENSOR, networks smaller than its own", "Zhang et al., NDSS 2025", "docs/examples/censor.py"),
    "precode": ("PRECODE, a narrower code", "Scheliga, Mäder, Seeland, WACV 2022", "docs/examples/precode.py"),
    "ats": ("ATS, two policies by hand, without its search", "Gao et al., CVPR 2021", "docs/examples/ats.py"),
    "dcs": ("DCS, for all samples", "Wu et al., AAAI 2024", "docs/examples/dcs.py"),
}
ENTRIES = {
    **{name: Made(title, source, "house", defense) for name, (title, source, defense) in HOUSE.items()},
    **{name: Made(title, source, "paper", file) for name, (title, source, file) in OTHERS.items()},
}


def main() -> None:
    """Make the entries that are named, or those that are not current."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help="of entries; none for all that are not current")
    parser.add_argument(
        "--adopt", action="store_true", help="see whether entries of older attackers are read as before"
    )
    asked = parser.parse_args()
    if asked.adopt:
        sys.exit(adopt())
    current = {line.entry.name for line in standings() if line.current}
    for name in asked.names or [one for one in ENTRIES if one not in current]:
        print(written(judged(name, ENTRIES[name]), FOLDER), flush=True)


def adopt() -> int:
    """Judge a few entries of each older version again; return 1 where one is read otherwise, which is kept, else 0."""
    now, differ = attackers_digest(), 0
    stale = [line.entry for line in standings() if not line.current and line.entry.name in ENTRIES]
    for older, entries in attackers.witnesses(stale, now).items():
        for entry in entries:
            again = judged(entry.name, ENTRIES[entry.name])
            written(again, FOLDER)
            if attackers.readings(again) != attackers.readings(entry):
                print(f"{entry.name}: read otherwise than by the attackers {older[:8]}; judge all of theirs again")
                differ = 1
                break
        else:
            names = [entry.name for entry in entries]
            attackers.remember(now, older, names)
            print(f"entries of the attackers {older[:8]} stand: {', '.join(names)} are read as before", flush=True)
    return differ


def judged(name: str, made: Made) -> Entry:
    """Judge a defense and return its entry.

    Raises:
        SystemExit: it could not be judged; with the line that says why.
    """
    file = file_of(name, made)
    command = [sys.executable, "-m", "leaklab.cli", "try", str(file), "--arena", ARENA, "--budget", str(BUDGET)]
    done = subprocess.run([*command, "--json"], capture_output=True, text=True, check=False)
    if done.returncode not in set(STATUS.values()) - {STATUS["invalid"]}:
        sys.exit(f"{name}: {done.stderr}")
    with tempfile.TemporaryDirectory() as folder:
        card = Path(folder) / "card.json"
        card.write_text(json.dumps(json.loads(done.stdout)), encoding="utf-8")
        return submission(card, file, title=made.title, source=made.source, name=name, origin=made.origin)


def file_of(name: str, made: Made) -> Path:
    """Return the file of a defense; one of the house is written if it is not there."""
    if made.origin != "house":
        return Path(made.defense)
    module, _, call = made.defense.partition(":")
    cls, _, settings = call.partition("(")
    file = FOLDER / f"{name.replace('-', '_')}.py"
    if not file.exists():
        text = HOUSE_FILE.format(title=made.title, module=module, name=cls, settings=settings.removesuffix(")"))
        write_text(file, text)
    return file


if __name__ == "__main__":
    main()
