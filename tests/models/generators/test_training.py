"""Training on real digits: what it learns, and that it is a function of its seed."""

from functools import partial
from math import isfinite

import pytest
import torch

from leaklab.models.generators.conditional_gan import ConditionalGan
from leaklab.models.generators.made import accuracy, recognised_share, train_classifier
from leaklab.models.generators.training import GanTraining, train_generator
from leaklab.models.resnets import SmallResNet
from leaklab.records.errors import UserError
from leaklab.records.kept import KeptTensors
from leaklab.records.streams import stream

CLASSES = 10
SMALL = ConditionalGan(latent_size=16, embedding=8, width=16)


@pytest.fixture(scope="module")
def classifier(digits):
    network = SmallResNet(width=8).initialised((1, 8, 8), CLASSES, 0)
    return train_classifier(network, *digits, 100, partial(stream, 0))


@pytest.fixture(scope="module")
def trained(train):
    losses = []
    return train(
        200, batch_size=32, progress=lambda step, judged, deceived: losses.append((step, judged, deceived))
    ), losses


def test_a_classifier_of_real_digits_recognises_the_generated_ones(trained, classifier, digits):
    """Chance is 0.1; the untrained generator is the control that the classifier itself does not favor a class."""
    share = recognised_share(trained[0], classifier, 50, partial(stream, 1))
    assert accuracy(classifier, *digits) > 0.9
    assert share.shape == (CLASSES,)
    assert float(share.mean()) > 0.7
    untrained = SMALL.generator((1, 8, 8), CLASSES, stream(0, "untrained")).frozen()
    assert float(recognised_share(untrained, classifier, 50, partial(stream, 1)).mean()) < 0.2


def test_progress_is_told_after_every_step_with_finite_losses(trained):
    steps = trained[1]
    assert [step for step, *_ in steps] == list(range(200))
    assert all(isfinite(judged) and isfinite(deceived) for _, judged, deceived in steps)


def test_it_ends_frozen_with_measured_statistics(trained):
    generator = trained[0]
    generator.require_frozen()
    assert not any(p.requires_grad for p in generator.parameters())
    assert float((generator.norm1.running_mean).abs().max()) > 0.01
    assert bool((generator.norm1.running_var > 0).all())


def test_one_seed_gives_the_same_bytes_and_another_does_not(train):
    state = torch.get_rng_state()
    first, again, other = train(5), train(5), train(5, seed=1)
    assert torch.equal(state, torch.get_rng_state())
    assert all(torch.equal(a, b) for a, b in zip(first.state_dict().values(), again.state_dict().values(), strict=True))
    assert not torch.equal(first.project.weight, other.project.weight)


def test_every_weight_learns(train):
    before = dict(SMALL.generator((1, 8, 8), CLASSES, stream(0, "generator", "initialisation", "generator"))
                  .named_parameters())  # fmt: skip
    after = dict(train(3, average=0.0).named_parameters())
    assert [name for name in after if torch.equal(before[name], after[name])] == []


class Killed(BaseException):
    """Stands for a signal."""


def test_a_killed_training_goes_on_and_ends_with_the_same_bytes(digits, tmp_path):
    def run(kept=None, progress=None):
        return train_generator(*digits, CLASSES, SMALL, GanTraining(6), partial(stream, 0), progress, kept)

    def kill(step, *_):
        if step == 3:
            raise Killed

    path = tmp_path / "checkpoint.safetensors"
    with pytest.raises(Killed):
        run(KeptTensors(path, "job"), kill)
    steps = []
    resumed = run(KeptTensors(path, "job"), lambda step, *_: steps.append(step)).state_dict()
    assert steps == [4, 5]
    whole = run().state_dict()
    assert all(torch.equal(resumed[name], value) for name, value in whole.items())


def test_divergence_stops_with_the_step(train):
    with pytest.raises(UserError, match=r"diverged in step \d+: lower its rates"):
        train(20, generator_rate=1e30, discriminator_rate=1e30)


@pytest.mark.parametrize(
    "settings",
    [{"steps": 0}, {"batch_size": 1}, {"generator_rate": 0.0}, {"momentum": 1.0}, {"average": 1.0}, {"average": -0.1}],
)
def test_settings_that_train_nothing_are_refused(settings):
    with pytest.raises(UserError):
        GanTraining(**{"steps": 1, **settings})


def test_unusable_images_and_labels_are_refused(digits):
    images, labels = digits

    def run(images, labels):
        return train_generator(images, labels, CLASSES, SMALL, GanTraining(1), partial(stream, 0))

    with pytest.raises(UserError, match=r"images in \[0, 1\]"):
        run(255 * images, labels)
    with pytest.raises(UserError, match=r"images in \[0, 1\]"):
        run(images * torch.nan, labels)
    with pytest.raises(UserError, match=r"float images \[N, C, H, W\]"):
        run(images[:, 0], labels)
    with pytest.raises(UserError, match=r"one label within 0\.\.9"):
        run(images, labels + 1)


def test_a_classifier_with_dropout_and_an_empty_score_are_refused(trained, classifier, digits):
    with pytest.raises(UserError, match="no dropout"):
        train_classifier(torch.nn.Sequential(torch.nn.Dropout()), *digits, 1, partial(stream, 0))
    with pytest.raises(UserError, match="at least one image"):
        recognised_share(trained[0], classifier, 0, partial(stream, 1))
