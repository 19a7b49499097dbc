"""The word of a probe, from what it rests on; its limits; stages that fail."""

import itertools
import time

import pytest
import torch
from torch import nn

from leaklab.guests.verdict import STATUS
from leaklab.probing.card import Outcome, Probe, data_of
from leaklab.probing.case import Case
from leaklab.probing.client import Client
from leaklab.probing.commands import limits_of
from leaklab.probing.reading import Reading
from leaklab.probing.stages import Done, Stages
from leaklab.probing.yardstick import Grades, graded
from leaklab.records.errors import UserError


def _case(samples: int = 6) -> Case:
    torch.manual_seed(0)
    client = Client(nn.Sequential(nn.Flatten(), nn.Linear(16, 3)))
    inputs, targets = torch.rand(samples, 1, 4, 4), torch.arange(samples) % 3
    return Case(client, client.round(inputs, targets), inputs, targets)


def _grades(case: Case, *, read: int) -> Grades:
    """Return grades of readings of which so many are exact and the others grey."""
    assert case.inputs is not None
    shown = case.inputs.clone()
    shown[read:] = 0.5
    return graded(case, [Reading("search", "input", one, proven=False) for one in shown])


@pytest.mark.parametrize(
    ("samples", "read", "explained", "premise", "complete", "usable", "word"),
    [
        (6, 0, True, True, True, True, "stood"),
        (6, 1, True, None, True, True, "read"),
        (6, 1, False, None, True, True, "read"),
        (5, 0, True, True, True, True, "undecided"),
        (6, 0, True, True, False, True, "undecided"),
        (6, 0, True, None, True, True, "undecided"),
        (6, 0, True, False, True, True, "no premise"),
        (6, 0, False, True, True, True, "no premise"),
        (6, 6, True, True, True, False, "invalid"),
    ],
)
def test_the_word_is_the_one_of_the_page(samples, read, explained, premise, complete, usable, word) -> None:
    case = _case(samples)
    outcome = Outcome(usable, explained, _grades(case, read=read), 0, premise, complete)
    assert outcome.word == word
    card = _probe(case, outcome)
    assert card.word == word
    assert card.status == STATUS[word]
    assert card.data["sentence"].startswith(f"{word}: ")
    assert "safe" not in card.data["sentence"]


def test_without_the_samples_only_what_is_proven_is_read() -> None:
    words = {proven: Outcome(True, None, None, proven, None, complete=True).word for proven in (0, 2)}
    assert words == {0: "undecided", 2: "read"}


def test_nothing_but_stood_has_status_0_whatever_is_known() -> None:
    case = _case()
    three = (True, False, None)
    for usable, explained, premise, complete in itertools.product((True, False), three, three, (True, False)):
        word = Outcome(usable, explained, _grades(case, read=0), 0, premise, complete).word
        assert (word == "stood") == (usable and explained is True and premise is True and complete)


def test_only_who_knew_the_defense_is_said_to() -> None:
    case = _case()
    grades, common = _grades(case, read=0), {"proven": 0, "premise": True, "complete": True}
    knowing = _probe(case, Outcome(True, True, grades, **common, knows="it is run"))
    assert knowing.word == "stood"
    assert "who know the defense: it is run" in knowing.data["sentence"]
    assert "the defense" in knowing.data["granted"]["what"]
    ignorant = _probe(case, Outcome(True, True, grades, **common, informed=False, why="it keeps a state"))
    assert ignorant.word == "undecided"
    assert not ignorant.data["measured"]
    assert "do not know the defense (it keeps a state)" in ignorant.data["sentence"]
    assert "the defense" not in ignorant.data["granted"]["what"]
    other = _probe(case, Outcome(True, True, grades, **common, informed=False, why="it drops", defended=False))
    assert other.data["sentence"].endswith("by searches that do not know all that was done (it drops)")
    hidden = _probe(case, Outcome(True, None, grades, **common, knows="it is run"))
    assert hidden.word == "undecided"
    assert "hides whether the description is right" in hidden.data["sentence"]


def _probe(case: Case, outcome: Outcome) -> Probe:
    stages = [Done("proofs", 0.1, None, "it <failed> | here")]
    return Probe(
        data_of(case, outcome, stages, kind="client", file="case.py", sha256="", budget_out=False, interrupted=False)
    )


def test_all_files_of_a_card_are_written_and_escape_what_users_wrote(tmp_path) -> None:
    case = _case()
    card = _probe(case, Outcome(True, True, _grades(case, read=2), 0, None, complete=True))
    assert {path.name for path in card.write(tmp_path)} == {"card.json", "card.html", "card.md", "badge.svg"}
    page = (tmp_path / "card.html").read_text()
    assert "it &lt;failed&gt;" in page
    assert "<failed>" not in page
    assert "read 2 of 6" in (tmp_path / "badge.svg").read_text()
    assert "\\|" in (tmp_path / "card.md").read_text()


def test_limits_are_broken_from_above_only() -> None:
    case = _case()
    card = _probe(case, Outcome(True, True, _grades(case, read=2), 0, None, complete=True))
    assert card.above({"exact": 2}) == []
    assert card.above({"exact": 1}) == ["exact is 2, more than 1"]
    assert card.above({"gain": 3}) != []
    assert limits_of("exact=0, gain=3.5") == {"exact": 0.0, "gain": 3.5}
    for wrong, said in (("exat=0", "no limit"), ("exact", "no number"), ("gain=a", "no number")):
        with pytest.raises(UserError, match=said):
            limits_of(wrong)


def test_a_stage_that_fails_says_so_and_the_others_go_on() -> None:
    told: list[str] = []
    stages = Stages(time.monotonic() + 60, lambda done: told.append(done.name))

    def broken() -> Done:
        raise RuntimeError("the owner's\nmodel")

    assert stages.run("first", broken) is None
    assert stages.run("large", lambda: torch.empty(2**60)) is None  # type: ignore[arg-type, return-value]
    stages.until = 0.0
    assert stages.run("second", broken) is None
    assert stages.cut
    assert told == ["first", "large", "second"]
    assert [done.missing for done in stages.done] == [
        "RuntimeError: the owner's model",
        "it does not fit the memory: probe fewer samples",
        "the budget was out",
    ]
