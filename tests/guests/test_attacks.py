"""`leaklab try` of an attack: it sees updates and no truth, and stands beside the strongest attacker of the house."""

import subprocess
import sys
import threading

import pytest
import torch
from typer.testing import CliRunner

from leaklab.attacks.annealed import AnnealedMap
from leaklab.attacks.base import Budget
from leaklab.cli import app
from leaklab.guests import arenas, attempt, contest, contesting, exchange
from leaklab.guests.child import in_child
from leaklab.guests.exposure import Attacker
from leaklab.guests.files import find
from leaklab.guests.judging import Watch
from leaklab.guests.moments import tiny
from leaklab.guests.peeking import refuse_peeking
from leaklab.records.errors import UserError

OWN = """
from leaklab.attacks.annealed import AnnealedMap

class Mine:
    def reconstruct(self, case):
        return AnnealedMap().reconstruct(case)
"""
READS = "class Mine:\n    def reconstruct(self, case):\n        return {}\n"
PEEKS = [
    "from sklearn.datasets import load_digits",
    "import sklearn",
    "import leaklab.guests.moments",
    "from leaklab.guests.moments import tiny",
    "from leaklab.data.readers import embedded",
    "from leaklab import judge",
    "import os",
    "from pathlib import Path",
    "import sys",
    "import gc",
    "import inspect",
    "import importlib",
    "import torchvision",
    "from torch import hub",
    "from torch.serialization import load",
    "from numpy import load",
    "from leaklab.records.plugins import load",
    "from leaklab.attacks import run as _\nfrom leaklab.attacks.run import plugins",
    "TRUTH = open('digits.csv.gz')",
    "TRUTH = __import__('sklearn')",
    "TRUTH = eval('1')",
    "exec('import os')",
    "import torch\nTRUTH = torch.load",
    "import torch\nTRUTH = torch.os",
    "import numpy\nTRUTH = numpy.fromfile",
    "import torch\nTRUTH = torch.hub",
    "TRUTH = ().__class__",
    "TRUTH = [].append.__self__.__class__.__subclasses__",
    "TRUTH = getattr",
    "TRUTH = globals()",
    "def look(error):\n    return error.tb_frame",
]


@pytest.fixture
def attack(tmp_path):
    def written(text):
        file = tmp_path / "mine.py"
        file.write_text(text, encoding="utf-8")
        return file

    return written


@pytest.mark.parametrize("line", PEEKS)
def test_a_planted_peek_is_refused_before_it_runs(attack, line):
    file = attack(f"{line}\n\n{READS}")
    with pytest.raises(
        UserError, match=r"mine\.py, line \d+: .* could show an attack the private images: leave it out"
    ):
        refuse_peeking(file)


def test_a_peek_beside_the_file_is_refused_too(attack, tmp_path):
    (tmp_path / "helper.py").write_text("import os\n")
    file = attack(f"import helper\n\n{READS}")
    with pytest.raises(UserError, match=r"helper\.py, line 1: import of 'os'"):
        refuse_peeking(file)


def test_an_attack_that_asks_a_clock_is_refused_before_it_runs(attack, tmp_path):
    file = attack(f"import time\nNOW = time.monotonic()\n\n{READS}")
    with pytest.raises(UserError, match=r"mine\.py, line 2: it asks time\.monotonic, which no seed repeats"):
        attempt.attempted(file, lambda text: None, str(tmp_path), 60)


def test_what_an_attack_needs_is_let_in(attack):
    refuse_peeking(
        attack(f"import math\nimport numpy as np\nimport torch\nfrom torch import nn\nimport scipy.optimize\n{OWN}")
    )


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("open(digits)", "open"),
        ("\n    try:\n        open(digits)\n    except Exception:\n        pass", "open"),
        ("__import__('numpy').loadtxt(digits)", "open"),
        ("__import__('subprocess').run(['true'])", "subprocess.Popen"),
        ("__import__('socket').create_connection(('localhost', 9))", "socket.connect"),
    ],
)
def test_what_no_text_shows_is_caught_while_it_reads(attack, line, said):
    done = alone(attack(READS), line)
    assert f"UserError: the attack asked the system for {said}" in done.stderr.splitlines()[-1]


def test_what_is_imported_late_is_no_peek(attack):
    assert alone(attack(READS), "import scipy.optimize, sklearn.mixture").stderr == ""


