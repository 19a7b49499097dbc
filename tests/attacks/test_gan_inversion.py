"""Images that the generator made itself are found again, by pixels and by a perceptual distance."""

from functools import partial

import pytest
import torch
from torch.nn import functional as F

from leaklab.attacks.latents.gan_inversion import Projection, ProjectionSettings, project
from leaklab.records.errors import UserError
from leaklab.records.streams import stream

SHAPE, CLASSES, LATENT, IMAGES = (1, 8, 8), 5, 4, 3
STREAMS = partial(stream, 0, "inversion")
FEW = ProjectionSettings(generations=3, population=4, inner_steps=10, final_steps=300)
LABELS = torch.tensor([4, 0, 2])


@pytest.fixture(scope="module")
def generator(waves):
    return waves(LATENT, CLASSES)


@pytest.fixture(scope="module")
def truth(generator):
    latents = stream(0, "truth").normal(IMAGES, LATENT)
    return latents, generator.generate(latents, F.one_hot(LABELS, CLASSES).double())


def column_means(images, targets):
    """A stand-in for LPIPS that sees the mean of each column only."""
    return ((images - targets).mean(2) ** 2).flatten(1).mean(1)


@pytest.mark.parametrize("perceptual", [None, column_means])
def test_a_generated_image_is_found_again(generator, truth, perceptual):
    found = project(generator, truth[1], LABELS, STREAMS, FEW, perceptual)
    assert float(found.losses.max()) < 1e-4
    assert torch.allclose(found.latents, truth[0], atol=0.1)
    assert torch.equal(found.images, generator.generate(found.latents, F.one_hot(LABELS, CLASSES).double()))


def test_the_loss_adds_the_weighted_perceptual_distance(generator, truth):
    latents, rows = stream(1, "z").normal(IMAGES, LATENT), torch.arange(IMAGES)
    images = generator.generate(latents, F.one_hot(LABELS, CLASSES).double())
    pixels, columns = ((images - truth[1]) ** 2).flatten(1).mean(1), column_means(images, truth[1])
    losses, derivative = Projection(generator, truth[1], LABELS, column_means, 0.7)(latents, rows)
    assert torch.allclose(losses, pixels + 0.7 * columns)
    step = 1e-6 * stream(2, "z").normal(IMAGES, LATENT)
    objective = Projection(generator, truth[1], LABELS, column_means, 0.7)
    change = objective(latents + step, rows)[0] - objective(latents - step, rows)[0]
    assert torch.allclose(change, 2 * (derivative * step).sum(1), rtol=1e-5)


def test_an_image_does_not_depend_on_its_neighbours(generator, truth):
    together = project(generator, truth[1], LABELS, STREAMS, FEW)
    alone = project(generator, truth[1][:1], LABELS[:1], STREAMS, FEW)
    assert torch.allclose(together.latents[0], alone.latents[0], rtol=0, atol=1e-9)


def test_the_final_steps_go_down_from_the_best_candidate(generator, truth):
    short, long = (
        project(generator, truth[1], LABELS, STREAMS, ProjectionSettings(2, 4, inner_steps=2, final_steps=steps))
        for steps in (1, 30)
    )
    assert bool((long.losses < 0.7 * short.losses).all())


def test_unusable_images_and_labels_are_refused(generator, truth, waves):
    images = truth[1]
    with pytest.raises(UserError, match=r"inverts images \['T', 1, 8, 8\]"):
        project(generator, images[:, 0], LABELS, STREAMS, FEW)
    with pytest.raises(UserError, match="with labels"):
        project(generator, images, LABELS[:2], STREAMS, FEW)
    with pytest.raises(UserError, match=r"within \[0, 1\]"):
        project(generator, 2 * images - 1, LABELS, STREAMS, FEW)
    with pytest.raises(UserError, match=r"within \[0, 1\]"):
        project(generator, images * torch.nan, LABELS, STREAMS, FEW)
    with pytest.raises(UserError, match=r"classes 0\.\.4 only"):
        project(generator, images, LABELS + 1, STREAMS, FEW)
    with pytest.raises(UserError, match="training state"):
        project(waves(LATENT, CLASSES).train(), images, LABELS, STREAMS, FEW)
