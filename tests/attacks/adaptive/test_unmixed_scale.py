"""F5 for batches: the factor on a mean of several gradients, and what an attack makes of the update without it."""

from dataclasses import replace
from functools import partial

import pytest
import torch
from sklearn.datasets import load_digits

from leaklab.attacks.adaptive.scale import UnmixedScale
from leaklab.attacks.base import Budget, Case
from leaklab.attacks.dlg import ImprovedDeepLeakage
from leaklab.captures.capture import capture
from leaklab.data.dataset import Dataset
from leaklab.models.cnns import DLGLeNet
from leaklab.observations import requirements
from leaklab.observations.base import Knowledge
from leaklab.records.errors import UserError
from leaklab.records.streams import stream
from leaklab.specs.capture import CaptureSpec

FACTORS = (0.1, 0.5, 1.0, 1.7, 3.5, 10.0)
BATCH = 4
DIFFERENT = torch.tensor([[0, 1, 2, 3], [4, 5, 6, 7], [8, 9, 0, 1], [2, 3, 4, 5], [6, 7, 8, 9], [1, 2, 3, 7]])
EQUAL = torch.tensor([[1, 1, 9, 9], [3, 3, 7, 7], [0, 5, 5, 5], [2, 2, 2, 2], [4, 6, 6, 8], [0, 0, 1, 2]])


@pytest.fixture(scope="module")
def private(digits):
    def of(labels):
        images = [[digits[0][digits[1] == k][7 * place] for place, k in enumerate(own)] for own in labels.tolist()]
        return torch.stack([torch.stack(own) for own in images])

    return of


@pytest.fixture(scope="module")
def given(knowledge):
    return Knowledge("any", {**knowledge.facts, "batch_size": BATCH})


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, 1e-9), (torch.float32, 1e-3)])
def test_f5_the_factor_of_different_labels(private, observe, given, dtype, tolerance):
    images = private(DIFFERENT).to(dtype)
    prepared, scale = UnmixedScale().prepare(observe(images, DIFFERENT, FACTORS), given)
    assert ((scale / torch.tensor(FACTORS, dtype=torch.float64) - 1).abs() < tolerance).all()
    for name, value in observe(images, DIFFERENT).update.items():
        assert torch.allclose(prepared.update[name], value, rtol=2 * tolerance, atol=1e-6)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize("initialisation", ["wide", "pytorch"])
def test_the_factor_of_equal_labels_is_near(private, observe, given, dtype, initialisation):
    network = DLGLeNet(initialisation=initialisation).initialised((1, 8, 8), 10, 0, dtype)
    observation = observe(private(EQUAL).to(dtype), EQUAL, FACTORS, network=network)
    _, scale = UnmixedScale().prepare(observation, given)
    assert ((scale / torch.tensor(FACTORS, dtype=torch.float64) - 1).abs() < 0.02).all()


def test_granted_labels_are_used_by_trial_number(private, observe, given):
    observation = observe(private(DIFFERENT), DIFFERENT, FACTORS).select([3, 1])
    granting = Knowledge("any", {**given.facts, "labels": DIFFERENT.tolist()})
    _, scale = UnmixedScale().prepare(observation, granting)
    assert scale.tolist() == pytest.approx([1.7, 0.5], rel=1e-9)
    wrong = Knowledge("any", {**given.facts, "labels": DIFFERENT.roll(1, 0).tolist()})
    assert UnmixedScale().prepare(observation, wrong)[1].tolist() != pytest.approx([1.7, 0.5], rel=1e-2)


def test_a_delta_is_divided_by_minus_its_factor_without_any_rate(private, observe, given):
    blind = Knowledge("blind-rate", {fact: v for fact, v in given.facts.items() if fact != "nominal_rate"})
    observation = observe(private(DIFFERENT), DIFFERENT, [-0.03] * len(DIFFERENT), kind="delta")
    prepared, scale = UnmixedScale().prepare(observation, blind)
    assert torch.allclose(scale, torch.full_like(scale, 0.03), rtol=1e-9)
    assert prepared.kind == "gradient"


def test_an_update_of_zero_is_left_alone(private, observe, given):
    observation = observe(private(DIFFERENT[:2]), DIFFERENT[:2], [0.0, 2.0])
    prepared, scale = UnmixedScale().prepare(observation, given)
    assert scale.tolist() == [1.0, pytest.approx(2.0)]
    assert all(value.isfinite().all() for value in prepared.update.values())


def test_lrp_hides_a_batch_from_the_plain_attacker_only():
    """A real capture, in float32, with nothing granted."""
    loaded, one = load_digits(), torch.ones(1)
    images, labels = (
        torch.tensor(loaded.images * 255 / 16).round().to(torch.uint8)[:, None],
        torch.tensor(loaded.target),
    )
    dataset = Dataset("digits", 10, images[:1000], labels[:1000], images[1000:], labels[1000:], 0 * one, one)
    fields = {"dataset": "digits", "images": {"count": 3, "seed": 1}, "model": "dlg-lenet", "batch_size": 3}
    spec = CaptureSpec.model_validate(
        fields | {"defense": "lrp", "rate": 0.1, "client_weight": 2.0, "dtype": "float32"}
    )
    observation, knowledge, truth = capture(spec, dataset)
    prepared, scale = UnmixedScale().prepare(observation, knowledge)
    assert scale.tolist() == pytest.approx((truth.rates.sum(1) / 0.1).tolist(), rel=1e-2)
    attack = ImprovedDeepLeakage(label_rule="counts", dtype="float64")

    def errors(observation):
        found = attack.reconstruct(Case(observation, knowledge, Budget(40, 1), partial(stream, 0, "attack")))
        pairs = ((found.images[0, :, None] - truth.images.view(3, 1, 8, 8)) ** 2).flatten(2).mean(2)
        return pairs.amin(1).max()

    assert errors(prepared) < 1e-2
    assert errors(observation) > 5e-2


def test_needs_are_declared_for_the_planner(private, observe, given):
    requirements.check("idlg", {"label_rule": "counts"}, "blind-rate", "unmixed-scale", {}, "delta")
    requirements.check_transform("unmixed-scale", "lrp", 8)
    with pytest.raises(UserError, match="does not fit defense 'soteria'"):
        requirements.check_transform("unmixed-scale", "soteria", 4)
    observation = observe(private(DIFFERENT[:1]), DIFFERENT[:1])
    declared = set(UnmixedScale.requirements.facts)
    # the weights come with the observation, and the model with its name
    for fact in declared - {"weights", "architecture"}:
        fewer = Knowledge("honest-but-curious", {key: v for key, v in given.facts.items() if key != fact})
        with pytest.raises(UserError, match=f"'unmixed-scale' needs '{fact}'"):
            UnmixedScale().prepare(observation, fewer)
    headless = {part: dict(list(getattr(observation, part).items())[:-1]) for part in ("weights", "update")}
    with pytest.raises(UserError, match=r"affine layer with a bias|not those of model|never had the client"):
        UnmixedScale().prepare(replace(observation, **headless), given)
