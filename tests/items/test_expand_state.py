"""A capture block that names a training of its item takes what it does not say from there."""

import pytest

from leaklab.items.expand import expand
from leaklab.items.items import Item
from leaklab.observations.client_requirements import check_clients
from leaklab.planning.pieces import shorter_trainings
from leaklab.planning.plan import Plan, build_plan
from leaklab.records.errors import UserError
from leaklab.specs.base import run_id
from leaklab.specs.capture import CaptureSpec
from leaklab.specs.training import TrainSpec

TRAINING = {
    "stage": "train",
    "dataset": "digits",
    "row": {"method": ["plain", "lrp", "ada-lrp"]},
    "partition": {"name": "iid", "clients": 5, "seed": 3},
    "model": "dlg-lenet",
    "rates": [[0.1], [0.2, 0.3, 0.4, 0.5, 0.6]],
    "rounds": 9,
    "until": [2, 9],
    "local_steps": 1,
    "batch_size": 2,
    "optimizer": {"name": "sgd", "momentum": 0.5},
    "schedule": "cosine",
    "weight_decay": 0.01,
    "seeds": [7, 8],
    "overrides": [
        {"when": {"row.method": "lrp"}, "set": {"defense": "lrp"}},
        {"when": {"row.method": "ada-lrp"}, "set": {"defense": {"name": "lrp", "class_slope": 0.2}}},
    ],
}
ATTACK = {
    "stage": "attack",
    "row": {"method": ["plain", "lrp", "ada-lrp"]},
    "state": {"block": "training", "round": [2, 9]},
    "images": {"clients": [0, 4]},
    "attack": "idlg",
    "iterations": 5,
    "metrics": ["mse"],
}


def item(attack, training=TRAINING):
    return Item.model_validate({
        "paper": "lrp", "item": "along", "title": "t", "number": 1, "kind": "figure", "renderer": "curves",
        "runs": {"training": training, "attack": attack}, "scales": {"demo": {}},
    })  # fmt: skip


def captures(attack, training=TRAINING):
    return [(r, r.spec.attack.capture) for r in expand(item(attack, training), "demo") if r.block == "attack"]


def test_each_capture_starts_from_the_training_that_agrees_with_it():
    found = captures(ATTACK)
    assert len(found) == 6
    trained = {run_id(run.spec) for run in expand(item(ATTACK), "demo") if run.block == "training"}
    for run, capture in found:
        assert run_id(capture.state.train) in trained  # the state is one of the item's own runs
        assert capture.state.round == run.choice["until"]
        assert capture.defense == capture.state.train.defense
        assert (capture.defense.name == "none") == (run.choice["row"]["method"] == "plain")
    assert len({run_id(capture.state.train) for _, capture in found}) == 6
    whole = [capture.state.train for _, capture in found if capture.state.round == 9]
    assert all(train.until is None for train in whole)  # a state after all rounds is the training itself


def test_what_the_block_does_not_say_is_that_of_the_training():
    run, capture = captures(ATTACK)[0]
    train = capture.state.train
    for name in ("dataset", "model", "batch_size", "optimizer", "schedule", "weight_decay", "local_steps", "dtype"):
        assert getattr(capture, name) == getattr(train, name), name
    assert (capture.rate, capture.mode, capture.images.partition) == (0.1, "train", train.partition)
    assert run.choice["defense"]["name"] == "none"
    state = {"block": "training", "round": 2, "where": {"row": {"method": "plain"}}}
    changes = {"state": state, "rate": 0.7, "mode": "eval", "defense": "soteria", "batch_size": 1}
    own = captures({**ATTACK, **changes})[0][1]
    assert (own.rate, own.mode, own.defense.name, own.batch_size) == (0.7, "eval", "soteria", 1)
    assert own.state == capture.state


def test_a_state_of_one_defense_is_captured_under_another():
    state = {"block": "training", "round": 2, "where": {"row": {"method": "plain"}}}
    found = captures({**ATTACK, "state": state, "defense": "lrp"})
    assert {capture.defense.name for _, capture in found} == {"lrp"}
    assert {capture.state.train.defense.name for _, capture in found} == {"none"}


