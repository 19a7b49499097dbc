"""The benchmark of time to a picture believes an attacker's own loss, counts priors, and forgets no run."""

import sys
import time
from functools import partial
from math import inf, isnan, log10
from pathlib import Path

import pandas as pd
import pytest
import torch
from speed.processes import FailedError
from time_to_picture import cases, contest, parts, runs
from time_to_picture.cases import CASES, captured, save
from time_to_picture.contest import Contest, best_smoothing
from time_to_picture.contestants import CONTESTANTS, PLAIN, hindrance
from time_to_picture.report import page
from time_to_picture.rows import busy, compared, figures, rows
from time_to_picture.runs import Kept, measured
from time_to_picture.workers import ours, plain
from time_to_picture.workers.measuring import Job, report
from time_to_picture.workers.meter import CAP, GIVEN_UP, LEVELS, OWN_END, READ, Meter, Spent, psnr
from time_to_picture.workers.watching import watching

from leaklab.attacks import dlg
from leaklab.attacks.base import Budget, Reconstruction
from leaklab.attacks.search.restarts import search
from leaklab.data.dataset import Dataset
from leaklab.models.generators.on_demand import GaussiansOnDemand
from leaklab.records.files import write_tensors

BY_NAME = {one.name: one for one in CONTESTANTS}
MLP = CASES[0]
MAP, IDLG, PEER, LOOP = (BY_NAME[name] for name in ("ours-map", "ours-idlg", "breaching-ig", "plain-idlg"))


class Clock:
    """Processor seconds that a test sets."""

    def __init__(self):
        self.now = 0.0

    def __call__(self):
        return self.now


@pytest.fixture
def clock():
    return Clock()


def meter_of(clock: Clock, trials: int = 1, cap: float = 60.0, patience: float = 20.0) -> Meter:
    return Meter(torch.zeros(trials, 1, 1, 4, 4), cap, patience, clock)


def picture(decibels: float) -> torch.Tensor:
    """Return a picture so far from a black one."""
    return torch.full((1, 1, 4, 4), 10 ** (-decibels / 20), dtype=torch.float64)


def offer(meter: Meter, loss: float, decibels: float, row: int = 0, narrow: float = 0.0) -> None:
    meter.offer([row], [loss], lambda places: picture(decibels)[None], narrow)


def line(contestant: str, update: int, seconds: tuple[float | None, ...], case: str = MLP.name, **more: object) -> dict:
    """Return one run."""
    common = {"case": case, "contestant": contestant, "update": update, "together": 1, "psnr": 30.0, "prior": 0.0}
    return {**common, **dict(zip(runs.SECONDS, seconds, strict=True)), "ended": OWN_END, **more}


def table_of(*lines: dict) -> pd.DataFrame:
    kept = Kept(None)
    kept.add(lines)
    return kept.table()


def test_what_would_be_returned_is_chosen_by_the_own_loss_and_not_by_the_truth(clock):
    meter = meter_of(clock)
    clock.now = 1.0
    offer(meter, loss=3.0, decibels=12.0)
    clock.now = 2.0
    offer(meter, loss=5.0, decibels=40.0)  # the picture, but the attacker does not know
    clock.now = 3.0
    offer(meter, loss=float("nan"), decibels=40.0)
    assert meter.report()[0]["seconds"] == [None, None, None]
    clock.now = 4.0
    offer(meter, loss=2.0, decibels=26.0)
    clock.now = 5.0
    offer(meter, loss=1.0, decibels=15.0)  # it likes that better, and would return it
    (run,) = meter.report()
    assert run["seconds"] == [4.0, 4.0, None]
    assert (run["psnr"], run["loss"]) == (pytest.approx(15.0), 1.0)


