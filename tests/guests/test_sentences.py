"""The arena of sentences: they are kept apart, read where nothing hides them, and counted in tokens."""

from dataclasses import replace

import pytest
import torch
import yaml
from markupsafe import escape

from leaklab.attacks.annealed import AnnealedMap
from leaklab.attacks.matching.distances import profiled_scale
from leaklab.data.text.corpus import END, START
from leaklab.guests import arenas, moments
from leaklab.guests.calls import Subject
from leaklab.guests.card import card_of
from leaklab.guests.exposure import Attacker
from leaklab.guests.files import find
from leaklab.guests.judge import control
from leaklab.guests.pictures import strips
from leaklab.guests.sentences import Read, exposure_of
from leaklab.guests.sheets import Card
from leaklab.guests.verdict import word_of
from leaklab.metrics.gains import gain
from leaklab.records.errors import UserError

BLIND = Attacker("unaware", "token-search", AnnealedMap())


@pytest.fixture(scope="module")
def arena():
    return moments.load("text")


@pytest.fixture
def guest(tmp_path):
    file = tmp_path / "mine.py"
    file.write_text("def defend(gradients):\n    return {name: value / 2 for name, value in gradients.items()}\n")
    return file


@pytest.fixture
def exposure(arena, guest):
    return exposure_of(Subject.load(guest), "bert", 0, arena)


def test_the_sentences_are_kept_apart_and_end_where_they_end(arena):
    public, private = (part.images for part in arena.parts)
    assert not {tuple(one) for one in public.tolist()} & {tuple(one) for one in private.tolist()}
    for ids in (public, private):
        assert ids.shape[1] == arena.file.length + 2
        assert set(ids[:, 0].tolist()) == {START}
        assert set(ids[:, -1].tolist()) == {END}
        assert int(ids[:, 1:-1].min()) > END  # a token of the vocabulary at each place


def test_without_a_defense_they_are_read_and_a_hidden_factor_hides_nothing(exposure):
    """Two of six, to the last token; at half the length by who asks for the direction alone."""
    assert control(exposure)
    truth = exposure.private.images[:2]
    assert exposure.read(replace(BLIND, kind="undefended"), exposure.plain[:2]).scores(truth) == [100.0, 100.0]
    found = exposure.read(Attacker("rule", "profiled-scale", AnnealedMap(), profiled_scale), exposure.defended[:2])
    assert found.scores(truth) == [100.0, 100.0]
    assert found.labels.tolist() == exposure.private.labels[:2].tolist()


def test_a_guess_is_the_better_of_the_commonest_tokens_of_all_and_of_the_class(tmp_path, guest):
    rows = ROWS + "".join(f"public,0,the {word} is here\n" for word in ("fox", "fox", "cow"))
    rows = rows.replace("private,0,the fox is here", "private,0,the fox is there").replace(",bee", ",the fox")
    arena = moments.load(own(tmp_path, rows))
    found = exposure_of(Subject.load(guest), "bert", 0, arena)
    (of_class,) = (ids for ids, label in zip(found.guesses().images, found.private.labels, strict=True) if label == 0)
    assert arena.corpus.vocabulary.decode(of_class.tolist())[1] == "fox"
    truth = found.private.images
    every = Read(BLIND, arena.public.images.mode(0).values.expand_as(truth), found.private.labels)
    pairs = zip(found.guesses().scores(truth), every.scores(truth), strict=True)
    assert all(better >= of_all for better, of_all in pairs)


def test_tokens_count_at_their_place():
    truth = torch.tensor([[START, 7, 8, 9, 10, END]])
    nobody = Read(BLIND, torch.tensor([[START, 7, 9, 8, 10, END]]), torch.tensor([0]))
    assert nobody.scores(truth) == [50.0]
    assert nobody.errors(truth) == [0.5]


def test_an_interval_of_percent_stays_between_none_and_all():
    scores, guesses = [100.0, 100.0, 100.0, 30.0, 100.0, 100.0], [0.0, 10.0, 0.0, 20.0, 0.0, 0.0]
    own = gain(scores, guesses, unit="%")
    assert own.high == 95.0  # all tokens over a guess of 5 %
    assert own.reads
    assert gain([12.0] * 6, [0.0] * 6, unit="%").reads
    assert gain([8.0] * 6, [0.0] * 6, unit="%").misses  # less than one token of ten
    rows = [{"attacker": "undefended", "scores": scores}, {"attacker": "learnt", "scores": guesses}]
    assert word_of(rows, guesses, unit="%") == "stood"


