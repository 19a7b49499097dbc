"""A probe from end to end: what is proven, what stood, what says nothing, and the gate."""

import json
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from sklearn.datasets import load_digits
from torch import Tensor, nn

import leaklab
from leaklab.guests.verdict import STATUS
from leaklab.probing.case_file import read_case
from leaklab.probing.client import Client
from leaklab.probing.commands import _why_not
from leaklab.probing.probe import probe

ROOT = Path(__file__).parents[2]


def _digits(count: int) -> tuple[Tensor, Tensor]:
    found = load_digits()
    return torch.tensor(found.images[:count], dtype=torch.float32)[:, None] / 16, torch.tensor(found.target[:count])


def _mlp() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Flatten(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))


def _smooth() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Conv2d(1, 4, 3, padding=1), nn.Sigmoid(), nn.Flatten(), nn.Linear(256, 10))


@pytest.fixture(scope="module")
def public() -> tuple[Tensor, Tensor]:
    images, labels = _digits(500)
    return images[100:], labels[100:]


def test_a_plain_batch_is_read_exactly_and_the_page_shows_it(public, tmp_path) -> None:
    images, labels = _digits(4)
    card = leaklab.probe(Client(_mlp(), rate=0.1), images, labels, public=public, budget="6s")
    assert card.word == "read"
    assert card.data["exact"] == 4
    assert card.above({"exact": 0}) != []
    said = {stage["name"]: stage for stage in card.data["stages"]}
    assert "not run" not in said["replay"]
    card.write(tmp_path)
    assert "data:image/png" in (tmp_path / "card.html").read_text()


def test_what_searches_do_not_know_of_never_stands() -> None:
    images, labels = _digits(6)

    def torn(sent: dict[str, Tensor]) -> dict[str, Tensor]:
        return {name: value * torch.randn_like(value) for name, value in sent.items()}

    card = probe(Client(_mlp(), rate=0.1, defense=torn), images, labels, budget="12s")
    assert card.word == "undecided", card
    assert "do not know the defense (what it draws changes what is sent by more" in card.data["sentence"]
    assert not card.data["measured"]
    assert card.above({"exact": 0, "gain": 3}) == []


def test_noise_whose_seed_is_in_the_function_is_no_noise_for_who_knows_it() -> None:
    images, labels = _digits(6)

    def noisy(sent: dict[str, Tensor]) -> dict[str, Tensor]:
        draws = torch.Generator().manual_seed(7)
        return {name: value + torch.randn(value.shape, generator=draws) for name, value in sent.items()}

    card = probe(Client(_smooth(), rate=1.0, defense=noisy), images, labels, budget="10s")
    assert card.word != "stood", card
    assert card.data["measured"] or "not all had their turn" in card.data["sentence"]


def test_noise_that_hides_all_stands_and_says_who_knew_what() -> None:
    images, labels = _digits(6)

    def noisy(sent: dict[str, Tensor]) -> dict[str, Tensor]:
        return {name: value + 10 * torch.randn_like(value) for name, value in sent.items()}

    client = Client(_smooth(), rate=1.0, defense=noisy)
    before = torch.random.get_rng_state()
    card = probe(client, images, labels, budget="20s")
    assert torch.equal(torch.random.get_rng_state(), before)
    assert card.word == "stood", card
    assert card.data["measured"]
    assert "who know the defense: the client's defense is applied to what is simulated; of its noise, 1 of" in str(card)
    # of an update that came from elsewhere nobody can tell whether it is this client's
    sent = {name: 10 * torch.randn_like(value) for name, value in client.round(images, labels).sent.items()}
    card = probe(client, images, labels, sent, budget="10s")
    assert card.word == "undecided", card
    assert "hides whether the description is right" in card.data["sentence"]


def test_what_a_replay_finds_was_done_is_known_to_searches() -> None:
    images, labels = _digits(6)
    client = Client(_smooth(), rate=1.0)
    sent = client.round(images, labels).sent
    draws = torch.Generator().manual_seed(7)
    size = 0.1 * float(torch.cat([one.flatten() for one in sent.values()]).std())
    pruned = {name: torch.where(one.abs() >= one.abs().quantile(0.5), one, 0.0) for name, one in sent.items()}
    blurred = {name: one + size * torch.randn(one.shape, generator=draws) for name, one in sent.items()}
    for update, said in ((pruned, "were sent"), (blurred, "noise of deviation")):
        card = probe(client, images, labels, update, budget="12s")
        assert card.word == "read", card
        (searched,) = [stage for stage in card.data["stages"] if stage["name"] == "searches"]
        assert said in searched["record"]["defense"]["simulated"]


