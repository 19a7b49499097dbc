"""`leaklab try`, typed as its users type it, from an empty folder."""

import contextlib
import json
import os
import pty
import re
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import jsonschema
import pytest
from typer.testing import CliRunner

from leaklab.attacks.annealed import AnnealedMap
from leaklab.attacks.learnt import entries
from leaklab.cli import app
from leaklab.guests import judging, learning
from leaklab.guests.calls import Subject
from leaklab.guests.description import describe
from leaklab.guests.exposure import Attacker, Exposure
from leaklab.guests.judge import judged
from leaklab.guests.laboratory import Laboratory
from leaklab.guests.moments import load
from leaklab.guests.rules import by_rule
from leaklab.guests.schema import schema
from leaklab.guests.sheets import Card
from leaklab.guests.verdict import STATUS
from leaklab.records.errors import UserError

SLOW = """
import time

def defend(gradients):
    time.sleep(0.02)
    return {name: value / 2 for name, value in gradients.items()}
"""
HANGING = """
import os
import time
from leaklab.guests import exposure, judge

judge.describe = lambda laboratory: []
Budget = exposure.Budget
exposure.Budget = lambda evaluations, trials: Budget(2, trials)
exposure.Exposure.rehearsals = property(lambda self: time.sleep(600))
with open("pids", "a") as out:
    print(os.getpid(), file=out)

def defend(gradients):
    return gradients
"""
COMMAND = (sys.executable, "-m", "leaklab.cli")


def typed(*words, folder):
    return subprocess.run([*COMMAND, *words], cwd=folder, capture_output=True, text=True, check=False)


def test_a_defense_that_does_nothing_is_read_and_said_to_do_nothing(tmp_path, shorter):
    (tmp_path / "nothing.py").write_text("def defend(gradients):\n    return gradients\n")
    # other tests share the processor
    arena = shorter(evaluations=20, rehearsals=8, draws=2)
    done = typed("try", "nothing.py", "--json", "--budget", "20m", "--arena", arena, folder=tmp_path)
    assert done.returncode == 3, done.stderr
    card = json.loads(done.stdout)
    assert card["verdict"] == "read"
    (networks,) = card["arenas"].values()
    for arena in networks.values():
        assert arena["facts"] == ["does nothing"]
        by = {row["attacker"]: row for row in arena["rows"]}
        assert by["unaware"]["psnr"] == by["undefended"]["psnr"]
        assert by["learnt"]["labels"] == 6


def test_a_budget_is_kept_and_what_is_ready_is_shown(tmp_path):
    (tmp_path / "slow.py").write_text(SLOW)
    began = time.monotonic()
    done = typed("try", "slow.py", "--budget", "0.3", "--json", folder=tmp_path)
    assert time.monotonic() - began < 18 + 60  # other tests share the processor
    card = json.loads(done.stdout)
    assert done.stderr == ""
    assert not any(arena["complete"] for arena in card["arenas"]["tiny"].values())
    # what was read by then was read, and nothing stood
    assert (card["verdict"], done.returncode) in {("read", 3), ("undecided", 4)}


def _drained(terminal):
    with contextlib.suppress(OSError):
        while os.read(terminal, 4096):
            pass


def test_ctrl_c_ends_the_children_and_keeps_what_was_ready(tmp_path):
    """On a terminal, where a line says what goes on."""
    (tmp_path / "hanging.py").write_text(HANGING)
    main, side = pty.openpty()
    words = [*COMMAND, "try", "hanging.py", "--out", "card", "--fail-on", "read"]
    running = subprocess.Popen(words, cwd=tmp_path, stdout=subprocess.PIPE, stderr=side, text=True)
    os.close(side)
    seen = ""
    while not {"mlp: it was rehearsed", "lenet: it was rehearsed"} <= set(re.findall(r"\w+: it was rehearsed", seen)):
        seen += os.read(main, 4096).decode()
    running.send_signal(signal.SIGINT)
    later = threading.Thread(target=_drained, args=(main,), daemon=True)
    later.start()  # a terminal that nobody reads fills up, and who writes to it waits
    shown, _ = running.communicate(timeout=120)  # other tests share the processor
    os.close(main)
    assert running.returncode == 130
    assert re.search(r"\d+ % of the budget; (mlp|lenet): ", seen)
    assert "mlp: undefended, annealed-map" in seen
    assert shown.count("no defense") == 2
    assert "it was interrupted before all had their turn" in shown
    card = json.loads((tmp_path / "card/card.json").read_text())
    jsonschema.validate(card, schema())
    assert card["ended"] == "interrupted"
    assert card["arenas"]["tiny"]["mlp"]["rows"][0]["attacker"] == "undefended"
    assert "This card is incomplete: it was interrupted" in (tmp_path / "card/card.html").read_text()
    pids = set(map(int, (tmp_path / "pids").read_text().split()))
    assert len(pids) == 3
    assert not [pid for pid in pids if Path(f"/proc/{pid}").exists()]


def test_ctrl_c_is_heard_wherever_it_falls():
    """In a destructor, too, where Python prints an exception and goes on."""

    class Falls:
        def __del__(self):
            signal.raise_signal(signal.SIGINT)

    before = signal.getsignal(signal.SIGINT)
    with judging.heard() as check:
        check()
        Falls()
        with pytest.raises(KeyboardInterrupt):
            check()
        with pytest.raises(KeyboardInterrupt):  # the second one at once
            signal.raise_signal(signal.SIGINT)
    assert signal.getsignal(signal.SIGINT) is before


