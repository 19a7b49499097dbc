"""``leaklab.probe``: from a client and its samples to a card, stage by stage within a budget.

What is told without a search comes first: whether the update can be used, whether the client as described sends it,
what its tensors hold, what is proven. Then searches, and where something was read, what would stop it.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from leaklab.guests.judging import seconds_of
from leaklab.probing.algebra.bounds import bounds
from leaklab.probing.algebra.proofs import proofs
from leaklab.probing.candidates import Named, line_up, membership, named
from leaklab.probing.card import Outcome, Probe, data_of
from leaklab.probing.case import Case
from leaklab.probing.client import Client
from leaklab.probing.exchange import Exchange
from leaklab.probing.inputs import check_inputs
from leaklab.probing.owned import all_drawing
from leaklab.probing.pictures import strips_of
from leaklab.probing.reading import Reading
from leaklab.probing.replay.replay import replay
from leaklab.probing.replay.result import Replay
from leaklab.probing.searches.search import Searches, searches
from leaklab.probing.sentences import sentences
from leaklab.probing.stages import Done, Stages
from leaklab.probing.stopping import KNOBS, stopping
from leaklab.probing.yardstick import Grades, graded
from leaklab.records.errors import UserError

SHARES = {"replay": 0.2, "searches": 0.5, "premise": 0.5, "stopping": 0.9, "membership": 0.3}
"""Of what is left of the budget when a stage begins."""
LEAST_SEARCH, TRIALS = 1.0, 40
"""Seconds of a search that is to be stopped, at least, and how many of them a bisection is given time for."""


def probe(
    client: Client,
    inputs: Tensor | None,
    targets: Tensor | None,
    update: Mapping[str, Tensor] | Exchange | None = None,
    *,
    public: tuple[Tensor, Tensor] | None = None,
    others: Mapping[str, Mapping[str, Tensor]] | None = None,
    tokenizer: Any = None,
    budget: str | float = "5m",
    seed: int = 0,
    file: str = "",
    sha256: str = "",
    said: Callable[[Done], None] = lambda _: None,
    began: float | None = None,
) -> Probe:
    """Say what an update of a client gives away.

    Args:
        client: how it trains.
        inputs: its private samples in the order in which it uses them, [N, ...]; None where nobody holds them.
        targets: what the loss compares with, [N, ...]; None where nobody holds them.
        update: what was really sent, by name, or with the state before it; None to run the client as described.
        public: inputs and targets of others, for attackers with a prior.
        others: states of the model in other rounds by name, one of which the update may belong to.
        tokenizer: of sentences, with ``decode``.
        budget: e.g. ``90s``, ``3m``; a number alone is minutes. What is ready by then is on the card.
        seed: of everything that is drawn.
        file: name of the case file or recording, for the card.
        sha256: of the case file, for the card.
        said: told each stage as soon as it is over.
        began: time (``time.monotonic``) from which the budget counts; None for that of the call.

    Raises:
        UserError: there is neither an update nor samples to make one of, or the client cannot train.
    """
    stages = Stages((time.monotonic() if began is None else began) + seconds_of(budget), said)
    with all_drawing(seed):
        exchange = _exchange(client, inputs, targets, update)
    case = Case(client, exchange, inputs, targets, public, seed)
    work = _Work(case, stages, dict(others or {}), given=update is not None)
    interrupted = False
    try:
        with all_drawing(seed + 1):
            work.run()
    except KeyboardInterrupt:
        interrupted = True
    data = data_of(
        case, work.outcome, stages.done, kind="client" if update is None else "exchange", file=file, sha256=sha256,
        budget_out=stages.cut, interrupted=interrupted,
    )  # fmt: skip
    return Probe(data, strips_of(case, work.grades, work.readings, tokenizer))


def _exchange(
    client: Client, inputs: Tensor | None, targets: Tensor | None, update: Mapping[str, Tensor] | Exchange | None
) -> Exchange:
    if isinstance(update, Exchange):
        return update
    if update is not None:
        before = {name: value.detach().clone() for name, value in client.model.state_dict().items()}
        return Exchange(before, {name: value.detach() for name, value in update.items()}, client.sends)
    if inputs is None or targets is None:
        raise UserError("there is neither an update nor samples to make one of: give inputs and targets, or an update")
    return client.round(inputs, targets)


class _Work:
    """The stages of one probe, and what they have found so far."""

    def __init__(self, case: Case, stages: Stages, others: Mapping[str, Mapping[str, Tensor]], *, given: bool) -> None:
        self.case, self.stages, self.others, self.given = case, stages, others, given
        self.readings: list[Reading] = []
        self.grades: Grades | None = None
        self.usable = True
        self.explained: bool | None = None
        self.premise: bool | None = None
        self.searched = False
        self.mixed = False
        self.knows, self.why = "", ""
        self.informed = case.client.defense is None

    @property
    def outcome(self) -> Outcome:
        """What the word rests on, as far as it is known."""
        proven = sum(one.proven and one.of == "input" for one in self.readings)
        complete = self.searched and not self.stages.cut
        defended = self.mixed or self.case.client.defense is not None
        return Outcome(
            self.usable, self.explained, self.grades, proven, self.premise, complete, self.informed, self.knows,
            self.why, defended,
        )  # fmt: skip

    def run(self) -> None:
        """Run all stages."""
        looked = self.stages.run("inputs", lambda: check_inputs(self.case), needs_time=False)
        if looked is not None and not looked.usable:
            self.usable = False
            return
        self._replay()
        self.stages.run("bounds", lambda: bounds(self.case))
        self._read()
        self._search()
        self._grade()
        self._without_pictures()
        if self.grades is not None and not any(self.grades.read):
            self._easy_case()
        if self.grades is not None and any(self.grades.read):
            self._stopping()

    def _seconds(self, stage: str) -> float:
        return SHARES[stage] * self.stages.left

    def _replay(self) -> None:
        if self.case.inputs is None:
            self.stages.left_out("replay", "nobody holds the samples")
            return
        found: Replay | None = self.stages.run(
            "replay", lambda: replay(self.case, self.others, budget=self._seconds("replay"))
        )
        if found is None:
            return
        self.explained = found.matches or bool(found.explanations)
        if found.hidden and self.given:
            self.explained = None  # any description of such noise would do
        if found.corrected is not None:
            self.case = found.corrected
            self.informed = self.case.client.defense is None  # a correction may be one, e.g. the opposite sign
        elif found.explanations:
            self.mixed = True  # with what no client does, e.g. states of others

    def _read(self) -> None:
        found = self.stages.run("proofs", lambda: proofs(self.case))
        if found is not None:
            self.readings += found.readings
        if _holds_tokens(self.case):
            said = self.stages.run("sentences", lambda: sentences(self.case))
            if said is not None:
                self.readings += said.readings

    def _search(self) -> None:
        if _holds_tokens(self.case):
            self.stages.left_out("searches", "samples are tokens: what the sentences' stage says stands for them")
            self.searched = True
            return
        if all_proven(self.case, self.readings):
            self.stages.left_out("searches", "all samples are read and proven without one")
            self.searched = True
            return
        found = self.stages.run("searches", self._sought)
        if found is not None:
            self.searched = not found.starved
            self.knows = "" if self.why or self.mixed else found.defense
            self.informed = not self.why and not self.mixed
            self.readings += found.readings

    def _sought(self) -> Searches:
        found = searches(self.case, self._seconds("searches"))
        self.why = found.unknown or found.unlike(self.case.inputs, self.case.targets)
        return found

    def _grade(self) -> None:
        if self.case.inputs is None:
            self.stages.left_out("readings", "nobody holds the samples to compare with")
            return
        self.grades = self.stages.run("readings", lambda: graded(self.case, self.readings), needs_time=False)

    def _without_pictures(self) -> None:
        if self.case.inputs is None or self.case.public is None:
            for name in ("candidates", "membership"):
                self.stages.left_out(name, "it needs private samples and those of others ('public')")
            return
        self.stages.run("candidates", lambda: _named(self.case))
        self.stages.run("membership", lambda: membership(self.case, seconds=self._seconds("membership")))

    def _easy_case(self) -> None:
        """Ask whether the same attackers read one sample of one step, without any defense."""
        easy = easy_case(self.case)
        if easy.client == self.case.client and not self.case.noise and _size(easy) == _size(self.case):
            self.stages.left_out("premise", "the case is the easy one itself")
            self.premise = False
            return
        found = self.stages.run("premise", lambda: read_of(easy, self._seconds("premise")))
        self.premise = None if found is None else any(found.read)

    def _stopping(self) -> None:
        # larger batches are filled with samples of others
        knobs = [knob for knob in KNOBS if self.case.public is not None or knob != KNOBS[0]]
        whole = self._seconds("stopping")
        each = max(LEAST_SEARCH, whole / TRIALS)
        if self.stages.left < self.stages.seconds("proofs") + each:  # a trial takes both
            self.stages.cut_off("what would stop it")
            return
        attack = "all that is read by proofs"
        if not _holds_tokens(self.case):
            attack += f", or else by searches of {each:.0f} seconds"
        self.stages.run(
            "what would stop it",
            lambda: stopping(self.case, lambda case: read_of(case, each).share, whole, knobs=knobs, attack=attack),
        )


def _named(case: Case) -> Named:
    every, targets, private = line_up(case)
    return named(case, every, targets, true=private)


def all_proven(case: Case, readings: Sequence[Reading]) -> bool:
    """Tell whether there are as many proven readings of samples as there are samples, which a server is told."""
    return case.inputs is not None and sum(one.proven and one.of == "input" for one in readings) >= len(case.inputs)


def _size(case: Case) -> int:
    return 0 if case.inputs is None else len(case.inputs)


def _holds_tokens(case: Case) -> bool:
    """Tell whether samples are rows of token ids."""
    held = case.inputs if case.inputs is not None else (case.public[0] if case.public is not None else None)
    return held is not None and not held.is_floating_point() and held.dim() == 2 and held.dtype != torch.bool


def easy_case(case: Case) -> Case:
    """Return the case of one sample in one plain step of the same client, without any defense."""
    assert case.inputs is not None
    assert case.targets is not None
    plain = replace(case.client, steps=1, accumulate=1, batch_size=None, clip=None, defense=None, schedule=None)
    one, its = case.inputs[:1], case.targets[:1]
    return replace(case, client=plain, exchange=plain.round(one, its), inputs=one, targets=its, noise=0.0)


def read_of(case: Case, seconds: float) -> Grades:
    """Return the grades of all that proofs and searches read of a case."""
    readings = list(proofs(case).readings)
    if _holds_tokens(case):
        readings += sentences(case).readings
    elif not all_proven(case, readings):
        readings += searches(case, seconds).readings
    return graded(case, readings)
