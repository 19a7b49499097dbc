"""Into how many pieces a long job is cut, and that the number never changes once the job has begun."""

import pytest

from leaklab.items.items import load_items
from leaklab.planning.devices import Device, work_of
from leaklab.planning.pieces import LONGEST_CHAIN, Cut, kept_in, piece_minutes, pieces, pieces_of, shorter_trainings
from leaklab.planning.plan import Job, Plan, build_plan
from leaklab.planning.resources import SMALLEST_MINUTES, cost
from leaklab.records.errors import UserError
from leaklab.records.files import write_json, write_text
from leaklab.records.traits import attack_traits
from leaklab.specs.attack import AttackSpec
from leaklab.specs.base import run_id
from leaklab.specs.stages import STAGES
from leaklab.specs.training import TrainSpec

PLAIN = Device()
TRAIN = {
    "dataset": "mnist",
    "partition": {"name": "two-clients"},
    "model": "resnet-small",
    "rates": [[0.1]],
    "rounds": 200,
    "local_steps": 100,
    "batch_size": 32,
    "seeds": [1],
}
CAPTURE = {"dataset": "mnist", "images": {"count": 35}, "model": "dlg-lenet"}
ATTACK = {"capture": CAPTURE, "attack": "dlg", "iterations": 20000}


@pytest.fixture
def job(tmp_path, monkeypatch):
    """A function that plans a job; runs lie in an empty folder."""
    monkeypatch.chdir(tmp_path)
    return lambda stage, **changes: Job(STAGES[stage].model_validate(changes))