def test_losses_under_different_likelihoods_do_not_compare(clock):
    meter = meter_of(clock)
    offer(meter, loss=1.0, decibels=10.0, narrow=1.0)
    offer(meter, loss=900.0, decibels=21.0, narrow=100.0)
    assert meter.report()[0]["psnr"] == pytest.approx(21.0)
    offer(meter, loss=0.5, decibels=35.0, narrow=1.0)  # a later search, which begins wide again
    assert meter.report()[0]["psnr"] == pytest.approx(21.0)
    with pytest.raises(Spent):  # all is read
        offer(meter, loss=800.0, decibels=31.0, narrow=100.0)
    assert meter.report()[0]["ended"] == READ
    assert meter.report()[0]["psnr"] == pytest.approx(31.0)


def test_the_time_of_scoring_is_taken_out(clock):
    meter = meter_of(clock, trials=2)

    def drawn(places):
        clock.now += 7.0
        return picture(26.0)[None]

    clock.now = 4.0
    meter.offer([1], [1.0], drawn)
    assert meter.seconds == pytest.approx(2.0)  # per update
    assert meter.report()[1]["seconds"] == [2.0, 2.0, None]
    assert meter.missing() == [0, 1]


def test_a_run_ends_at_its_cap_and_where_nothing_is_gained(clock):
    meter = meter_of(clock, patience=1e9)
    clock.now = 61.0
    with pytest.raises(Spent):
        offer(meter, loss=1.0, decibels=50.0)
    (run,) = meter.report()
    assert (run["ended"], run["seconds"]) == (CAP, [None, None, None])  # too late
    clock.now = 0.0
    meter = meter_of(clock)
    clock.now = 19.0
    offer(meter, loss=9.0, decibels=10.0)
    clock.now = 38.0
    offer(meter, loss=8.0, decibels=10.1)
    clock.now = 39.5
    with pytest.raises(Spent):
        offer(meter, loss=7.0, decibels=10.15)
    assert meter.report()[0]["ended"] == GIVEN_UP


def test_the_best_of_two_points_of_one_update_counts(clock):
    meter = meter_of(clock)
    pictures = torch.stack([picture(12.0), picture(22.0), picture(32.0)])
    meter.offer([0, 0, 0], [3.0, 1.0, 2.0], lambda places: pictures[places])
    assert meter.report()[0]["psnr"] == pytest.approx(22.0)


def test_a_batch_is_judged_as_a_whole_and_in_its_best_order():
    truths = torch.tensor([0.1, 0.4, 0.8], dtype=torch.float64).view(1, 3, 1, 1, 1).repeat(2, 1, 1, 4, 4)
    worse = truths.clone()
    worse[1, 0] += 0.1  # of three images one is off by 0.1: the error of the batch is a third of that
    found = psnr(worse[:, [2, 0, 1]], truths)
    assert found[0] > 140
    assert found[1] == pytest.approx(20 + 10 * log10(3))
    assert psnr(torch.full((1, 1, 1, 4, 4), torch.nan), truths[:1, :1]).item() == -inf


def test_never_is_infinite_in_medians():
    own = figures(
        table_of(
            line("ours-map", 0, (1.0, 2.0, None)),
            line("ours-map", 1, (3.0, None, None), psnr=21.0),
            line("ours-map", 2, (2.0, 8.0, None), psnr=26.0, ended=GIVEN_UP),
            line("ours-map", 3, (None, None, None), psnr=None, ended=None, reason="out of memory"),
        )
    )
    assert own.seconds == {20.0: 2.5, 25.0: inf, 30.0: inf}
    assert own.reached == {20.0: 3, 25.0: 2, 30.0: 0}
    assert (own.count, own.final, own.given_up, own.failed) == (4, 26.0, 1, 1)


def test_the_prior_is_counted_and_shown_apart():
    found = rows(
        table_of(line(MAP.name, 0, (0.5, 0.5, 0.5), prior=4.0), line(PEER.name, 0, (1.0, 9.0, None))),
        [MLP],
        [MAP, PEER],
    )
    alone = compared(found, MLP, together=False)
    assert [alone.ratio(level, prior=False) for level in LEVELS] == [2.0, 18.0, inf]
    assert [alone.ratio(level, prior=True) for level in LEVELS] == [pytest.approx(1 / 4.5), 2.0, inf]
    assert (alone.behind, alone.meets_goal) == ([20.0], False)
    text = page(found, {}, "a machine", "a command", 60, 20)
    assert "| MLP, one image | 2 / 18 / ∞ | 0.222 / 2 / ∞ |" in text
    assert "| ours-map, prior counted (4.00) | 4.50 | 4.50 | 4.50 |" in text
    assert "missed: MLP, one image (2)." in text
    assert "MLP, one image at 20 dB (0.222)" in text
    # nobody was measured side by side: that is neither kept nor missed
    assert "| 0.222 / 2 / ∞ | - / - / - | - / - / - |" in text
    assert "Side by side, at least" not in text