def test_rates_of_clients_go_with_the_replicate():
    state = {"block": "training", "round": 2, "replicate": 3}
    capture = captures({**ATTACK, "state": state, "images": {"clients": [4]}})[0][1]
    assert (capture.rate, capture.state.seed) == (0.6, 8)
    assert captures({**ATTACK, "state": state, "rate": 0.9})[0][1].rate == 0.9


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"state": {"block": "training", "round": 10}}, r"state\.round: the training has the rounds 0 to 9, not 10"),
        ({"state": {"block": "training", "round": -1}}, r"rounds 0 to 9, not -1"),
        ({"state": {"block": "training", "round": 2, "replicate": 4}}, r"replicates 0 to 3, not 4"),
        ({"state": {"block": "trainig", "round": 2}}, r"no block 'trainig': there are training, attack"),
        ({"state": {"block": "training", "rounds": 2}}, r"keys block, round, replicate and where, not block, rounds"),
        ({"state": {"block": "training", "round": 2}, "row": {"method": "other"}}, r"0 trainings .* differ by .*row"),
        ({"state": {"block": "training", "round": 2, "where": {"method": "lrp"}}}, r"no field 'method'"),
        ({"state": {"block": "training", "round": 2, "replicate": 1}}, r"rates of their own: say 'rate'"),
    ],
)
def test_what_the_training_does_not_have_is_refused_with_file_and_key(changes, message):
    with pytest.raises(UserError, match=message) as error:
        captures({**ATTACK, **changes})
    assert str(error.value).startswith("config/items/lrp/along.yaml: ")
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"images": {"clients": [5]}, "rate": 0.1}, r"deals to 5 clients, numbers 0 to 4: there is no client 5"),
        ({"local_steps": 2}, r"set local_steps: 1, or draw images"),
    ],
)
def test_what_no_attack_can_take_apart_is_refused_while_planning(changes, message):
    whole = item({**ATTACK, **changes})
    with pytest.raises(UserError, match=f"config/items/lrp/along.yaml: runs.attack: .*{message}"):
        build_plan({whole.key: whole})


def test_clients_of_a_deal_need_a_state():
    fields = {"dataset": "digits", "model": "mlp", "images": {"clients": [0], "partition": "iid"}}
    with pytest.raises(UserError, match="add state"):
        check_clients(CaptureSpec.model_validate(fields))


def test_a_capture_needs_the_deal_and_the_training():
    whole = item(ATTACK)
    plan = build_plan({whole.key: whole})
    assert isinstance(plan, Plan)
    for job in plan.jobs["capture"].values():
        deal, train = job.needs
        assert (deal.stage, train.stage) == ("partition", "train")
        assert deal in plan.jobs["train"][run_id(train)].needs
        assert isinstance(train, TrainSpec)
    assert len(plan.jobs["train"]) == 6


def test_a_block_keeps_the_states_that_it_declares_and_goes_on_from_them():
    training = {**TRAINING, "rates": [[0.1]], "until": 9, "keep": [6, 3]}
    runs = [run for run in expand(item(ATTACK, training), "demo") if run.block == "training"]
    assert [run.spec.until for run in runs] == [None] * 3
    assert [[spec.until for spec in run.kept] for run in runs] == [[6, 3]] * 3
    of_item = item({**ATTACK, "state.round": 2}, training)
    plan = build_plan({of_item.key: of_item}, ["demo"])
    planned = {job.spec.rounds_done for job in plan.jobs_of("demo", of_item) if job.spec.stage == "train"}
    assert planned == {2, 3, 6, 9}
    before = {
        plan.job("train", name).spec.rounds_done: spec.rounds_done for name, spec in shorter_trainings(plan).items()
    }
    assert before == {9: 6, 6: 3, 3: 2}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"keep": [12]}, r"runs.training.keep: the training ends after 9 rounds.* name rounds from 1 to 8, not 12"),
        ({"keep": [9]}, "keeps its last state anyway"),
        ({"keep": [0]}, "keep"),
        ({"keep": [2], "watch": ["local-loss"]}, "with a goal or a watch is not stopped on its way"),
    ],
)
def test_a_state_that_a_training_does_not_reach_is_refused(changes, message):
    with pytest.raises(UserError, match=message):
        captures(ATTACK, {**TRAINING, "until": 9, **changes})
    with pytest.raises(UserError, match="states are kept of a training"):
        captures({**ATTACK, "keep": [2]})


def test_a_capture_of_what_was_sent_asks_the_training_to_keep_it():
    found = captures({**ATTACK, "state": {"block": "training", "round": [2, 5]}, "sent": True})
    for _, capture in found:
        sending = capture.sending
        assert (sending.rounds_done, sending.sends) == (capture.state.round + 1, (0, 4))
        assert sending.whole == capture.state.train.whole
        assert sending in capture.needs()
    with pytest.raises(UserError, match="nobody sends after the last round, 9"):
        captures({**ATTACK, "sent": True})