def test_a_long_training_is_cut_into_pieces_of_the_asked_length(job, monkeypatch):
    long = job("train", **TRAIN)
    seconds = cost(long.spec).seconds
    assert pieces(long, PLAIN) == -(-seconds // 1800) > 1
    assert Cut.of(long, PLAIN).seconds <= 1800
    monkeypatch.setenv("LEAKLAB_PIECE_MINUTES", "10")
    assert pieces(long, PLAIN) == -(-seconds // 600)
    assert pieces(job("train", **TRAIN | {"rounds": 4, "local_steps": 100_000}), PLAIN) == 4
    assert pieces(job("train", **TRAIN | {"rounds": 10**6}), PLAIN) == LONGEST_CHAIN


def test_short_jobs_and_what_cannot_be_cut_stay_whole(job):
    assert pieces(job("train", **TRAIN | {"rounds": 2, "local_steps": 1}), PLAIN) == 1
    assert pieces(job("train", **TRAIN | {"until": 0}), PLAIN) == 1
    short = {"capture": {**CAPTURE, "images": {"count": 10}}, "iterations": 40}
    assert pieces(job("attack", **ATTACK | short), PLAIN) == 1
    # its search keeps no state
    assert pieces(job("attack", **ATTACK | {"attack": "annealed-map", "iterations": 10**6}), PLAIN) == 4
    assert pieces(job("score", attack=ATTACK, metrics=["mse"]), PLAIN) == 1


def test_a_training_that_stops_at_a_goal_is_cut_as_if_it_never_came_there(job):
    goal = {"metric": "test_accuracy", "value": 90}
    assert pieces(job("train", **TRAIN | {"goal": goal}), PLAIN) == pieces(job("train", **TRAIN), PLAIN) > 1


def test_a_long_attack_is_cut_into_chunks_of_its_trials(job, monkeypatch):
    long = job("attack", **ATTACK)
    minutes = cost(long.spec).seconds / 60
    monkeypatch.setenv("LEAKLAB_PIECE_MINUTES", str(minutes / 3.5))
    assert pieces(long, PLAIN) == 4
    cut = Cut.of(long, PLAIN)
    assert (cut.chain, cut.told) == (1, {"pieces": 4})
    assert cut.seconds == cost(long.spec).seconds / 4
    assert (cut.minutes, cut.minutes_of_rest) == (3 * cut.seconds // 60, SMALLEST_MINUTES)
    assert cut.more_jobs == 5
    train = Cut.of(job("train", **TRAIN), PLAIN)
    assert train.more_jobs == train.pieces - 1
    assert train.minutes == train.minutes_of_rest


def test_a_chunk_that_takes_too_long_is_attacked_by_a_chain_of_pieces(job, monkeypatch):
    long = job("attack", **ATTACK)
    seconds = cost(long.spec).seconds
    monkeypatch.setenv("LEAKLAB_PIECE_MINUTES", str(seconds / 60 / 9))
    cut = Cut.of(long, PLAIN)
    assert (cut.pieces, cut.chain, cut.seconds) == (12, 3, seconds / 12)
    assert cut.told == {"pieces": 12, "chain": 3, "seconds": -(-seconds // 12)}
    assert cut.more_jobs == 13
    monkeypatch.setenv("LEAKLAB_PIECE_MINUTES", "0.001")
    assert Cut.of(long, PLAIN).chain == LONGEST_CHAIN


def test_at_scale_paper_no_job_takes_an_hour_on_a_device_fifty_times_as_fast():
    """A GPU, that is; on the processor thread whose times are known here, each attack that can be chained is."""
    plan = build_plan(load_items(), ["paper"])
    jobs = {job.folder: job for item in plan.ready("paper") for job in plan.jobs_of("paper", item)}.values()
    kinds = {work_of(job.spec) for job in jobs if isinstance(job.spec, AttackSpec | TrainSpec)}
    fast = Device("cuda", "fifty times", dict.fromkeys(kinds, 1 / 50))
    cuts = {job.name: Cut.of(job, fast) for job in jobs}
    assert {name: cut.seconds for name, cut in cuts.items() if cut.seconds > 3600} == {}
    assert sum(cut.pieces for cut in cuts.values()) < 1.4 * len(jobs)
    chained = [
        job for job in jobs if isinstance(job.spec, AttackSpec) and attack_traits(job.spec.attack.name).keeps_state
    ]
    assert all(cut.chain == LONGEST_CHAIN for job in chained if (cut := Cut.of(job, PLAIN)).seconds > 1800)


def test_a_faster_device_needs_fewer_pieces(job):
    fast = Device("cuda", "a GPU", {"train/resnet-small": 0.01, "attack/dlg-lenet/dlg": 0.001})
    assert pieces(job("train", **TRAIN), fast) == 1
    assert pieces(job("attack", **ATTACK), fast) < pieces(job("attack", **ATTACK), PLAIN)
    assert Cut.of(job("train", **TRAIN), fast).seconds == pytest.approx(0.01 * cost(job("train", **TRAIN).spec).seconds)


def test_a_job_that_was_begun_keeps_its_number(job):
    long = job("train", **TRAIN)
    write_json(long.folder / "pieces.json", {"pieces": 7})
    assert pieces(long, PLAIN) == 7
    assert pieces_of(long.spec, PLAIN) == 2


def test_a_job_that_ended_whole_stays_whole(job):
    long = job("attack", **ATTACK)
    write_json(long.folder / "run.json", {})
    assert pieces(long, PLAIN) == 1


@pytest.mark.parametrize(
    "content",
    [
        '{"pieces": 0}',
        '{"pieces": "4"}',
        '{"pieces": true}',
        "[]",
        "{}",
        "{",
        '{"pieces": 4, "chain": 2}',
        '{"pieces": 4, "chain": 3, "seconds": 9}',
    ],
)
def test_a_damaged_number_is_one_line(tmp_path, content):
    write_text(tmp_path / "pieces.json", content)
    with pytest.raises(UserError, match=r"pieces\.json.*delete"):
        kept_in(tmp_path / "pieces.json")


@pytest.mark.parametrize("text", ["0", "-3", "soon", "nan", "inf", ""])
def test_a_length_that_is_none_is_refused(monkeypatch, text):
    monkeypatch.setenv("LEAKLAB_PIECE_MINUTES", text)
    with pytest.raises(UserError, match=r"LEAKLAB_PIECE_MINUTES is .* minutes above 0"):
        piece_minutes()


def test_a_training_goes_on_from_the_longest_of_the_same_with_fewer_rounds():
    plan = Plan({})
    every = [
        {"until": 5}, {"until": 1}, {"until": 0}, {}, {"until": 20},
        {"until": 5, "seeds": [2]},
        {"until": 5, "goal": {"metric": "test_accuracy", "value": 90}},
        {"goal": {"metric": "test_accuracy", "value": 90}},
        {"until": 5, "watch": ["local-loss"]},
        {"watch": ["local-loss"]},
        {"until": 6, "sends": [0, 1]}, {"until": 5, "sends": [0]},
    ]  # fmt: skip
    names = {}
    for changes in every:
        spec = TrainSpec.model_validate({**TRAIN, **changes})
        plan.add(spec)
        names[run_id(spec)] = (spec.rounds_done, spec.seeds, bool(spec.goal or spec.watch), spec.sends)
    found = {names[name]: names[run_id(before)] for name, before in shorter_trainings(plan).items()}
    plain = ((1,), False, ())
    assert found == {
        (5, *plain): (1, *plain),
        # of those that stop after five rounds, who keeps messages does the fifth as well
        (5, *plain[:2], (0,)): (1, *plain),
        (6, *plain[:2], (0, 1)): (5, *plain),
        (20, *plain): (6, *plain[:2], (0, 1)),
        (200, *plain): (20, *plain),
    }