def test_an_attacker_without_a_prior_may_be_the_best_of_ours_with_it_counted():
    found = rows(
        table_of(
            line(MAP.name, 0, (0.5, 0.5, 0.5), prior=4.0),
            line(IDLG.name, 0, (0.8, 0.8, 0.8)),
            line(PEER.name, 0, (1.6, 1.6, 1.6)),
        ),
        [MLP],
        [MAP, IDLG, PEER],
    )
    alone = compared(found, MLP, together=False)
    assert (alone.ratio(25.0, prior=False), alone.ratio(25.0, prior=True)) == pytest.approx((3.2, 2.0))


def test_nobody_is_ahead_where_nobody_comes_and_a_peer_alone_is_far_ahead():
    found = rows(
        table_of(line(MAP.name, 0, (None, None, None)), line(PEER.name, 0, (1.0, None, None))), [MLP], [MAP, PEER]
    )
    alone = compared(found, MLP, together=False)
    assert alone.ratio(20.0, prior=False) == 0.0
    assert isnan(alone.ratio(25.0, prior=True))
    assert alone.behind == [20.0]


def test_the_prior_s_processor_time_is_measured(tmp_path, monkeypatch):
    asked, images = [], torch.zeros(4, 1, 6, 6, dtype=torch.uint8)
    images[::2] = 255
    write_tensors(tmp_path / "public", {"images": images, "labels": torch.tensor([3, 3, 5, 5])})

    class Slow(GaussiansOnDemand):
        def factor_of(self, label):
            until = time.process_time() + 0.05
            while time.process_time() < until:
                pass
            asked.append(label)
            return super().factor_of(label)

    monkeypatch.setattr(ours, "GaussiansOnDemand", Slow)
    prior, seconds = ours.prior_of(ours.plan_of("map", MLP), tmp_path / "public", [5, 3, 5])
    assert prior is not None
    assert seconds >= 0.1
    assert asked == [3, 5]
    assert ours.prior_of(ours.plan_of("dlg", MLP), tmp_path / "none", [3]) == (None, 0.0)


@pytest.mark.parametrize(("changed", "why"), [
    ({"update": 5}, "it reports updates"), ({"images": 2}, "2 images an update, not 1"),
    ({"guesses": 0}, "heard of 0 times"),
])  # fmt: skip
def test_a_report_of_other_work_than_was_asked_for_is_refused(monkeypatch, changed, why):
    run = {"update": 0, "images": 1, "guesses": 3, "searches": 1, "seconds": [None] * 3, **changed}
    monkeypatch.setattr(runs, "output", lambda *given, limit: {"runs": [run], "prior": 0.0})
    (found,) = measured(Path(), MAP, Job(MLP.name, "map", (0,), "nowhere", 1.0, 1.0))
    assert why in found["reason"]
    assert "seconds" not in found


def test_a_picture_of_another_size_is_no_guess(clock):
    meter = meter_of(clock)
    with pytest.raises(AssertionError, match="another update's size"):
        meter.offer([0], [1.0], lambda places: torch.zeros(1, 2, 1, 4, 4))


def test_a_run_is_kept_and_one_that_failed_is_made_again(tmp_path):
    kept = Kept(tmp_path / "runs.csv")
    kept.add([line(MAP.name, 0, (0.5, 1.5, None)), line(MAP.name, 1, (None, None, None), reason="broke")])
    again = Kept(tmp_path / "runs.csv")
    assert again.has(case=MLP.name, contestant=MAP.name, update=0)
    assert not again.has(update=1)
    assert again.runs[0]["s25"] == 1.5
    assert again.runs[0]["s30"] is None
    again.add([line(MAP.name, 0, (0.1, 0.1, 0.1))])
    assert len(Kept(tmp_path / "runs.csv").runs) == 1


