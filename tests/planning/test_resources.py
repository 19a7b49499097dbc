"""What jobs are expected to cost: bounds that follow from the spec's numbers."""

import pytest

from leaklab.planning.memory import memory_mb
from leaklab.planning.resources import SMALLEST_MINUTES, cost, minutes_of
from leaklab.specs.stages import STAGES

PARTITION = {"dataset": "mnist", "partition": {"name": "two-clients"}}
TRAIN = {
    **PARTITION,
    "model": "mlp",
    "rates": [[0.1], [0.2], [0.3]],
    "rounds": 100,
    "local_steps": 25,
    "batch_size": 32,
    "seeds": [1, 2],
}
CAPTURE = {"dataset": "mnist", "images": {"count": 5}, "draws": 4, "model": "dlg-lenet"}
GENERATOR = {"dataset": "mnist", "steps": 100}
ATTACK = {"capture": CAPTURE, "attack": "dlg", "iterations": 100, "restarts": 2}
PROJECTION = {"dataset": "mnist", "images": {"count": 1}, "generator": GENERATOR}
RESNET_20 = {"name": "resnet-small", "settings": {"blocks": 3}}
GGL = {
    "capture": {**CAPTURE, "images": {"count": 1}, "draws": 1},
    "attack": "ggl",
    "generator": GENERATOR,
    "iterations": 9,
}
TEXT_CAPTURE = {"dataset": "cola", "sentences": {"others": 20}, "draws": 2, "model": "bert-classifier"}
TEXT_ATTACK = {"capture": TEXT_CAPTURE, "attack": "tag", "iterations": 100, "restarts": 3}
SPECS = {
    "partition": PARTITION,
    "train": TRAIN,
    "capture": CAPTURE,
    "generator": GENERATOR,
    "attack": ATTACK,
    "score": {"attack": ATTACK, "metrics": ["mse"]},
    "projection": PROJECTION,
    "landscape": {"attack": GGL, "projection": PROJECTION, "metrics": ["mse"]},
    "capture-text": TEXT_CAPTURE,
    "attack-text": TEXT_ATTACK,
    "score-text": {"attack": TEXT_ATTACK, "metrics": ["rouge_l"]},
}


def spec(stage, **changes):
    return STAGES[stage].model_validate({**SPECS[stage], **changes})


def test_client_steps_of_a_sweep_are_counted_exactly():
    assert cost(spec("train")).steps == 2 * 3 * 100 * 25 * 2
    many = {"name": "iid", "clients": 20}
    assert cost(spec("train", partition=many)).steps == 2 * 3 * 100 * 25 * 20
    assert cost(spec("train", partition=many, clients_per_round=10)).steps == 2 * 3 * 100 * 25 * 10
    assert cost(spec("train", until=5)).steps == 2 * 3 * 5 * 25 * 2


def test_a_step_on_a_larger_batch_takes_longer_by_its_images():
    small, usual, large, huge = (cost(spec("train", batch_size=size)) for size in (4, 32, 128, 512))
    assert small.steps == usual.steps == large.steps
    assert huge.unit - large.unit == pytest.approx(4 * (large.unit - usual.unit))
    assert 0 < small.unit < usual.unit < 10 * small.unit  # launches do not grow with the batch


def test_a_wider_network_takes_longer_in_proportion_to_its_weights():
    narrow, wide = (
        cost(spec("train", model={"name": "mlp", "settings": {"hidden": width}})).unit for width in (64, 6400)
    )
    assert wide == pytest.approx(100 * narrow, rel=0.7)


def test_a_defense_that_is_dear_in_every_step_counts():
    plain, probed = (cost(spec("train", defense=name)).unit for name in ("none", "soteria-probes"))
    assert probed == pytest.approx(2.65 * plain)


def test_a_goal_ends_a_training_early_and_at_most_counts_all_rounds():
    whole, until = cost(spec("train")), cost(spec("train", goal={"metric": "test_accuracy", "value": 80}))
    assert until.likely < whole.likely == whole.seconds == until.seconds


def test_a_search_that_ends_early_is_likely_shorter_and_at_most_as_long():
    first_order, line_search = (cost(spec("attack", attack=name)) for name in ("ig", "idlg"))
    assert first_order.likely == first_order.seconds
    assert line_search.likely < line_search.seconds / 4


def test_updates_that_are_attacked_together_share_what_does_not_grow():
    one, ten = (cost(spec("attack", attack="ig", capture={**CAPTURE, "draws": 1, "images": {"count": count}}))
                for count in (1, 10))  # fmt: skip
    assert ten.evaluations == 10 * one.evaluations
    assert ten.unit < one.unit / 2


def test_evaluations_of_an_attack_are_bounded_by_its_budget():
    assert cost(spec("attack")).evaluations == 5 * 4 * 2 * 100 * 20


@pytest.mark.parametrize("attack", ["ig", "rog-lite", "delta-ig", {"name": "csdlg", "optimizer": "signed-adam"}])
def test_an_attack_of_first_order_evaluates_once_an_iteration(attack):
    assert cost(spec("attack", attack=attack)).evaluations == 5 * 4 * 2 * 100


