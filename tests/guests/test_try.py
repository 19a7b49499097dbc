"""`leaklab try`, typed as its users type it, from an empty folder."""

import json
import subprocess
import sys
import time

import pytest

from leaklab.attacks.annealed import AnnealedMap
from leaklab.attacks.learnt import entries
from leaklab.guests import learning
from leaklab.guests.arena import Attacker, Tiny
from leaklab.guests.calls import Subject
from leaklab.guests.description import describe
from leaklab.guests.judge import judged
from leaklab.guests.laboratory import Laboratory
from leaklab.guests.rules import by_rule
from leaklab.records.errors import UserError

COMPRESSION = """
import torch

def defend(gradients):
    def kept(value):
        least = value.abs().flatten().kthvalue(int(0.9 * value.numel()) + 1).values
        return torch.where(value.abs() < least, 0.0, value)
    return {name: kept(value) for name, value in gradients.items()}
"""
SLOW = """
import time

def defend(gradients):
    time.sleep(0.02)
    return {name: value / 2 for name, value in gradients.items()}
"""


def typed(*words, folder):
    command = [sys.executable, "-m", "leaklab.cli", *words]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)


def test_a_defense_that_does_nothing_is_read_and_said_to_do_nothing(tmp_path):
    (tmp_path / "nothing.py").write_text("def defend(gradients):\n    return gradients\n")
    done = typed("try", "nothing.py", "--json", folder=tmp_path)
    assert done.returncode == 3, done.stderr
    card = json.loads(done.stdout)
    assert card["verdict"] == "read"
    for arena in card["arenas"]["tiny"].values():
        assert arena["facts"] == ["does nothing"]
        by = {row["attacker"]: row for row in arena["rows"]}
        assert by["unaware"]["psnr"] == by["undefended"]["psnr"]
        assert by["learnt"]["labels"] == 6


def test_a_budget_is_kept_and_what_is_ready_is_shown(tmp_path):
    (tmp_path / "slow.py").write_text(SLOW)
    began = time.monotonic()
    done = typed("try", "slow.py", "--budget", "0.3", "--json", folder=tmp_path)
    assert time.monotonic() - began < 18 + 30  # other tests share the processor
    card = json.loads(done.stdout)
    assert done.stderr == ""
    assert not any(arena["complete"] for arena in card["arenas"]["tiny"].values())
    # what was read by then was read, and nothing stood
    assert (card["verdict"], done.returncode) in {("read", 3), ("undecided", 4)}


@pytest.mark.parametrize("words", [["try", "none.py"], ["describe", "none.py"]])
def test_a_missing_file_is_one_line(tmp_path, words):
    done = typed(*words, folder=tmp_path)
    assert done.returncode == 1
    assert done.stderr == "leaklab: none.py is not there: name the Python file that is to be judged\n"


def test_an_attack_is_refused(tmp_path):
    (tmp_path / "mine.py").write_text("class Mine:\n    def reconstruct(self, case):\n        return None\n")
    done = typed("try", "mine.py", folder=tmp_path)
    assert (done.returncode, done.stderr) == (1, "leaklab: mine.py: Mine is an attack: try takes defenses\n")


@pytest.mark.parametrize(
    "change", ["torch.zeros_like", "torch.randn_like", "lambda value: 1e6 * torch.ones_like(value)"]
)
def test_what_trains_nobody_is_no_defense(tmp_path, change):
    file = tmp_path / "mine.py"
    file.write_text(
        f"import torch\nchange = {change}\n"
        "def defend(gradients):\n    return {name: change(value) for name, value in gradients.items()}\n"
    )
    rows = []
    with pytest.raises(UserError, match="it trains nobody, so it is no defense"):
        judged(file, lambda phase: None, rows.append, "lenet")
    assert rows == []


def test_who_learns_compression_reads_what_an_unaware_attacker_does_not(tmp_path):
    (tmp_path / "mine.py").write_text(COMPRESSION)
    subject = Subject.load(tmp_path / "mine.py")
    arena = Tiny(subject, "lenet")
    truth = arena.private.images
    learnt = arena.read(
        Attacker("learnt", "law of the entry", learning.SEARCH, entries.learnt(arena.rehearsals)), arena.defended
    )
    assert min(learnt.decibels(truth)) > 30
    assert learnt.labels.tolist() == arena.private.labels.tolist()
    names = [attacker.by for attacker in by_rule(describe(Laboratory(subject, "lenet")), "lenet")]
    assert names == ["support-only", "ranked-mixture", "profiled-scale"]
    blind = arena.read(Attacker("unaware", "annealed-map", AnnealedMap()), arena.defended)
    assert max(blind.decibels(truth)) < 15


def test_an_attacker_is_given_nothing_of_the_images(tmp_path):
    (tmp_path / "mine.py").write_text(COMPRESSION)
    arena = Tiny(Subject.load(tmp_path / "mine.py"), "mlp")
    case = arena.case(arena.defended, Attacker("unaware", "annealed-map", AnnealedMap()), 1)
    held = [*case.observation.update.values(), *case.observation.weights.values()]
    assert not {"labels", "images"} & set(case.knowledge.facts)
    for image in arena.private.images:
        assert not any(value.shape == image.shape and bool((value == image).all()) for value in held)


def test_private_images_are_not_public_and_change_with_the_seed(tmp_path):
    (tmp_path / "mine.py").write_text(COMPRESSION)
    subject = Subject.load(tmp_path / "mine.py")
    first, second = (Tiny(subject, "mlp", seed).private.images for seed in (0, 1))
    assert not (first == second).all()