def test_a_page_says_how_busy_the_machine_was():
    table = table_of(
        *(line(MAP.name, row, (1.0, 1.0, 1.0), total=2.0, wall=wall) for row, wall in enumerate((2, 5, 9)))
    )
    assert busy(table) == 2.5
    text = page(rows(table, [MLP], [MAP]), {}, "a machine", "a command", 60, 20, busy(table))
    assert "A processor second took 2.50 s on the clock" in text
    assert isnan(busy(table_of(line(MAP.name, 0, (1.0, 1.0, 1.0)))))


def contest_of(tmp_path: Path, contestants: list, updates: int) -> Contest:
    kept, smoothing = Kept(tmp_path / "runs.csv"), Kept(tmp_path / "smoothing.csv", contest.SMOOTHING_KEY)
    return Contest([MLP], contestants, updates, 60, 20, kept, smoothing, tmp_path)


def test_no_run_is_made_twice_and_side_by_side_comes_last(tmp_path, monkeypatch):
    made = []

    def pretended(python, contestant, job):
        made.append((contestant.name, job.updates))
        shared = {"together": len(job.updates)}
        return [line(contestant.name, update, (1.0, 1.0, 1.0), **shared) for update in job.updates]

    monkeypatch.setattr(contest, "measured", pretended)
    monkeypatch.setattr(contest, "interpreters", lambda asked, of: (dict.fromkeys([c.name for c in asked], Path()), {}))
    monkeypatch.setattr(contest, "captured", lambda *given, **named: ())
    monkeypatch.setattr(contest, "save", lambda *given: None)
    monkeypatch.setattr(contest, "save_public", lambda *given: None)
    both = [BY_NAME["ours-dlg"], BY_NAME["ours-dlg-together"]]
    contest_of(tmp_path, both, 1).hold()
    assert made == [("ours-dlg", (0,)), ("ours-dlg-together", (0,))]
    made.clear()
    contest_of(tmp_path, both, 2).hold()
    assert made == [("ours-dlg", (1,)), ("ours-dlg-together", (0, 1))]
    made.clear()
    monkeypatch.setattr(contest, "interpreters", lambda asked, of: pytest.fail("it installs what nobody runs"))
    contest_of(tmp_path, both, 2).hold()
    assert made == []
    late = contest_of(tmp_path, [BY_NAME["ours-ig"]], 2)
    late.until = time.monotonic()
    assert late.hold() == {}
    assert made == []


def test_the_smoothing_is_chosen_on_held_out_images_only(tmp_path, monkeypatch):
    asked = []

    def pretended(python, contestant, job):
        asked.append((job.folder, job.smoothing))
        seconds = (1.0, None, None) if job.smoothing == 0.002 else (None, None, None)
        return [line(contestant.name, update, seconds, smoothing=job.smoothing) for update in job.updates]

    monkeypatch.setattr(contest, "measured", pretended)
    monkeypatch.setattr(contest, "interpreters", lambda asked, of: (dict.fromkeys([c.name for c in asked], Path()), {}))
    monkeypatch.setattr(contest, "captured", lambda *given, **named: ())
    monkeypatch.setattr(contest, "save", lambda *given: None)
    monkeypatch.setattr(contest, "save_public", lambda *given: None)
    contest_of(tmp_path, [BY_NAME["breaching-ig-tuned"]], 1).hold()
    tuning = len(contest.SCALES) * cases.HELD_OUT
    assert all(folder.endswith("held-out") for folder, _ in asked[:tuning])
    assert asked[tuning:] == [(str(tmp_path / MLP.name), 0.002)]
    used = range(cases.FIRST_IMAGE, cases.FIRST_IMAGE + cases.UPDATES * max(case.batch for case in CASES))
    assert cases.FIRST_HELD_OUT not in used


