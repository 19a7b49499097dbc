"""An attack of one's own that keeps its state and costs much is one file: nothing else in the house is touched."""

from math import ceil

import pytest
import torch

from leaklab.attacks.reconstructions import packed
from leaklab.attacks.run import attacked
from leaklab.attacks.search.savepoints import OutOfTime, Savepoints, keeping
from leaklab.observations.requirements import check_batch
from leaklab.planning.devices import Device
from leaklab.planning.memory import memory_mb
from leaklab.planning.pieces import MINUTES, Cut, chunks_of
from leaklab.planning.plan import Job
from leaklab.planning.resources import cost
from leaklab.records import plugins
from leaklab.records.errors import UserError
from leaklab.specs.attack import AttackerSpec, AttackSpec

PATIENT = '''
"""A walk at random, whose point of the smallest loss counts."""

from dataclasses import dataclass
from typing import ClassVar

import torch

from leaklab.attacks.base import Attack, Case, Reconstruction, victim
from leaklab.attacks.matching.inversion import Inversion
from leaklab.attacks.labels.rules import fixed_labels
from leaklab.attacks.matching.distances import squared_l2
from leaklab.attacks.search.savepoints import savepoint
from leaklab.attacks.starts import StartRecord
from leaklab.observations.declared import SAMPLES, Requirements
from leaklab.records.bounds import Count
from leaklab.records.traits import AttackTraits


@dataclass(frozen=True)
class Patient:
    """Try so many points a step.

    Attributes:
        depth: points.
    """

    requirements: ClassVar[Requirements] = Requirements(facts=SAMPLES, largest_batch=1)
    traits: ClassVar[AttackTraits] = AttackTraits(evaluations="depth", keeps_state=True, memory_mb=9000)

    depth: Count = 500

    def reconstruct(self, case: Case) -> Reconstruction:
        """Try points; see ``Attack.reconstruct``."""
        observation, trials = case.observation, case.observation.trials
        network = victim(observation, case.knowledge, "patient")
        labels = fixed_labels("patient", "bias", observation, case.knowledge)
        distance, rows = case.distance or squared_l2, torch.arange(len(trials))
        loss = Inversion(network, list(observation.update.values()), case.shape("patient"), 10, distance, labels)
        best = torch.stack([loss.normal_start(case.streams("start", trial, 0)) for trial in trials])
        state = {"points": best, "losses": loss(best, rows)[0], "step": torch.tensor(0)}
        with savepoint() as saved:
            state = {**state, **saved.found()}
            while int(state["step"]) < case.budget.iterations * self.depth:
                drawn = [case.streams("walk", trial, int(state["step"])).normal(loss.unknowns) for trial in trials]
                points = state["points"] + 0.1 * torch.stack(drawn)
                losses = loss(points, rows)[0]
                better = losses < state["losses"]
                state = {
                    "points": torch.where(better[:, None], points, state["points"]),
                    "losses": torch.where(better, losses, state["losses"]),
                    "step": state["step"] + 1,
                }
                saved.offer(lambda: state)
        found = loss.unpack(state["points"], rows).images[:, None]
        pairs, done = zip(trials, state["losses"].tolist()), int(state["step"])
        starts = tuple(StartRecord(trial, 0, value, done, done, False, "budget") for trial, value in pairs)
        return Reconstruction.of_starts(found, state["losses"][:, None], labels, starts)


PLUGIN: type[Attack] = Patient
'''
CAPTURE = {"dataset": "mnist", "images": {"count": 35}, "model": "dlg-lenet"}


def spec(**changes):
    return AttackSpec.model_validate({"capture": CAPTURE, "attack": "patient", "iterations": 1000, **changes})


@pytest.fixture(autouse=True)
def patient(plant):
    plant("patient", PATIENT, "attacks")


def test_the_plan_knows_what_it_costs():
    assert cost(spec()).evaluations == 35 * 1000 * 500
    deep = {"name": "patient", "settings": {"depth": 7}}
    assert cost(spec(attack=deep, restarts=3)).evaluations == 35 * 3 * 1000 * 7
    assert (memory_mb(spec()), memory_mb(spec(attack="ig"))) == (9000, 2500)


def test_it_is_cut_into_chains_of_pieces(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    cut, seconds = Cut.of(Job(spec()), Device()), Device().seconds(spec())
    chain = ceil(seconds / chunks_of(spec()) / (60 * MINUTES))
    assert (cut.pieces, cut.chain) == (chunks_of(spec()) * chain, chain)
    assert chain > 1
    assert cut.told == {"pieces": cut.pieces, "chain": chain, "seconds": ceil(seconds / cut.pieces)}
    short = Cut.of(Job(spec(iterations=1)), Device())
    assert (short.pieces, short.chain) == (1, 1)


def test_the_plan_refuses_what_it_cannot_do():
    with pytest.raises(UserError, match="attacks plug-in 'patient': depth"):
        plugins.check("attacks", "patient", {"depth": 0})
    with pytest.raises(UserError, match="attack 'patient' works for batch_size <= 1, not 8"):
        check_batch("patient", 8, {})


class Kept:
    """A store that remembers all that it is told to keep."""

    def __init__(self):
        self.tensors = {}

    def found(self):
        return dict(self.tensors)

    def keep(self, tensors):
        self.tensors = dict(tensors)

    def offer(self, tensors):
        """Wait for the end."""


def test_pieces_that_each_do_one_step_end_with_the_same_bytes(observe, digits, knowledge):
    images, labels = (one[:2, None] for one in digits)
    asked = {"attack": {"name": "patient", "settings": {"depth": 3}}, "iterations": 2}
    attacker, seen = AttackerSpec.model_validate(asked), observe(images, labels)
    whole, kept, pieces = packed(attacked(attacker, seen, knowledge, "cpu", None)), Kept(), 0
    while True:
        try:
            # the first piece has time for the first step, and each later one for the next
            with keeping(Savepoints(kept, until=0 if pieces < 6 else float("inf"))):
                found = packed(attacked(attacker, seen, knowledge, "cpu", None))
            break
        except OutOfTime:
            pieces += 1
    assert pieces == 6
    assert found.keys() == whole.keys()
    assert all(torch.equal(found[name], value) for name, value in whole.items())
