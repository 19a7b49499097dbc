"""MSE-R in an untrained ResNet-18, held against the features of an attacked one."""

import pytest
import torch

from leaklab.metrics.features import RepresentationError
from leaklab.metrics.scoring import image_scores, load_metrics
from leaklab.records import plugins
from leaklab.records.streams import stream
from leaklab.specs.capture import CaptureSpec


def images(n=3, channels=3, side=16):
    return stream(0, "images").uniform(n, channels, side, side)


def attacked(stem, channels, side, classes=5, seed=0):
    """Return the network that a capture attacks."""
    architecture = plugins.load("models", "resnet-18", {"stem": stem})
    return architecture.initialised((channels, side, side), classes, seed).eval()


def slow(network, guesses, truth):
    """Hook the last layer and compare its inputs, image by image."""
    seen = []
    network.fc.register_forward_hook(lambda layer, inputs, output: seen.append(inputs[0][0].double()))
    with torch.no_grad():
        for pair in zip(guesses, truth, strict=True):
            for image in pair:
                network(2 * image[None].float().clamp(0, 1) - 1)
    assert all(feature.shape == (512,) for feature in seen)
    return torch.stack([((a - b) ** 2).mean() for a, b in zip(seen[::2], seen[1::2], strict=True)])


@pytest.mark.parametrize(
    ("channels", "side", "stem"), [(3, 32, "cifar"), (1, 28, "cifar"), (3, 64, "cifar"), (3, 65, "imagenet")]
)
def test_values_are_those_of_the_attacked_networks_last_inputs(channels, side, stem):
    truth = images(2, channels, side)
    guess = truth + 0.3 * stream(1, "noise").normal(*truth.shape)
    found = RepresentationError().values(guess, truth)
    assert found.dtype == torch.float64
    assert found.numpy() == pytest.approx(slow(attacked(stem, channels, side), guess, truth).numpy(), rel=1e-3)


def test_another_seed_is_another_network():
    truth = images(2)
    guess = truth.flip(0)
    found = RepresentationError(seed=7).values(guess, truth)
    assert found.numpy() == pytest.approx(slow(attacked("cifar", 3, 16, seed=7), guess, truth).numpy(), rel=1e-3)
    assert (found / RepresentationError().values(guess, truth) - 1).abs().min() > 0.01


def test_the_seed_is_that_of_a_capture_that_names_none():
    assert RepresentationError().seed == CaptureSpec.model_fields["seed"].default


@pytest.mark.parametrize("channels", [1, 3])
def test_equal_images_score_zero_and_noise_adds_up(channels):
    truth = 0.3 + 0.4 * images(3, channels)
    noise = stream(1, "noise").normal(*truth.shape)
    values = torch.stack([RepresentationError().values(truth + size * noise, truth) for size in (0, 0.005, 0.02, 0.08)])
    assert float(values[0].max()) == 0
    assert bool((values.diff(dim=0) > 0).all())


def test_a_value_depends_on_its_own_image_alone(monkeypatch):
    truth, guess = images(5), images(5).flip(-1)
    together = RepresentationError().values(guess, truth)
    alone = torch.cat([RepresentationError().values(guess[i : i + 1], truth[i : i + 1]) for i in range(5)])
    monkeypatch.setattr("leaklab.metrics.features.IMAGES_PER_PASS", 2)
    chunked = RepresentationError().values(guess, truth)
    assert together.shape == (5,)
    assert together.numpy() == pytest.approx(alone.numpy(), rel=1e-4)
    assert together.numpy() == pytest.approx(chunked.numpy(), rel=1e-4)


def test_reconstructions_are_clamped():
    truth = images(2)
    assert torch.equal(
        RepresentationError().values(truth + 9, truth), RepresentationError().values(truth * 0 + 1, truth)
    )


def test_the_global_generator_is_left_alone():
    state = torch.random.get_rng_state()
    RepresentationError(seed=11).values(images(1), images(1))
    assert torch.equal(state, torch.random.get_rng_state())


def test_scoring_loads_it_by_its_name():
    truth = images(4).view(2, 2, 3, 16, 16)
    metrics, reasons = load_metrics(["mse-r"])
    scores = image_scores(metrics, {"best-by-loss": truth.flip(1)}, truth)
    assert reasons == {}
    assert list(scores) == [("best-by-loss", "mse_r")]
    # the two images of each batch came back in the other order
    assert torch.equal(scores["best-by-loss", "mse_r"], torch.zeros(2, 2, dtype=torch.float64))


def test_the_card_says_which_network():
    card = plugins.load("metrics", "mse-r").card
    assert (card.name, card.better, card.input_range) == ("mse_r", "higher", "[-1, 1]")
    assert "untrained (initialisation he, seed 0), evaluation state" in card.network
    assert all([card.domain, card.clamping, card.assignment, card.averaging, card.note])
