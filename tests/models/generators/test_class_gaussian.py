"""The Gaussian of each class: its moments are those of the images, and a latent counts standard deviations."""

import pytest
import torch
from torch.nn import functional as F

from leaklab.data.dataset import Dataset
from leaklab.data.deal import deal
from leaklab.models.generators.base import load_generator, save_generator
from leaklab.models.generators.class_gaussian import ClassGaussian
from leaklab.models.generators.made import public_part
from leaklab.records.errors import UserError
from leaklab.records.streams import stream
from leaklab.specs.generator import GeneratorSpec
from leaklab.specs.training import PartitionSpec

CLASSES, PIXELS, FLOOR = 10, 64, 0.02


@pytest.fixture(scope="module")
def fitted(digits):
    return ClassGaussian(floor=FLOOR).fitted(*digits, CLASSES).double()


def one_hot(label, count=1):
    return F.one_hot(torch.full((count,), label), CLASSES).double()


def of_class(digits, label):
    return digits[0][digits[1] == label].flatten(1).double()


def coordinates(generator, images, label):
    """The latents of images [N, P]: the components are orthogonal, so the inverse is a transpose."""
    factor = generator.factor[label]
    return (images - generator.mean[label]) @ factor / (factor**2).sum(0)


def test_the_image_of_a_zero_latent_is_the_mean_of_the_class(fitted, digits):
    for label in (0, 7):
        found = fitted.generate(torch.zeros(1, PIXELS).double(), one_hot(label))
        assert torch.allclose(found.flatten(), of_class(digits, label).mean(0), atol=1e-6)


def test_every_image_has_a_latent(fitted, digits):
    images = of_class(digits, 3)[:5]
    again = fitted.generate(coordinates(fitted, images, 3), one_hot(3, 5))
    assert torch.allclose(again.flatten(1), images, atol=1e-5)


def test_latents_of_the_fitted_images_are_white_up_to_the_floor(fitted, digits):
    """Their covariance is lambda / (lambda + floor^2): one where the images vary, less where the floor rules."""
    latents = coordinates(fitted, of_class(digits, 5), 5)
    assert float(latents.mean(0).abs().max()) < 1e-4
    total = (fitted.factor[5] ** 2).sum(0)
    expected = ((total - FLOOR**2) / total).clamp(min=0)
    assert torch.allclose(latents.T @ latents / (len(latents) - 1), torch.diag(expected), atol=1e-3)
    assert float(expected.max()) > 0.99
    assert float(expected.min()) < 0.01


def test_drawn_images_have_the_covariance_of_the_class_plus_the_floor(fitted, digits):
    wanted = of_class(digits, 2).T.cov() + FLOOR**2 * torch.eye(PIXELS)
    assert torch.allclose(fitted.factor[2] @ fitted.factor[2].T, wanted, atol=1e-6)
    latents = stream(0, "z").normal(20_000, PIXELS)
    drawn = fitted.generate(latents, one_hot(2, len(latents))).flatten(1)
    assert float((drawn.T.cov() - wanted).abs().max()) < 0.01


def test_components_are_the_first_of_all_with_the_largest_entry_positive(fitted, digits):
    few = ClassGaussian(components=6, floor=FLOOR).fitted(*digits, CLASSES).double()
    assert few.latent_size == 6
    assert torch.equal(few.factor, fitted.factor[:, :, :6])
    sizes = (fitted.factor**2).sum(1)
    assert bool((sizes.diff(dim=1) <= 1e-9).all())
    largest = fitted.factor.gather(1, fitted.factor.abs().argmax(1, keepdim=True))
    assert bool((largest > 0).all())


def test_a_mixture_of_classes_is_the_mixture_of_their_images(fitted):
    latents = stream(1, "z").normal(1, PIXELS)
    soft = 0.25 * one_hot(1) + 0.75 * one_hot(4)
    parts = [share * fitted.generate(latents, one_hot(label)) for share, label in ((0.25, 1), (0.75, 4))]
    assert torch.allclose(fitted.generate(latents, soft), sum(parts))


