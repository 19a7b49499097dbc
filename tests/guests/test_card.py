"""Cards to hand on: their schema, their files, and that the same file and seed give the same bytes."""

import base64
import importlib
import io
import json
import re
from dataclasses import replace
from functools import partial
from types import SimpleNamespace
from typing import get_args

import jsonschema
import pytest
import torch
from PIL import Image

import leaklab
from leaklab.guests import arenas, exposure, judge, judging, moments, price
from leaklab.guests.calls import Subject
from leaklab.guests.card import SHOWN, SILENT, card_of
from leaklab.guests.exposure import Exposure
from leaklab.guests.files import find
from leaklab.guests.judge import control, judged
from leaklab.guests.judging import LINT, seconds_of
from leaklab.guests.pictures import encoded
from leaklab.guests.schema import WORDS, AttackerKind, CardData, schema
from leaklab.guests.sheets import TONES, Card
from leaklab.guests.verdict import STATUS
from leaklab.records.errors import UserError

HALVING = "def defend(gradients):\n    return {name: value / 2 for name, value in gradients.items()}\n"
GUESSES = [12.0, 13.0, 14.0, 12.5, 13.5, 11.0]


def row(attacker, above, by="somebody", **more):
    scores = [guess + above + 0.1 * place for place, guess in enumerate(GUESSES)]
    common = {"network": "mlp", "attacker": attacker, "by": by, "scores": scores, "labels": 6, "seconds": 1.234}
    return {**common, **more}


CONTROL = {"network": "mlp", "attacker": "control", "by": "no-op", "same": True}
GUESS = {"network": "mlp", "attacker": "guess", "by": "mean images", "scores": GUESSES, "labels": None}
FAILED = {"network": "mlp", "attacker": "rule", "by": "x", "failed": "no", "seconds": 1.0}
PRICE = {
    "pairs": 6, "rounds": 60, "clients": 4, "without": 89.9, "accuracy": 80.0, "lost": 9.9, "low": 8.0, "high": 11.8,
    "milliseconds": 1.5, "gradient_milliseconds": 2.0, "bytes": 40, "bytes_without": 203_560, "noise": 0.46,
}  # fmt: skip
FACTS = {"network": "mlp", "attacker": "facts", "facts": ["adds | noise <b>"]}
WHOLE = {"mlp": {"changes": 0.1, "price": PRICE}}
STOOD = [CONTROL, FACTS, GUESS, row("undefended", 30), row("unaware", -9), row("learnt", -3)]
CARDS = {
    "stood": (STOOD, WHOLE),
    "read": ([*STOOD, row("rule", 20, "sharp & <quick>")], WHOLE),
    "undecided": ([*STOOD, FAILED], WHOLE),
    "no premise": ([CONTROL, FACTS, GUESS, row("undefended", 0), row("learnt", -3)], WHOLE),
    "invalid": ([{**CONTROL, "same": False}, *STOOD[1:]], WHOLE),
}


@pytest.fixture
def guest(tmp_path):
    file = tmp_path / "mine.py"
    file.write_text(HALVING)
    return find(file)


def card(guest, rows, answers, **more):
    return Card(
        card_of(
            guest,
            arenas.find("tiny"),
            0,
            [{"what": "clock", "text": f"{guest.file}, line 2: it <asks>"}],
            rows,
            answers,
            **more,
        )
    )


@pytest.fixture
def quick(monkeypatch):
    """One network, searches of two steps, and no child: what is told and answered is the same."""
    budget = exposure.Budget
    monkeypatch.setattr(exposure, "Budget", lambda evaluations, trials: budget(2, trials))
    monkeypatch.setattr(price, "PAIRS", 2)
    monkeypatch.setattr(price, "ROUNDS", 2)
    found = arenas.find("tiny")
    file = found.file.model_copy(update={"networks": {"mlp": found.file.networks["mlp"]}, "rehearsals": 3, "draws": 2})
    monkeypatch.setattr(arenas, "find", lambda given: replace(found, file=file))
    monkeypatch.setattr(judge, "load", moments.load.__wrapped__)

    def in_child(task, file, arguments, *, on_row, on_phase, **limits):
        lint = {"hooks": [], "warnings": []}
        told = json.loads  # as it travels
        run = partial(judged, file, on_phase, lambda one: on_row(told(json.dumps(one))), **arguments)
        return SimpleNamespace(value=lint if task == LINT else told(json.dumps(run())))

    monkeypatch.setattr(judging, "in_child", in_child)