def test_of_two_smoothings_that_reach_as_much_the_sooner_one_is_chosen():
    slow, soon, blurred = (
        line("breaching-ig", 0, seconds, smoothing=scale)
        for scale, seconds in ((0.02, (1.0, 5.0, None)), (0.002, (1.0, 3.0, None)), (0.0002, (0.1, None, None)))
    )
    assert best_smoothing([slow, soon, blurred]) == 0.002


def test_a_worker_that_breaks_is_a_line_with_its_reason(monkeypatch):
    def broken(*given, limit):
        raise FailedError("out of memory")

    monkeypatch.setattr(runs, "output", broken)
    found = measured(Path(), MAP, Job(MLP.name, "map", (3, 4), "nowhere", 1.0, 1.0))
    assert [(run["update"], run["reason"]) for run in found] == [(3, "out of memory"), (4, "out of memory")]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_every_attack_of_ours_has_a_plan_or_a_reason(case):
    for one in CONTESTANTS:
        if one.ours and not hindrance(case, one):
            assert ours.plan_of(one.attack, case).searches
    assert bool(hindrance(case, LOOP)) == (case.steps > 1)
    peers = [one for one in CONTESTANTS if one.module not in ("ours", PLAIN)]
    assert {one.name for one in peers if hindrance(case, one)} <= {"breaching-analytic"}


@pytest.fixture
def made_up(monkeypatch):
    """Images of no data set, so that the test needs no mirror."""
    draws = torch.Generator().manual_seed(0)
    count = cases.FIRST_IMAGE + cases.UPDATES
    images = torch.randint(0, 256, (count, 1, 6, 6), generator=draws, dtype=torch.uint8)
    labels = torch.randint(0, 10, (count,), generator=draws)
    one = torch.ones(1)
    monkeypatch.setattr(
        cases, "dataset", lambda name: Dataset(name, 10, images, labels, images, labels, one / 2, one / 4)
    )


def test_a_search_of_the_house_is_watched_and_changes_nothing(made_up, monkeypatch):
    monkeypatch.setattr(Meter, "missing", lambda self: self.rows)  # to the end of the search
    observation, knowledge, images = captured(MLP)
    attack, _ = ours.plan_of("idlg", MLP).searches[0]
    given = ours.Given(observation.select([0, 1]), knowledge, Budget(3, 1), partial(ours.stream, 0, "attack"))
    alone = attack.reconstruct(given)
    meter = Meter(images[:2], 60, 20)
    with watching(meter):
        assert dlg.search is not search
        watched = attack.reconstruct(given)
    assert dlg.search is search
    torch.testing.assert_close(watched.images, alone.images, rtol=0, atol=0)
    # what it would return at the end is what it returns
    assert [run["psnr"] for run in meter.report()] == pytest.approx(psnr(watched.images, images[:2]).tolist())
    assert [run["loss"] for run in meter.report()] == pytest.approx(watched.candidate_losses.amin(1).tolist())


def test_ours_and_the_plain_loop_read_the_same_updates(made_up, tmp_path):
    save(tmp_path, *captured(MLP))
    for worker in (ours, plain):
        job = Job.from_json(Job(MLP.name, "idlg", (2,), str(tmp_path), 20.0, 20.0).to_json())
        found = report(job, worker.attacked)
        (run,) = found["runs"]
        assert run["update"] == 2
        assert run["psnr"] > LEVELS[-1]
        assert 0 < run["seconds"][0] <= run["seconds"][2] <= run["total"]
        assert found["prior"] == 0.0
    assert "breaching" not in sys.modules


def test_all_ways_to_an_exact_reading_find_the_image(made_up):
    observation, knowledge, truth = captured(MLP)
    for name, part in parts.parts(observation, knowledge).items():
        found = part()
        if isinstance(found, Reconstruction):
            torch.testing.assert_close(found.images, truth[: len(found.images)], rtol=0, atol=1e-4, msg=name)
    assert (
        parts.page(parts.measured({parts.AS_IT_IS: list, parts.TOGETHER: list}, 1, 12), 12).count("| `analytic`") == 2
    )