def test_a_change_of_sign_or_an_update_of_zero_never_stands() -> None:
    images, labels = _digits(6)
    client = Client(_smooth(), rate=1.0)
    sent = client.round(images, labels).sent
    turned = {name: -value for name, value in sent.items()}
    words = [
        probe(replace(client, defense=lambda sent: {name: -one for name, one in sent.items()}), images, labels,
              budget="8s").word,
        probe(client, images, labels, turned, budget="8s").word,
        probe(client, images, labels, {name: 0 * value for name, value in sent.items()}, budget="8s").word,
    ]  # fmt: skip
    assert words[2] == "invalid", words
    assert "stood" not in words, words


def test_an_update_of_other_weights_says_nothing() -> None:
    images, labels = _digits(6)
    client = Client(_mlp(), rate=0.1)
    other = Client(nn.Sequential(nn.Flatten(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10)), rate=0.1)
    torch.manual_seed(3)
    strangers = torch.rand(6, 1, 8, 8)
    card = probe(client, images, labels, other.round(strangers, labels).sent, budget="6s")
    assert card.word == "no premise", card.data["sentence"]
    assert card.data["exact"] == 0


def test_what_cannot_be_used_is_invalid_and_names_the_tensor() -> None:
    images, labels = _digits(2)
    client = Client(_mlp(), rate=0.1)
    sent = dict(client.round(images, labels).sent)
    sent["1.weight"] = sent["1.weight"].clone()
    sent["1.weight"][0, 0] = torch.nan
    card = probe(client, images, labels, sent, budget="20s")
    assert card.word == "invalid"
    assert "1.weight" in str(card)


CASE = """
import torch
from torch import nn
import leaklab

torch.manual_seed(0)
client = leaklab.Client(nn.Sequential(nn.Flatten(), nn.Linear(16, 12), nn.ReLU(), nn.Linear(12, 3)), rate=0.1)
inputs, targets = torch.rand(2, 1, 4, 4), torch.tensor([0, 1])
"""


@pytest.mark.parametrize(
    ("budget", "options", "status"), [("15s", [], 3), ("40s", ["--fail-above", "exact=5,gain=500"], 0)]
)
def test_the_command_ends_with_the_status_of_its_word(
    tmp_path: Path, budget: str, options: list[str], status: int
) -> None:
    (tmp_path / "case.py").write_text(CASE, encoding="utf-8")
    command = [sys.executable, "-m", "leaklab.cli", "probe", "case.py", "--budget", budget, "--json", *options]
    ended = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stderr) == (status, "")
    assert json.loads(ended.stdout)["status"] == STATUS["read"]


def test_the_budget_of_a_command_holds_its_imports_and_the_file_too(tmp_path: Path) -> None:
    slow = "import time\ntime.sleep(5)\n" + CASE
    (tmp_path / "case.py").write_text(slow, encoding="utf-8")
    command = [sys.executable, "-m", "leaklab.cli", "probe", "case.py", "--budget", "6s", "--json"]
    command += ["--fail-above", "exact=5"]
    ended = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    # what needs no time is told, and nothing else is begun
    missing = {stage["name"]: stage.get("not run") for stage in json.loads(ended.stdout)["stages"]}
    assert missing["bounds"] == "the budget was out"
    assert missing["inputs"] is None
    # a gate that stays shut says why
    assert ended.returncode == json.loads(ended.stdout)["status"] != 0
    assert ended.stderr == "the limits are not asked: the budget was out before all was tried; raise --budget\n"


@pytest.mark.parametrize(
    ("word", "data", "why"),
    [
        ("read", {"measured": True, "ended": "complete"}, ""),
        ("read", {"measured": False, "ended": "budget"}, "raise --budget"),
        ("stood", {"measured": False, "ended": "complete"}, "not all searches"),
        ("no premise", {"measured": False, "ended": "complete"}, "the word is no premise"),
    ],
)
def test_a_gate_says_why_it_does_not_ask_its_limits(word: str, data: dict[str, object], why: str) -> None:
    said = _why_not(word, data)
    assert bool(said) == bool(why)
    assert why in said


FENCE = re.compile(r"```python\n# (\S+)\n(.*?)```", re.DOTALL)


def test_the_page_does_what_it_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = (ROOT / "docs/probe.md").read_text(encoding="utf-8")
    blocks = dict(FENCE.findall(page))
    exec(compile(blocks["five_lines.py"], "five_lines.py", "exec"), {})
    (tmp_path / "case.py").write_text(blocks["case.py"], encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    found = read_case(Path("case.py"))
    card = probe(found.client, found.inputs, found.targets, public=found.public, budget="6s")
    names = {stage["name"] for stage in card.data["stages"]}
    told = set(re.findall(r"^\| ([a-z ]+) \| ", page, re.MULTILINE))
    assert names <= told
    assert all(f"| {word} | {status} |" in page for word, status in STATUS.items())
    fields = {field for field in Client.__dataclass_fields__ if field not in ("model", "loss", "rate")}
    assert all(f"`{field}`" in page or f"{field}=" in page for field in fields)