def test_the_same_file_and_seed_give_the_same_bytes_but_for_seconds(quick, tmp_path, monkeypatch):
    """Also where the one is given as a path and the other as the function that stands there."""
    (tmp_path / "mine_of_bytes.py").write_text(HALVING)
    monkeypatch.syspath_prepend(str(tmp_path))
    found = []
    for folder in ("one", "two"):
        function = importlib.import_module("mine_of_bytes").defend  # judged in this process, it is gone afterwards
        made = leaklab.judge(tmp_path / "mine_of_bytes.py" if folder == "one" else function, budget="10m")
        assert made.write(tmp_path / folder) == [tmp_path / folder / name for name in made.texts()]
        found.append({file.name: file.read_bytes() for file in (tmp_path / folder).iterdir()})
    varying = rb'"(seconds|(gradient_)?milliseconds)": [\d.]+|[\d.]+ ms'
    first, second = ({name: re.sub(varying, b"", text) for name, text in one.items()} for one in found)
    assert first == second
    assert set(first) == {"card.json", "card.html", "card.md", "badge.svg"}
    data = json.loads(found[0]["card.json"])
    jsonschema.validate(data, schema())
    (network,) = data["arenas"]["tiny"].values()
    assert network["control"] is True
    asked = {"rounds", "noise of the same price"}  # it draws nothing, and costs nothing
    assert {one["attacker"] for one in network["rows"]} == set(SHOWN) - asked
    assert network["price"]["lost"] == 0
    numbers = re.findall(rb"-?\d+\.\d+", re.sub(rb'"versions": \{[^}]*\}', b"", found[0]["card.json"]))
    assert len(numbers) > 40
    assert all(len(number.partition(b".")[2]) <= 2 for number in numbers if number not in (b"0.109", b"0.0114"))
    page = found[0]["card.html"].decode()
    assert page.count("data:image/png;base64,") == 6 * 6  # original, guess, undefended, unaware, rule, learnt
    assert str(tmp_path) not in "".join(text.decode() for text in found[0].values())


@pytest.mark.parametrize("word", WORDS)
def test_every_word_has_a_card_that_its_schema_allows_and_files_that_show_it(word, guest):
    rows, answers = CARDS[word]
    made = card(guest, rows, answers)
    assert (made.word, made.status) == (word, STATUS[word])
    jsonschema.validate(made.data, schema())
    texts = made.texts()
    assert json.loads(texts["card.json"]) == made.data
    assert f"leaklab: {word}" in texts["badge.svg"]
    assert f'class="verdict {TONES[word]}"' in texts["card.html"]
    assert word in texts["card.md"].splitlines()[0]
    assert str(made).splitlines()[-1] == made.data["sentence"]
    assert made.data["sentence"].startswith(word)
    for name, text in texts.items():
        assert "<b>" not in text or name == "card.json"
        assert not any(bad in text.lower() for bad in ("safe", "secure"))
        assert str(guest.file.parent) not in text
    assert not re.search("http|src=.(?!data:)", texts["card.html"])  # it asks for nothing outside of itself
    (facts,) = [line for line in texts["card.md"].splitlines() if "What it does" in line]
    assert r"adds \| noise &lt;b>" in facts
    assert made._repr_html_() in texts["card.html"]


def test_a_control_that_differs_makes_a_card_invalid_and_says_so(guest):
    made = card(guest, *CARDS["invalid"])
    assert made.data["warnings"][-1]["what"] == "control"
    assert "did not send the gradient itself on the mlp" in str(made)


def test_a_guest_that_does_nothing_sends_the_gradients_to_the_bit(guest):
    tiny = Exposure(Subject.load(guest.file), "mlp")
    assert control(tiny)
    name = next(iter(tiny.plain[-1]))
    tiny.plain[-1][name] = torch.nextafter(tiny.plain[-1][name], torch.tensor(torch.inf, dtype=torch.float64))
    assert not control(tiny)


@pytest.mark.parametrize(("interrupted", "said"), [(False, "the budget ended"), (True, "it was interrupted")])
def test_a_card_that_was_cut_off_says_so_everywhere(guest, interrupted, said):
    made = card(guest, STOOD[:5], {"mlp": None}, interrupted=interrupted)
    assert made.word == "undecided"
    assert made.data["arenas"]["tiny"]["mlp"]["facts"] == FACTS["facts"]  # known by then
    assert made.data["ended"] == ("interrupted" if interrupted else "budget")
    jsonschema.validate(made.data, schema())
    for text in (str(made), made.texts()["card.html"], made.texts()["card.md"]):
        assert f"{said} before all had their turn" in text
    nothing = card(guest, [], {"mlp": None}, interrupted=interrupted)
    jsonschema.validate(nothing.data, schema())
    assert nothing.texts().keys() == made.texts().keys()