def test_rows_of_different_classes_do_not_mix_and_derivatives_are_those_of_the_factor(fitted):
    latents = stream(2, "z").normal(3, PIXELS).requires_grad_()
    classes = F.one_hot(torch.tensor([8, 0, 8]), CLASSES).double()
    images = fitted.generate(latents, classes)
    for row, label in enumerate((8, 0, 8)):
        alone = fitted.generate(latents[[row]], one_hot(label))
        assert torch.allclose(images[row], alone[0], atol=1e-12)
    weights = stream(3, "w").normal(3, PIXELS)
    (slope,) = torch.autograd.grad((images.flatten(1) * weights).sum(), latents)
    expected = torch.stack([weights[row] @ fitted.factor[label] for row, label in enumerate((8, 0, 8))])
    assert torch.allclose(slope, expected)


def test_it_comes_back_from_its_file_frozen_and_needs_no_draws(digits, tmp_path):
    state = torch.get_rng_state()
    generator, again = (ClassGaussian(components=5).fitted(*digits, CLASSES) for _ in range(2))
    assert torch.equal(state, torch.get_rng_state())
    save_generator(tmp_path / "g.safetensors", generator, "class-gaussian", {"components": 5})
    loaded = load_generator(tmp_path / "g.safetensors")
    loaded.require_frozen()
    for other in (again, loaded):
        assert all(torch.equal(value, other.state_dict()[name]) for name, value in generator.state_dict().items())
    assert not any(parameter.requires_grad for parameter in loaded.parameters())


def test_what_has_no_gaussian_is_refused(digits):
    images, labels = digits
    with pytest.raises(UserError, match="needs 2 images of each class, and class 9 has"):
        ClassGaussian().fitted(images[labels < 9], labels[labels < 9], CLASSES)
    with pytest.raises(UserError, match="64 pixels have no 65 components"):
        ClassGaussian(components=65).fitted(images, labels, CLASSES)
    with pytest.raises(UserError, match="at most 4096 numbers, not 150528"):
        ClassGaussian().generator((3, 224, 224), CLASSES)


class TestAttackedClients:
    """A part of which some clients of a deal hold images that are attacked: the others' are public."""

    def spec(self, **settings):
        model = {"name": "class-gaussian", "dealt_to": 10, "attacked": 3, **settings}
        return GeneratorSpec(dataset="digits", model=model, steps=1)

    def test_what_they_hold_is_not_public_and_all_else_is(self, digits):
        images, labels, one = (digits[0] * 255).round().to(torch.uint8), digits[1], torch.ones(1)
        dataset = Dataset("digits", 10, images, labels, images[:5], labels[:5], 0 * one, one)
        public, named = public_part(self.spec(), dataset)
        partition = PartitionSpec(dataset="digits", partition={"name": "iid", "clients": 10})
        held = [place for own in deal(partition, labels.numpy())["clients"][:3] for place in own]
        others = sorted(set(range(len(labels))) - set(held))
        assert len(held) == 3 * (len(labels) // 10)
        assert torch.equal(public, images[others])
        assert torch.equal(named, labels[others])
        assert torch.equal(public_part(self.spec(dealt_to=0, attacked=0), dataset)[0], images)
        with pytest.raises(UserError, match="leave attacked out"):
            public_part(self.spec().model_copy(update={"split": "test"}), dataset)

    @pytest.mark.parametrize(("dealt_to", "attacked"), [(10, 0), (0, 1), (10, 10)])
    def test_a_deal_that_leaves_nothing_public_or_nothing_private_is_refused(self, dealt_to, attacked):
        with pytest.raises(UserError, match="leaves no public images or none private"):
            ClassGaussian(dealt_to=dealt_to, attacked=attacked)