def test_a_card_shows_sentences_and_what_of_them_stands_right(exposure, guest):
    truth, guesses = exposure.private.images, exposure.guesses()
    read = Read(replace(BLIND, kind="undefended"), truth, exposure.private.labels)
    common = {"network": "bert", "by": "token-search", "seconds": 1.0, "labels": 6}
    rows = [
        {**common, "attacker": "guess", "scores": guesses.scores(truth), **exposure.pictures(guesses),
         "originals": exposure.pictures(read)["images"]},
        *({**common, "attacker": kind, "scores": read.scores(truth), **exposure.pictures(read)}
          for kind in ("undefended", "learnt")),
    ]  # fmt: skip
    data = card_of(find(guest), exposure.arena, 0, [], rows, {"bert": {"price": None}})
    found = data["arenas"]["text"]["bert"]
    assert (found["unit"], found["guess_psnr"]) == ("%", None)
    assert [(row["psnr"], row["tokens"]) for row in found["rows"]] == [(None, 100.0), (None, 100.0)]
    assert data["sentence"].startswith("read: token-search reads 100 % of tokens on the bert")
    assert {"what it costs", "colour"} <= set(data["not measured"])
    assert "sentences" not in data["not measured"]
    card = Card(data, strips(rows))
    words = exposure.arena.corpus.vocabulary.decode(truth[0].tolist())
    page = card.texts()["card.html"]
    assert " ".join(f"<b>{escape(word)}</b>" for word in words) in page
    assert "<img" not in page
    assert " dB" not in page + str(card) + card.texts()["card.md"]


def test_a_hook_of_images_is_refused_in_one_line(arena, tmp_path):
    file = tmp_path / "mine.py"
    file.write_text(
        "import leaklab\n\n\nclass Mine(leaklab.Defense):\n    def samples(self, images, labels, context):\n"
        "        return images, labels\n"
    )
    with pytest.raises(UserError, match=r"mine\.py: an arena of sentences takes defenses of updates.* hook samples"):
        exposure_of(Subject.load(file), "bert", 0, arena)


ROWS = "part,label,sentence\n" + "".join(
    f"{part},{number % 2},the {word} is here\n"
    for part, words in (("public", ("cat", "dog", "cow", "hen")), ("private", ("fox", "bee")))
    for number, word in enumerate(words)
)
OWN = {
    "title": "animals",
    "sentences": "mine.csv",
    "length": 4,
    "updates": 2,
    "rehearsals": 2,
    "networks": {"bert": {"words": "a BERT", "model": "bert-classifier", "settings": {"layers": 1, "width": 8}}},
}


def own(folder, rows=ROWS, **changes):
    (folder / "mine.csv").write_text(rows, encoding="utf-8")
    content = {key: value for key, value in {**OWN, **changes}.items() if value is not None}
    (folder / "mine.yaml").write_text(yaml.safe_dump(content))
    return str(folder / "mine.yaml")


def test_sentences_of_ones_own(tmp_path, guest):
    arena = moments.load(own(tmp_path))
    assert arena.corpus.vocabulary.decode(arena.private.images[0].tolist()) in (
        ("the", "fox", "is", "here"),
        ("the", "bee", "is", "here"),
    )
    assert (len(arena.public.labels), arena.classes, arena.unit) == (4, 2, "%")
    found = exposure_of(Subject.load(guest), "bert", 0, arena)
    assert found.read(replace(BLIND, kind="undefended"), found.plain).scores(found.private.images) == [100.0, 100.0]


def test_nothing_is_read_of_nothing(tmp_path, guest):
    """The same of all, and no more than a guess: an update of zeros, and one without the tables."""
    exposure = exposure_of(Subject.load(guest), "bert", 0, moments.load(own(tmp_path)))
    nothing = [{name: torch.zeros_like(value) for name, value in one.items()} for one in exposure.plain[:2]]
    found = exposure.read(BLIND, nothing)
    assert found.images[0].equal(found.images[1])
    bare = [{name: value for name, value in one.items() if "embeddings" not in name} for one in nothing]
    assert exposure.read(BLIND, bare).images.shape == found.images.shape


@pytest.mark.parametrize(
    ("rows", "changes", "line"),
    [
        (ROWS, {"images": "digits"}, "give either images or sentences"),
        (ROWS, {"sentences": None}, "give either images or sentences"),
        (ROWS, {"batch": 2}, "an update has one sentence, in one step, and no price"),
        (ROWS, {"sentences": "other.csv"}, "other.csv is missing: sentences are descriptions, or a CSV file"),
        (ROWS, {"length": 9}, "no sentence of 9 tokens: lower `length`"),
        (ROWS, {"updates": 3}, "too few for 2 rehearsals and 3 updates"),
        (ROWS + "public,0,The fox is here.\n", {}, "'the fox is here' is public and private: leave it in one part"),
        ("part,label\npublic,0\n", {}, "line 2: write the columns part, label, sentence"),
        ("part,label,sentence\npublik,0,a\n", {}, "line 2: write the columns"),
        ("part,label,sentence\npublic,-1,a\n", {}, "a label a whole number from 0"),
        (ROWS, {"networks": {"a": {"words": "", "model": "mlp"}}}, "network a: unknown models/text plug-in 'mlp'"),
    ],
)
def test_a_wrong_file_is_one_line(tmp_path, rows, changes, line):
    with pytest.raises(UserError) as caught:
        assert moments.load(own(tmp_path, rows, **changes)).parts
    assert line in str(caught.value)
    assert "\n" not in str(caught.value)


def test_the_house_has_one(arena):
    assert "text" in arenas.names()
    assert len(arena.private.labels) >= arena.file.updates