@pytest.mark.parametrize("sent", [signal.SIGTERM, signal.SIGKILL])
def test_children_end_with_a_parent_that_cannot_end_them(tmp_path, sent):
    (tmp_path / "hanging.py").write_text(HANGING)
    running = subprocess.Popen(
        [*COMMAND, "try", "hanging.py"], cwd=tmp_path, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    pids = tmp_path / "pids"
    while not pids.is_file() or len(pids.read_text().split()) < 3:  # the lint, and a network each
        assert running.poll() is None
        time.sleep(0.1)
    running.send_signal(sent)
    running.wait(60)
    waiting, until = set(pids.read_text().split()), time.monotonic() + 60
    while waiting := {pid for pid in waiting if Path(f"/proc/{pid}").exists()}:
        assert time.monotonic() < until, waiting
        time.sleep(0.1)


@pytest.mark.parametrize(
    ("word", "listed", "status"),
    [
        ("read", None, 3), ("read", "read", 3), ("read", "undecided,read", 3), ("read", "undecided, no-premise", 0),
        ("undecided", None, 4), ("undecided", "read", 0), ("no premise", "no premise", 5), ("stood", None, 0),
        ("stood", "read,undecided,no premise,invalid", 0), ("invalid", "read", 1),
    ],
)  # fmt: skip
def test_only_words_that_are_listed_fail(word, listed, status, monkeypatch, tmp_path):
    """What is invalid fails always: nothing was measured."""
    data = {"verdict": word, "status": STATUS[word]}
    monkeypatch.setattr(judging, "judge", lambda *given, **named: Card(data))
    file = tmp_path / "mine.py"
    file.write_text(SLOW)
    words = ["try", str(file), "--json", *(["--fail-on", listed] if listed else [])]
    done = CliRunner().invoke(app, words)
    assert (done.exit_code, json.loads(done.stdout)) == (status, data)
    assert list(tmp_path.iterdir()) == [file]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--fail-on", "red"], "'red' is no word that can fail"), (["--fail-on", ""], "'' is no word that can fail"),
        (["--fail-on", "stood"], "choose from"), (["--budget", "soon"], "is no time from 6 s on"),
        (["--budget", "0.05"], "is no time from 6 s on"), (["--out", "mine.py"], "is a file"),
    ],
)  # fmt: skip
def test_a_wrong_call_is_no_verdict(words, said, tmp_path, monkeypatch, compressing):
    monkeypatch.chdir(tmp_path)
    done = CliRunner().invoke(app, ["try", "mine.py", *words], env={"COLUMNS": "200"})
    assert done.exit_code == 2
    assert said in done.stderr


def test_the_schema_is_printed_without_a_file():
    done = CliRunner().invoke(app, ["try", "--schema"])
    assert (done.exit_code, json.loads(done.stdout)) == (0, schema())


@pytest.mark.parametrize("words", [["try", "none.py"], ["describe", "none.py"]])
def test_a_missing_file_is_one_line(tmp_path, words):
    done = typed(*words, folder=tmp_path)
    assert done.returncode == 1
    assert done.stderr == "leaklab: none.py is not there: name the Python file that is to be judged\n"


def test_what_takes_defenses_refuses_an_attack(tmp_path):
    file = tmp_path / "mine.py"
    file.write_text("class Mine:\n    def reconstruct(self, case):\n        return None\n")
    with pytest.raises(UserError, match="Mine is an attack: leaklab try takes it, judge takes defenses"):
        judging.judge(file)


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


def test_who_learns_compression_reads_what_an_unaware_attacker_does_not(shorter, compressing):
    subject = Subject.load(compressing)
    arena = Exposure(subject, "lenet", arena=load(shorter(updates=2)))
    truth = arena.private.images
    learnt = arena.read(
        Attacker("learnt", "law of the entry", learning.SEARCH, entries.learnt(arena.rehearsals)), arena.defended
    )
    assert min(learnt.scores(truth)) > 30
    assert learnt.labels.tolist() == arena.private.labels.tolist()
    names = [attacker.by for attacker in by_rule(Exposure(subject, "lenet"), describe(Laboratory(subject, "lenet")))]
    assert names == ["support-only", "ranked-mixture", "profiled-scale"]
    blind = arena.read(Attacker("unaware", "annealed-map", AnnealedMap()), arena.defended)
    assert max(blind.scores(truth)) < 15


def test_an_attacker_is_given_nothing_of_the_images(compressing):
    arena = Exposure(Subject.load(compressing), "mlp")
    case = arena.case(arena.defended, Attacker("unaware", "annealed-map", AnnealedMap()), arena.private.labels, 1)
    held = [*case.observation.update.values(), *case.observation.weights.values()]
    assert not {"labels", "images"} & set(case.knowledge.facts)
    for image in arena.private.images:
        assert not any(value.shape == image.shape and bool((value == image).all()) for value in held)


def test_private_images_are_not_public_and_change_with_the_seed(compressing):
    subject = Subject.load(compressing)
    first, second = (Exposure(subject, "mlp", seed).private.images for seed in (0, 1))
    assert not (first == second).all()