@pytest.mark.parametrize("attack", ["csdlg", {"name": "delta-ig", "optimizer": "lbfgs"}])
def test_an_attack_that_is_told_lbfgs_evaluates_as_one(attack):
    assert cost(spec("attack", attack=attack)).evaluations == 5 * 4 * 2 * 100 * 20


def test_a_generative_attack_evaluates_a_population_in_every_generation():
    counted = {"name": "ggl", "population": 30}
    assert cost(spec("attack", attack=counted, generator=GENERATOR)).evaluations == 5 * 4 * 2 * 100 * 30
    assert cost(spec("attack", attack="ggl", generator=GENERATOR)).evaluations == 5 * 4 * 2 * 100 * 50
    annealed = {"name": "annealed-map", "settings": {"stages": 7, "refinements": 2}}
    assert cost(spec("attack", attack=annealed, generator=GENERATOR)).evaluations == 5 * 4 * 2 * 100 * 7 * 3
    assert cost(spec("attack", attack="annealed-likelihood", generator=GENERATOR)).evaluations == 5 * 4 * 2 * 100 * 4


def test_double_precision_and_width_make_a_generative_search_dearer():
    def seconds(**changes):
        capture = {**CAPTURE, "dtype": "float32", **changes}
        return cost(spec("attack", attack="ggl", generator=GENERATOR, capture=capture)).unit

    assert seconds(dtype="float64") == pytest.approx(3 * seconds())
    wide, narrow = ({"name": "resnet-small", "width": width} for width in (16, 8))
    assert seconds(model=wide) == seconds(model="resnet-small") == pytest.approx(4 * seconds(model=narrow))


def test_an_inversion_evaluates_what_adam_makes_of_every_candidate():
    assert cost(spec("projection", generations=3, population=5, inner_steps=7, final_steps=11)).evaluations == 116


def test_a_line_evaluates_two_losses_per_point_and_a_plane_one():
    assert cost(spec("landscape", alpha=[0, 1, 5], beta=[0, 1, 3])).evaluations == 15
    assert cost(spec("landscape", alpha=[0, 1, 5])).evaluations == 10


def test_a_generators_steps_are_counted():
    short, long = (cost(spec("generator", steps=steps)) for steps in (100, 1100))
    assert (short.steps, long.steps) == (100, 1100)
    assert long.seconds > short.seconds > 0


def test_a_search_for_a_sentence_evaluates_once_per_step():
    assert cost(spec("attack-text")).evaluations == 22 * 2 * 3 * 100
    assert cost(spec("attack-text", attack="token-order")).evaluations == 0


def test_the_budgets_iterations_hold_as_much_work_as_the_attack_may_do():
    from leaklab.attacks.search.lbfgs import LbfgsSettings
    from leaklab.records.traits import LBFGS_STEP

    assert LbfgsSettings().max_iter == LBFGS_STEP


def test_memory_grows_with_the_sentences():
    few, many = (memory_mb(spec("capture-text", draws=draws)) for draws in (1, 10))
    assert few == 2500
    assert many > 22 * 10 * 20
    large = {**TEXT_CAPTURE, "draws": 10}
    assert memory_mb(spec("attack-text", capture=large)) == many


@pytest.mark.parametrize(
    ("stage", "factor"),
    [("train", {"rounds": 200}), ("attack", {"iterations": 200}), ("attack-text", {"iterations": 200})],
)
def test_twice_the_work_takes_twice_the_time(stage, factor):
    once, twice = (cost(spec(stage, **changes)) for changes in ({}, factor))
    start = cost(spec(stage, **dict.fromkeys(factor, 1))).seconds
    assert twice.unit == once.unit > 0
    assert twice.seconds - start == pytest.approx(2 * (once.seconds - start), rel=0.02)


def test_a_model_that_was_never_measured_is_taken_for_the_slowest():
    known = [cost(spec("train", model=name)).seconds for name in ("logistic-regression", "mlp", "cnn-small")]
    assert known == sorted(known)
    assert cost(spec("train", model="resnet-18")).seconds > known[-1]


def test_a_search_on_a_model_that_was_never_measured_is_priced_by_its_steps():
    """600 evaluations of one image on ResNet-20 take 40 s, measured; two milliseconds each were said once."""
    told = {"capture": {**CAPTURE, "dataset": "cifar10", "images": {"count": 1}, "draws": 1}, "iterations": 600}
    small, large = ({**told["capture"], "model": name} for name in ("cnn-mnist", RESNET_20))
    prices = [cost(spec("attack", **{**told, "capture": one, "attack": "ig", "restarts": 1})) for one in (small, large)]
    assert prices[0].seconds < prices[1].seconds
    assert 36 <= prices[1].seconds < 80


@pytest.mark.parametrize("stage", SPECS)
def test_the_time_asked_for_covers_the_estimate(stage):
    for scale in (1, 50):
        asked = spec(stage, **{"rounds": 100 * scale} if stage == "train" else {})
        minutes = minutes_of(cost(asked).seconds)
        assert isinstance(minutes, int)
        assert minutes >= max(SMALLEST_MINUTES, cost(asked).seconds / 60)


@pytest.mark.parametrize("stage", SPECS)
def test_every_stage_asks_for_memory(stage):
    assert 500 <= memory_mb(spec(stage)) <= 4000