def alone(file, line):
    """Run a line behind the second fence, in a process of its own: an audit hook cannot be taken away."""
    code = (
        "import pathlib, sklearn\nfrom leaklab.guests.peeking import blind\n"
        "digits = pathlib.Path(sklearn.__file__).parent / 'datasets/data/digits.csv.gz'\n"
        f"with blind(pathlib.Path({str(file)!r})):\n    {line}\n"
    )
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)


@pytest.fixture(scope="module")
def arena():
    return next(iter(contest._defended(tiny(), "lenet", 0, lambda text: None)))[1][0]


def test_what_crosses_the_folder_is_what_the_house_attacks(arena, tmp_path):
    """The guest's case: same updates, weights, prior and budget; nothing of the images behind them."""
    contest._put(tmp_path, "none", arena)
    exchange.put_prior(tmp_path, arena.generator)
    theirs = exchange.case(tmp_path, "none", 60, 0)
    ours = arena.case(arena.defended, Attacker("unaware", "annealed-map", AnnealedMap()), 60)
    for part in ("update", "weights"):
        given, wanted = getattr(theirs.observation, part), getattr(ours.observation, part)
        assert list(given) == list(wanted)
        assert all(torch.equal(given[name], wanted[name]) for name in wanted)
    latents = torch.randn(
        3, ours.generator.latent_size, dtype=torch.float64, generator=torch.Generator().manual_seed(0)
    )
    classes = torch.eye(10, dtype=torch.float64)[:3]
    assert torch.equal(theirs.generator(latents, classes), ours.generator(latents, classes))
    assert theirs.budget == Budget(60, 1)
    assert theirs.knowledge.facts["defense"] == {"name": "none", "settings": {}}
    content = b"".join(file.read_bytes() for file in tmp_path.iterdir())
    assert not any(image.numpy().tobytes() in content for image in arena.private.images)


@pytest.mark.parametrize(
    ("returned", "said"),
    [
        ("None", "reconstruct returned NoneType: return a leaklab.attacks.base.Reconstruction"),
        ("R(torch.zeros(6, 1, 28, 28), torch.zeros(6))", "make them [6, 1, 1, 28, 28] and [6, 1]"),
        ("R(torch.full((6, 1, 1, 28, 28), torch.nan), torch.zeros(6, 1))", "images that are not finite"),
        ("1 / 0", "line 5: ZeroDivisionError while it attacked: division by zero"),
        ("torch.rand(1)", "line 5: reconstruct draws from the global generator of torch, which others draw from too"),
        ("next(iter(case.observation.update.values())).zero_()", "reconstruct changes case.observation.update"),
    ],
)
def test_what_it_returns_is_held_against_what_it_must_be(attack, arena, tmp_path, returned, said):
    file = attack(
        "import collections\nimport torch\nR = collections.namedtuple('R', 'images labels')\nclass Mine:\n"
        f"    def reconstruct(self, case): return {returned}\n"
    )
    contest._put(tmp_path, "none", arena)
    exchange.put_prior(tmp_path, arena.generator)
    exchange.put_names(tmp_path, ["none"])
    attempt.attempted(file, lambda text: None, str(tmp_path), 60)
    assert said in exchange.answered(tmp_path, "none")
    assert exchange.ended(tmp_path)


def test_an_attack_is_refused_in_an_arena_of_sentences_before_anything_runs(attack):
    with pytest.raises(UserError, match=r"\.py: attacks are held against each other on images: choose another --arena"):
        contesting.contest(find(attack(OWN)), 60.0, 0, Watch(), arenas.find("text"))


def test_an_attack_of_the_house_as_a_guest_reads_what_it_reads(attack, tmp_path, monkeypatch, shorter):
    """In a process of its own, without the images, to the hundredth of a decibel."""
    same = Attacker("unaware", "annealed-map", AnnealedMap())
    monkeypatch.setattr(contest, "DEFENSES", ("gradient-clipping",))
    monkeypatch.setattr(contest, "_who", lambda *_, learns: [] if learns else [same])
    guest, rows = find(attack(OWN)), []
    given = {"folder": str(tmp_path), "seed": 0, "evaluations": 60, "sha256": guest.sha256}
    with_house = threading.Thread(target=in_child, args=(contesting.GUEST, guest.file, given), kwargs={"seconds": 300})
    with_house.start()
    arena = shorter(updates=2)
    contest.contested(guest.file, lambda text: None, rows.append, "lenet", str(tmp_path), arena)
    with_house.join()
    data = contesting._data(guest, 0, rows)
    found = {row["defense"]: row for row in data["rows"]}
    assert set(found) == {"none", "gradient-clipping"}
    for defense in found:
        house = [one["scores"] for one in rows if one["attacker"] == "house" and one["defense"] == defense]
        assert house == [one["scores"] for one in rows if one["attacker"] == "guest" and one["defense"] == defense]
    row = found["none"]  # behind the other one both read less than a guess
    assert (row["ahead"], row["word"], row["house"]["by"]) == (0.0, "level", "annealed-map")
    assert found["none"]["psnr"] > found["none"]["guess"]