def test_a_failed_attacker_is_named(guest):
    assert card(guest, *CARDS["undecided"]).data["sentence"] == "undecided: x failed (no)"


def test_the_schema_and_the_words_of_the_code_are_one():
    assert set(WORDS) == set(STATUS) == set(TONES)
    assert set(get_args(AttackerKind)) == set(SHOWN)


def test_a_wrong_card_is_refused(guest):
    data = card(guest, *CARDS["read"]).data
    for wrong in ({**data, "verdict": "safe"}, {**data, "more": 1}, {**data, "seed": "x"}):
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate(wrong, schema())
        with pytest.raises(ValueError, match="validation error"):
            CardData.model_validate(wrong)


def test_a_picture_is_what_was_read():
    images = torch.tensor([[0.0, 1.0], [0.5, torch.nan]]).view(1, 1, 2, 2)
    (picture,) = encoded(images)
    shown = Image.open(io.BytesIO(base64.b64decode(picture)))
    assert (shown.mode, shown.size, list(shown.getdata())) == ("L", (2, 2), [0, 255, 128, 0])
    (colour,) = encoded(torch.rand(1, 3, 4, 5))
    assert Image.open(io.BytesIO(base64.b64decode(colour))).size == (5, 4)


@pytest.mark.parametrize("noise", ["0", "torch.randn_like(value)"])
def test_an_update_that_says_nothing_of_the_images_is_not_said_to_have_stood(quick, tmp_path, noise):
    """No entry is as large as what it lets through: zero or noise is sent, which would hide all and trains nobody."""
    body = f"{{name: torch.where(value.abs() > 50, value, 0 * value) + {noise} for name, value in gradients.items()}}"
    (tmp_path / "far.py").write_text(f"import torch\n\ndef defend(gradients):\n    return {body}\n")
    card = leaklab.judge(tmp_path / "far.py")
    assert (card.status, card.word) == (STATUS["undecided"], "undecided")
    assert [row["attacker"] for row in card.data["arenas"]["tiny"]["mlp"]["rows"]] == ["undefended"]
    assert card.data["sentence"] == f"undecided: on the mlp it {SILENT}"


def test_a_page_names_the_images_of_its_arena(guest):
    for name, said in (("tiny", "six digits that"), ("colour", "images of the arena colour that")):
        data = card_of(guest, arenas.find(name), 0, [], [], {"lenet": None})
        page, text = Card(data)._repr_html_(), Card(data).texts()["card.md"]
        assert f"PSNR of the {said} were attacked" in page
        assert ("--arena colour --seed 0" in page) == ("in the arena colour" in text) == (name == "colour")


def test_the_guess_is_the_better_of_both_for_each_image(guest):
    tiny = Exposure(Subject.load(guest.file), "mlp")
    guesses, truth = tiny.guesses(), tiny.private.images
    public = tiny.arena.public
    means = [public.images.mean(0).expand_as(truth), torch.stack([public.images[public.labels == one].mean(0)
             for one in tiny.private.labels])]  # fmt: skip
    each = [replace(guesses, images=mean).scores(truth) for mean in means]
    assert guesses.scores(truth) == [max(pair) for pair in zip(*each, strict=True)]


@pytest.mark.parametrize(("told", "seconds"), [("90s", 90), ("3m", 180), ("0.5h", 1800), (0.3, 18), ("5", 300)])
def test_a_budget_is_a_time(told, seconds):
    assert seconds_of(told) == pytest.approx(seconds)


@pytest.mark.parametrize("told", ["", "3x", "-3m", "1s", "nan", "inf", 0, -1.0, "3 m 2"])
def test_what_is_no_budget_is_refused(told):
    with pytest.raises(UserError, match="is no time from 6 s on: write 90s, 3m"):
        seconds_of(told)


def test_an_arena_that_is_not_there_and_a_judge_inside_of_a_child_are_refused(guest, monkeypatch):
    with pytest.raises(UserError, match="unknown arena 'ocean': choose from tiny, batch, colour, images, steps, text"):
        leaklab.judge(guest.file, arena="ocean")
    monkeypatch.setenv(judging.IN_CHILD, "1")
    with pytest.raises(UserError, match="put the call below if __name__"):
        leaklab.judge(guest.file)
