"""The statistics of OUTPOST: right for the defense as it is, and wrong defenses are found out."""

import math

import pytest
import torch

from leaklab.defenses.outpost import Outpost
from leaklab.records import plugins
from leaklab.records.errors import UserError
from leaklab.theory.draws import OutpostDraws, expected_share

torch.set_num_threads(1)
WEIGHTS = ("conv1.weight", "conv2.weight", "conv3.weight", "conv4.weight", "fc.weight")


def plain(items, total, label):
    return items


def numbers(seed=0, **settings):
    found = list(OutpostDraws(**{"rounds": 60, "draws": 20, **settings}).run(seed, None, plain))
    single = [one for one in found if one.index is None]
    table = {(one.metric, *one.row.values()): one.value for one in single}
    assert len(table) == len(single)
    curves = ((one.metric, "at", one.index + 1) for one in found if one.index is not None)
    return table | dict(zip(curves, [one.value for one in found if one.index is not None], strict=True))


@pytest.fixture(scope="module")
def found():
    return numbers()


@pytest.mark.parametrize(("steps", "share"), [(80, 0.27), (180, 0.16)])
def test_the_paper_rounds_have_the_expected_share(found, steps, share):
    assert expected_share(steps, 0.1) == pytest.approx(share, abs=0.005)
    assert found["expected_share", steps] == expected_share(steps, 0.1)
    assert found["perturbed_share", steps] == pytest.approx(share, abs=0.03)
    assert found["first_step_perturbed",] == 1


def test_later_steps_are_perturbed_less_often(found):
    steps = range(1, 181)
    assert [found["step", "at", i] for i in steps] == list(steps)
    assert found["law", "at", 1] == found["perturbed_at_step", "at", 1] == 1
    assert found["law", "at", 10] == 0.5
    apart = [found["perturbed_at_step", "at", i] - found["law", "at", i] for i in steps]
    assert abs(sum(apart)) / 180 < 0.02
    assert max(map(abs, apart)) < 0.3
    assert sum(found["perturbed_at_step", "at", i] for i in steps) / 180 == pytest.approx(found["perturbed_share", 180])


def test_the_risk_is_the_variance_of_each_tensors_law(found):
    """U(-1/2, 1/2) has 1/12; U(-1/sqrt(n), 1/sqrt(n)) has 1/(3 n), n = 75, 300 or 768 inputs."""
    for name in WEIGHTS:
        assert found["risk", "wide", name] == pytest.approx(1 / 12, rel=0.1)
        inputs = {"conv1.weight": 75, "fc.weight": 768}.get(name, 300)
        assert found["risk", "pytorch", name] == pytest.approx(1 / (3 * inputs), rel=0.1)
        for init in ("wide", "pytorch"):
            assert found["risk", init, name] == pytest.approx(found["variance", init, name], rel=0.06)


def test_shares_are_those_of_the_settings(found):
    for init in ("wide", "pytorch"):
        for name in WEIGHTS:
            assert found["pruned_share", init, name] == pytest.approx(0.8, abs=0.002)
            assert found["noised_share", init, name] == pytest.approx(0.4, abs=0.002)
        assert found["pruned_share", init, "conv1.bias"] == 9 / 12
        assert found["noised_share", init, "conv1.bias"] == 5 / 12
        assert all(found["covered_share", init, name] == 1 for name in (*WEIGHTS, "conv1.bias", "fc.bias"))


def test_as_coded_noise_falls_where_gradients_are_large_and_the_first_step_may_pass():
    coded = numbers(as_coded=True)
    assert coded["first_step_perturbed",] < 1
    assert coded["noised_share", "wide", "conv1.weight"] == coded["noised_share", "wide", "conv2.weight"] == 0
    assert coded["noised_share", "wide", "fc.weight"] > 0.5
    assert math.isnan(coded["risk", "wide", "conv1.weight"])
    assert coded["perturbed_share", 180] != pytest.approx(coded["expected_share", 180], abs=0.02)


def test_a_tensor_without_noise_has_no_risk_to_show(monkeypatch):
    """The public code's later form returns what it was given."""
    monkeypatch.setattr(Outpost, "gradient", lambda self, gradients, context: gradients)
    lost = numbers(rounds=2, draws=2)
    assert lost["perturbed_share", 80] == lost["first_step_perturbed",] == 0
    assert math.isnan(lost["risk", "wide", "fc.weight"])
    assert lost["noised_share", "wide", "fc.weight"] == 0


def test_the_seed_decides_everything(found):
    assert numbers() == found
    assert numbers(seed=1) != found


def test_bad_settings_are_refused():
    with pytest.raises(UserError, match="needs at least two draws"):
        numbers(draws=1)
    with pytest.raises(UserError, match="rounds"):
        plugins.check("theory", "outpost-draws", {"rounds": 0})
