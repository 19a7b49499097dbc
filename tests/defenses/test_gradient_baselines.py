"""Noise, clipping, both, and compression: each changes the gradient as it says, and by nothing else (F12, F14)."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from leaklab.defenses.base import Alone, ClientContext
from leaklab.defenses.noise import AdditiveNoise, ClippingNoise, GradientClipping
from leaklab.defenses.outpost import GradientCompression, dropped_count
from leaklab.federated.batches import Batch
from leaklab.federated.forms.stacked import StackedNetwork
from leaklab.federated.local import local_training
from leaklab.models.cnns import DLGLeNet
from leaklab.records import plugins
from leaklab.records.errors import UserError
from leaklab.records.streams import stream

NAMES = {
    "additive-noise": {"sigma": 0.2},
    "gradient-clipping": {"bound": 0.5},
    "clipping-noise": {"bound": 0.5, "sigma": 0.2},
    "gradient-compression": {"dropped": 0.8},
}
NOISY = ["additive-noise", "clipping-noise"]


@pytest.fixture
def gradient():
    draws = stream(4, "gradient")
    return {
        "conv1.weight": draws.normal(12, 3, 5, 5),
        "conv1.bias": draws.normal(12),
        "fc.weight": draws.normal(10, 40),
    }


@pytest.fixture
def large():
    return {"first": torch.zeros(250, 200, dtype=torch.float64), "second": torch.zeros(40_000, dtype=torch.float64)}


def flat(tensors):
    return torch.cat([value.flatten() for value in tensors.values()])


def fresh(context, **change):
    return replace(context, _streams={}, **change)


def defended(name, gradient, context):
    return plugins.load("defenses", name, NAMES[name]).gradient(gradient, context)


@pytest.mark.parametrize("name", NAMES)
def test_f14_the_gradient_changes_and_the_input_does_not(name, gradient, context):
    before = {key: value.clone() for key, value in gradient.items()}
    result = defended(name, gradient, context)
    assert list(result) == list(gradient)
    for key, value in before.items():
        assert torch.equal(gradient[key], value)
        assert not torch.equal(result[key], value)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_f14_types_and_shapes_are_kept(name, gradient, context, dtype):
    result = defended(name, {key: value.to(dtype) for key, value in gradient.items()}, context)
    for key, value in gradient.items():
        assert (result[key].dtype, result[key].shape) == (dtype, value.shape)


@pytest.mark.parametrize("name", NAMES)
def test_f14_the_result_stays_on_the_gradients_device(name, gradient, context):
    result = defended(name, {key: value.to("meta") for key, value in gradient.items()}, context)
    assert {value.device.type for value in result.values()} == {"meta"}


@pytest.mark.parametrize("name", NAMES)
def test_every_local_step_is_defended(name):
    """The engine's own client: the step is the rate times what the hook returns, in each of two steps."""
    network = DLGLeNet(n_conv=3).initialised((1, 8, 8), 3, 0, torch.float64)
    weights = {key: value.detach()[None] for key, value in network.named_parameters()}
    draws = stream(0, "batch")
    batch = Batch(draws.uniform(1, 2, 1, 8, 8), draws.integers(0, 3, 1, 2), {})
    form, defense = StackedNetwork(network, (1, 8, 8)), plugins.load("defenses", name, NAMES[name])
    client, current = make_client(), weights
    for step in range(2):
        gradients = {key: value[0] for key, value in form.gradients(current, batch)[1].items()}
        changed = defense.gradient(gradients, client.at(Alone(step)))
        current = {key: current[key] - 0.02 * changed[key] for key in current}
    found = local_training(form, weights, [batch, batch], [make_client()], defense).weights
    for key, value in current.items():
        assert torch.allclose(found[key], value, rtol=1e-12, atol=1e-14)


def make_client():
    return ClientContext(scaled_rate=0.02, seed=1, client=3)


@pytest.mark.parametrize("sigma", [0.1, 2.0])
def test_noise_has_its_standard_deviation(large, context, sigma):
    for name, value in AdditiveNoise(sigma).gradient(large, context).items():
        assert float(value.std()) == pytest.approx(sigma, rel=0.02), name
        assert abs(float(value.mean())) < 4 * sigma / value.numel() ** 0.5


@pytest.mark.parametrize("name", NOISY)
def test_noise_of_parameters_steps_and_clients_differs(name, context):
    zeros = {key: torch.zeros(50, dtype=torch.float64) for key in ("first", "second")}
    client = fresh(context)
    draws = [flat(defended(name, zeros, client.at(Alone(step)))).view(2, -1) for step in range(2)]
    others = [{"seed": 2}, {"client": 4}, {"round": 8}, {"draw": 1}]
    draws += [flat(defended(name, zeros, fresh(context, **change))).view(2, -1) for change in others]
    rows = torch.cat(draws)
    assert torch.corrcoef(rows).fill_diagonal_(0).abs().max() < 0.6
    assert len({tuple(row) for row in rows.tolist()}) == len(rows)