def a_row(defense, attacker, scores, by="annealed-map"):
    return {"network": "mlp", "defense": defense, "attacker": attacker, "by": by, "scores": scores, "labels": 6,
            "seconds": 1.0}  # fmt: skip


@pytest.mark.parametrize(
    ("read", "word"),
    [
        ([30, 31, 32, 33, 34, 35], "ahead"),
        ([20, 21, 22, 23, 24, 25], "level"),
        ([10, 11, 12, 13, 14, 15], "behind"),
        ([20, 21, 22, 23, 24, 60], "level"),
    ],
)
def test_it_is_ahead_where_the_whole_interval_of_paired_differences_is(attack, read, word):
    guess = {"network": "mlp", "attacker": "guess", "by": "mean images", "defenses": ["lrp"], "scores": [12.0] * 6}
    house = [20.1, 20.9, 22.1, 22.9, 24.1, 24.9]
    rows = [guess, a_row("lrp", "guest", read), a_row("lrp", "house", [15.0] * 6), a_row("lrp", "house", house, "best")]
    data = contesting._data(find(attack(OWN)), 0, rows)
    (row,) = data["rows"]
    assert row["word"] == word
    assert row["house"] == {"by": "best", "psnr": 22.5, "tried": 2, "each": house}
    assert ("lrp on the mlp" in contesting.sentence(data)) == (word == "ahead")


def test_a_guess_is_ahead_of_nobody(attack):
    """Where the house reads less than a guess, who guesses has read no more than nothing."""
    guess = {
        "network": "mlp",
        "attacker": "guess",
        "by": "mean images",
        "defenses": ["lrp"],
        "scores": [12.0, 13.0] * 3,
    }
    rows = [guess, a_row("lrp", "guest", [12.0, 13.0] * 3), a_row("lrp", "house", [6.0] * 6)]
    (row,) = contesting._data(find(attack(OWN)), 0, rows)["rows"]
    assert (row["word"], row["house"]["by"]) == ("level", "a guess")


@pytest.mark.parametrize("ended", ["interrupted", "mine.py: the process was ended by SIGSEGV"])
def test_what_was_read_before_an_end_is_shown(attack, ended):
    guess = {"network": "mlp", "attacker": "guess", "by": "mean images", "defenses": ["lrp"], "scores": [12.0] * 6}
    rows = [guess, a_row("lrp", "guest", [30.0, 31.0] * 3), a_row("lrp", "house", [20.0] * 6)]
    found = str(contesting.Contest(contesting._data(find(attack(OWN)), 0, rows, ended)))
    assert "lrp on the mlp by 10.5 dB" in found
    assert found.endswith(f"not all had their turn: {ended}")


def test_a_file_that_is_opened_on_import_is_caught(attack, tmp_path):
    """What no list of names has, a door of numpy's for one, is caught while the file is imported."""
    file = attack(f"import numpy\nnumpy.lib._datasource.open({str(tmp_path / 'truth.csv')!r})\n{READS}")
    refuse_peeking(file)
    (tmp_path / "truth.csv").write_text("1")
    with pytest.raises(UserError, match="asked the system for open"):
        in_child(contesting.GUEST, file, {"folder": str(tmp_path), "seed": 0, "evaluations": 1})


def test_what_the_budget_left_out_is_not_said_to_be_lost(attack):
    guess = {
        "network": "mlp",
        "attacker": "guess",
        "by": "mean images",
        "defenses": ["lrp", "dp-sgd"],
        "scores": [12.0] * 6,
    }
    rows = [guess, a_row("lrp", "house", [20.0] * 6)]
    found = contesting.Contest(contesting._data(find(attack(OWN)), 0, rows, "budget"))
    assert [row["word"] for row in found.data["rows"]] == ["not run", "not run"]
    assert str(found).splitlines()[-2:] == [
        "the budget ended before it read anything: give it more",
        "the budget ended before all had their turn: give it a larger --budget",
    ]


def test_a_verdict_cannot_be_asked_of_an_attack(attack):
    done = CliRunner().invoke(app, ["try", str(attack(OWN)), "--fail-on", "read"])
    assert isinstance(done.exception, UserError)
    assert "--fail-on is for defenses" in str(done.exception)
