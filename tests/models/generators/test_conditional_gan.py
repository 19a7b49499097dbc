"""Shapes, ranges, refusals and the isolation of the draws."""

import pytest
import torch
from torch.nn import functional as F

from leaklab.models.generators.conditional_gan import ConditionalGan
from leaklab.records import plugins
from leaklab.records.errors import UserError
from leaklab.records.streams import stream

SHAPES = [(1, 28, 28), (3, 32, 32), (1, 8, 8)]
CLASSES = 7


def made(shape=(1, 8, 8), **settings):
    """Return an untrained generator whose weights are large enough to show in the image."""
    generator = ConditionalGan(latent_size=5, embedding=3, width=4, **settings).generator(
        shape, CLASSES, stream(0, "g")
    )
    with torch.no_grad():
        for parameter in generator.parameters():
            parameter.mul_(10)
    return generator


def draw(n):
    return stream(1, "z").normal(n, 5).float(), F.one_hot(torch.arange(n) % CLASSES, CLASSES).float()


@pytest.mark.parametrize("shape", SHAPES)
def test_images_have_the_shape_of_the_data_and_lie_in_the_unit_range(shape):
    images = made(shape).frozen().generate(*draw(9))
    assert images.shape == (9, *shape)
    assert float(images.min()) >= 0
    assert float(images.max()) <= 1
    assert float(images.std()) > 0


@pytest.mark.parametrize("shape", SHAPES)
def test_the_discriminator_scores_each_image(shape):
    scores = ConditionalGan(width=4).discriminator(shape, CLASSES, stream(0, "d"))(torch.rand(9, *shape), draw(9)[1])
    assert scores.shape == (9,)
    assert bool(scores.isfinite().all())


def test_the_kernels_of_the_discriminator_approach_spectral_norm_one():
    judge = ConditionalGan(width=4).discriminator((1, 8, 8), CLASSES, stream(0, "d")).train()
    for _ in range(200):  # one power iteration per access
        weight = judge.conv2.weight
    assert float(torch.linalg.matrix_norm(weight.detach().flatten(1), 2)) == pytest.approx(1, rel=1e-3)


def test_a_frozen_generator_makes_each_image_alone():
    generator = made().double().frozen()
    latents, classes = (value.double() for value in draw(6))
    together = generator.generate(latents, classes)
    alone = torch.cat([generator.generate(latents[i : i + 1], classes[i : i + 1]) for i in range(6)])
    assert torch.allclose(together, alone, rtol=0, atol=1e-12)
    assert not any(parameter.requires_grad for parameter in generator.parameters())


def test_class_probabilities_may_be_soft_and_matter():
    generator, (latents, classes) = made().frozen(), draw(3)
    hard, soft = generator.generate(latents, classes), generator.generate(latents, 0.5 * classes + 0.5 / CLASSES)
    assert float((hard - soft).abs().amax((1, 2, 3)).min()) > 0.01
    other = generator.generate(latents, classes.roll(1, 1))
    assert float((hard - other).abs().amax((1, 2, 3)).min()) > 0.01


def test_weights_come_from_the_stream_alone():
    state = torch.get_rng_state()
    one, other = made(), made()
    assert torch.equal(state, torch.get_rng_state())
    assert all(torch.equal(a, b) for a, b in zip(one.state_dict().values(), other.state_dict().values(), strict=True))


@pytest.mark.parametrize(
    ("latents", "classes", "message"),
    [
        ((2, 6), (2, CLASSES), r"takes latents \[N, 5\], not \[2, 6\]"),
        ((5,), (1, CLASSES), r"takes latents \[N, 5\]"),
        ((2, 5), (2, CLASSES + 1), r"takes class probabilities \[2, 7\], not \[2, 8\]"),
        ((2, 5), (3, CLASSES), r"takes class probabilities \[2, 7\], not \[3, 7\]"),
    ],
)
def test_wrong_sizes_are_refused_in_one_line(latents, classes, message):
    with pytest.raises(UserError, match=message) as error:
        made().generate(torch.zeros(latents), torch.zeros(classes))
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(("shape", "classes"), [((3, 8, 8), CLASSES), ((1, 8, 8), 10)])
def test_a_generator_of_another_dataset_is_refused(shape, classes):
    made().require((1, 8, 8), CLASSES)
    with pytest.raises(UserError, match="choose a generator that was trained on the victim's dataset"):
        made().require(shape, classes)


def test_a_generator_in_training_state_is_refused():
    with pytest.raises(UserError, match=r"call frozen\(\)"):
        made().train().require_frozen()
    made().frozen().require_frozen()


@pytest.mark.parametrize("settings", [{"latent_size": 0}, {"width": 0}, {"embedding": -1}])
def test_empty_layers_are_refused(settings):
    with pytest.raises(UserError, match="needs positive sizes"):
        ConditionalGan(**settings).generator((1, 8, 8), CLASSES)


def test_odd_images_are_refused():
    with pytest.raises(UserError, match="multiples of 4, not 30x28"):
        ConditionalGan().generator((1, 30, 28), CLASSES)


def test_it_is_found_by_its_name():
    assert plugins.load("models/generators", "conditional-gan", {"width": 4}) == ConditionalGan(width=4)