@pytest.mark.parametrize("name", NOISY)
def test_noise_is_that_of_its_stream(name, gradient, context):
    first, second = (defended(name, gradient, fresh(context)) for _ in range(2))
    assert torch.equal(flat(first), flat(second))
    reordered = defended(name, dict(reversed(gradient.items())), fresh(context))
    assert all(torch.equal(reordered[key], value) for key, value in first.items())


@pytest.mark.parametrize("bound", [0.01, 4.0])
def test_clipping_leaves_the_direction_and_the_bound(gradient, context, bound):
    before, after = flat(gradient), flat(GradientClipping(bound).gradient(gradient, context))
    assert before.norm() > bound
    assert float(after.norm()) == pytest.approx(bound, rel=1e-12)
    assert float(torch.cosine_similarity(before, after, 0)) == pytest.approx(1, abs=1e-12)


def test_clipping_is_neutral_up_to_the_bound(gradient, context):
    norm = float(flat(gradient).norm())
    for bound in (norm * (1 + 1e-12), 2 * norm):
        result = GradientClipping(bound).gradient(gradient, context)
        assert all(torch.equal(result[key], value) for key, value in gradient.items())
    zero = {"w": torch.zeros(3)}
    assert torch.equal(GradientClipping().gradient(zero, context)["w"], zero["w"])


def test_clipping_and_noise_are_done_in_this_order(gradient, context):
    found = ClippingNoise(bound=0.5, sigma=0.2).gradient(gradient, fresh(context))
    clipped = GradientClipping(0.5).gradient(gradient, context)
    expected = AdditiveNoise(0.2).gradient(clipped, fresh(context))
    assert all(torch.equal(found[key], value) for key, value in expected.items())
    noise = flat(found) - flat(clipped)
    assert float(noise.std()) == pytest.approx(0.2, rel=0.05)


@pytest.mark.parametrize("dropped", [0.1, 0.29, 0.5, 0.7, 0.8, 0.9])
def test_f12_compression_keeps_its_share_of_each_tensor(gradient, context, dropped):
    result = GradientCompression(dropped).gradient(gradient, context)
    for key, value in gradient.items():
        kept = result[key] != 0
        assert int(kept.sum()) == value.numel() - dropped_count(value.numel(), dropped)
        assert torch.equal(result[key][kept], value[kept])
        assert value[kept].abs().min() > value[~kept].abs().max()


@pytest.mark.parametrize(("entries", "share", "count"), [(10, 0.7, 7), (100, 0.29, 29), (12, 0.9, 10), (1, 0.9, 0)])
def test_the_count_is_the_floor_of_the_exact_product(entries, share, count):
    """0.29 * 100 is 28.999... in floating point."""
    assert dropped_count(entries, share) == count


@pytest.mark.parametrize("dropped", [0.8, 0.9])
@pytest.mark.parametrize("entries", [7, 10, 48, 300, 1001])
def test_compression_equals_the_percentile_rule(context, entries, dropped):
    """Magnitudes strictly below the percentile, as the published defenses compute it."""
    values = stream(5, "values", entries).normal(entries)
    threshold = np.percentile(values.abs().numpy(), 100 * dropped)
    expected = torch.where(values.abs() < threshold, 0.0, values)
    assert torch.equal(GradientCompression(dropped).gradient({"w": values}, context)["w"], expected)


def test_compression_is_idempotent_and_keeps_ties(gradient, context):
    defense = GradientCompression(0.8)
    once = defense.gradient(gradient, context)
    assert all(torch.equal(defense.gradient(once, context)[key], value) for key, value in once.items())
    ties = torch.tensor([1.0, -3.0, 3.0, 3.0, -3.0])
    assert defense.gradient({"w": ties}, context)["w"].tolist() == [0.0, -3.0, 3.0, 3.0, -3.0]


@pytest.mark.parametrize(
    ("name", "settings", "message"),
    [
        ("additive-noise", {"sigma": 0.0}, "sigma"),
        ("additive-noise", {"sigma": float("nan")}, "sigma"),
        ("gradient-clipping", {"bound": -1.0}, "bound"),
        ("gradient-clipping", {"bound": float("inf")}, "bound"),
        ("clipping-noise", {"sigma": -0.1}, "sigma"),
        ("clipping-noise", {"bound": 0.0}, "bound"),
        ("gradient-compression", {"dropped": 0.0}, "dropped"),
        ("gradient-compression", {"dropped": 1.0}, "dropped"),
        ("gradient-compression", {"dropped": 80}, "dropped: Input should be less than 1, not 80"),
        ("gradient-compression", {"dropped": "0.8"}, "dropped"),
    ],
)
def test_settings_out_of_range_are_refused_when_loaded(name, settings, message):
    with pytest.raises(UserError, match=message):
        plugins.load("defenses", name, settings)


def test_a_percentage_is_refused_without_a_plan_too():
    with pytest.raises(UserError, match="dropped must be a number above 0 and below 1, not 80"):
        GradientCompression(80)
