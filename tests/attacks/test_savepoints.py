"""A search that is left after every single step, each time by a new process, ends with the bytes of an undisturbed one.

The losses are awkward on purpose: some starts diverge, some match, some stagnate, and several starts are needed.
"""

from functools import partial
from math import inf

import pytest
import torch

from leaklab.attacks.search.latent import AdamSettings, CmaSettings, adam_search, cma_search
from leaklab.attacks.search.lbfgs import LbfgsSettings
from leaklab.attacks.search.restarts import SearchSettings, search
from leaklab.attacks.search.savepoints import OutOfTime, Savepoints, keeping, savepoint
from leaklab.attacks.search.signed_adam import SignedAdamSettings, signed_adam
from leaklab.records.kept import KeptTensors
from leaklab.records.streams import stream

SIZE, TRIALS = 6, 4
SCALE = torch.ones(TRIALS, dtype=torch.float64)
LBFGS = SearchSettings(iterations=3, restarts=3, matched=1e-2, accepted=2e-2, patience=2, improvement=0.05)
ADAM = SignedAdamSettings(iterations=9, restarts=2, rate=0.3, box=None)
CMA = CmaSettings(generations=7, restarts=2, population=8)


def start_of(row, start):
    return stream(0, "start", row, start).normal(SIZE).double()


def rugged(points, rows):
    """Trial 0 is a bowl, the others have many minima; trial 2 is no number far out, trial 3 near its centre."""
    phase, waving = rows.to(points.dtype)[:, None], rows[:, None] > 0
    waves = torch.where(waving, 1 + torch.cos(5 * points + phase), 0.0).sum(1)
    slopes = torch.where(waving, -5 * torch.sin(5 * points + phase), 0.0)
    far = points.norm(dim=1)
    hole = (rows == 3) & (far < 1.7) | (rows == 2) & (far > 3)
    return torch.where(hole, torch.nan, waves + far**2), slopes + 2 * points


def flat_in_places(points, rows):
    """Trial 1 is flat, and trial 3 is no number anywhere."""
    losses, _ = rugged(points, rows)
    return torch.where(rows == 1, 0.0, torch.where(rows == 3, torch.nan, losses)), points


def by_lbfgs():
    return search(rugged, start_of, SCALE, LBFGS, LbfgsSettings(rate=0.3, history=3, max_iter=4))


def by_signed_adam():
    return signed_adam(rugged, start_of, TRIALS, ADAM)


def by_adam():
    return adam_search(rugged, start_of, TRIALS, AdamSettings(iterations=9, restarts=2))


def by_cma():
    return cma_search(flat_in_places, start_of, partial(stream, 0, "candidates"), TRIALS, CMA)


def left_at_every_step(work, path, until=-inf):
    """Return the result, and how often the work was left."""
    for times in range(1000):
        try:
            with keeping(Savepoints(KeptTensors(path, "identity", inf), until)):
                return work(), times
        except OutOfTime:
            pass
    raise AssertionError("the work never ends")


def same(one, other):
    assert torch.equal(one.points, other.points)
    assert torch.equal(one.losses, other.losses)
    assert one.records == other.records


@pytest.mark.parametrize(
    ("work", "steps", "endings"),
    [
        (by_lbfgs, 30, {"diverged", "matched", "stagnated", "budget"}),
        (by_signed_adam, 18, {"diverged", "budget"}),
        (by_adam, 10, {"diverged", "budget"}),
        (by_cma, 7, {"diverged", "stagnated", "budget"}),
    ],
)
def test_a_search_left_at_every_step_ends_with_the_same_bytes(tmp_path, work, steps, endings):
    whole = work()
    assert {record.stopped for record in whole.records} == endings
    found, times = left_at_every_step(work, tmp_path / "kept.safetensors")
    assert times >= steps
    same(found, whole)


def test_several_searches_go_on_where_they_were(tmp_path):
    calls = []

    def counted(points, rows):
        calls.append(len(rows))
        return rugged(points, rows)

    def work():
        first = signed_adam(counted, start_of, TRIALS, ADAM)
        return signed_adam(counted, lambda row, start: first.points[row, start] / 2, TRIALS, ADAM)

    whole, undisturbed = work(), len(calls)
    calls.clear()
    found, _ = left_at_every_step(work, tmp_path / "kept.safetensors")
    same(found, whole)
    assert len(calls) == undisturbed, "a step was done twice"


def test_a_search_within_another_is_done_again_and_counts_for_nothing(tmp_path):
    def polished(points, rows):
        inner = signed_adam(lambda p, r: rugged(p, rows[r]), lambda row, _: points[row], len(points), ADAM)
        return inner.losses[:, 0], inner.points[:, 0]

    def work():
        return cma_search(polished, start_of, partial(stream, 0, "candidates"), 2, CMA)

    found, times = left_at_every_step(work, tmp_path / "kept.safetensors")
    assert times == CMA.generations
    same(found, work())


def test_what_other_work_has_left_is_not_gone_on_from(tmp_path):
    kept = tmp_path / "kept.safetensors"
    with pytest.raises(OutOfTime), keeping(Savepoints(KeptTensors(kept, "other", inf), -inf)):
        by_signed_adam()
    assert KeptTensors(kept, "other").found()
    same(left_at_every_step(by_lbfgs, kept)[0], by_lbfgs())


def test_without_a_place_nothing_is_kept():
    with savepoint() as saved:
        saved.offer(lambda: pytest.fail("nobody asked for the state"))
        assert saved.found() == {}


def test_a_killed_search_goes_on_from_what_was_kept_last(tmp_path):
    kept = tmp_path / "kept.safetensors"
    calls = []

    def until_killed(points, rows):
        calls.append(len(rows))
        if len(calls) == 13:
            raise KeyboardInterrupt
        return rugged(points, rows)

    def keep():
        return keeping(Savepoints(KeptTensors(kept, "identity", 0.0)))

    with pytest.raises(KeyboardInterrupt), keep():
        signed_adam(until_killed, start_of, TRIALS, ADAM)
    with keep():
        found = signed_adam(until_killed, start_of, TRIALS, ADAM)
    same(found, by_signed_adam())
    assert len(calls) == 1 + 2 * (ADAM.iterations + 1)
