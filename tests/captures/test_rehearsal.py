"""Rehearsals: public clients at the weights that were sent, with draws of their own."""

from dataclasses import replace

import pytest
import torch

from leaklab.captures.capture import capture
from leaklab.captures.rehearsal import rehearse
from leaklab.records.errors import UserError
from leaklab.specs.capture import CaptureSpec
from leaklab.specs.law import LawSpec

CAPTURE = {
    "dataset": "digits",
    "images": {"split": "test", "count": 2, "seed": 2},
    "model": "mlp",
    "threat_model": "honest-but-curious",
    "seed": 4,
}
GENERATOR = {"dataset": "digits", "model": "class-gaussian", "steps": 1}


def rehearsed(dataset, changes, **law):
    spec = CaptureSpec.model_validate({**CAPTURE, **changes})
    observation, knowledge, _ = capture(spec, dataset)
    told = LawSpec.model_validate({"capture": spec, "generator": GENERATOR, "images": 3, "draws": 2, **law}).told()
    return rehearse(told.capture, observation, knowledge, dataset), observation, told


@pytest.mark.parametrize("steps", [1, 3])
def test_without_a_defense_what_is_sent_is_the_plain_update_at_the_weights_of_the_observation(dataset, steps):
    found, observation, told = rehearsed(dataset, {"local_steps": steps})
    pairs = found.first(3, list(observation.update))
    assert all(torch.equal(g, o) for g, o in zip(pairs.gradients, pairs.sent, strict=True))
    own = CaptureSpec.model_validate({**CAPTURE, "local_steps": steps, "images": told.capture.images.model_dump()})
    plain = capture(own, dataset)[0].update
    assert all(torch.equal(plain[name], value) for name, value in found.plain.update.items())


def test_draws_are_those_of_nobody_who_is_attacked(dataset):
    noise = {"defense": {"name": "additive-noise", "sigma": 0.1}}
    found, _, told = rehearsed(dataset, noise, seed=4)
    # the same images and draws' names under the capture's own seed would be the noise that a client drew
    own = CaptureSpec.model_validate({**CAPTURE, **noise, "images": told.capture.images.model_dump(), "draws": 2})
    sent = capture(own, dataset)[0].update
    assert not any(torch.equal(sent[name], value) for name, value in found.sent.update.items())


def test_the_draws_of_an_image_stand_beside_its_gradient(dataset):
    found, observation, _ = rehearsed(dataset, {"defense": "lrp"})
    pairs = found.first(3, list(observation.update))
    for gradient, sent in zip(pairs.gradients, pairs.sent, strict=True):
        factors = (gradient * sent).sum(1) / (gradient * gradient).sum(1)
        assert torch.allclose(sent, factors[:, None] * gradient, atol=1e-12)
        assert len(set(factors.tolist())) == 6


def test_updates_that_choose_and_those_that_are_tried_last_are_not_learnt_from(dataset):
    found, _, _ = rehearsed(dataset, {"defense": "lrp"})
    assert (found.updates, found.rows(3, 4), found.rows(3, 5)) == (5, [6], [6, 8])
    first, others = (found.truth.select(rows) for rows in (list(range(6)), found.rows(3, 5)))
    assert not {str(trial["image"]) for trial in first.trials} & {str(trial["image"]) for trial in others.trials}


def test_images_of_another_kind_are_refused(dataset):
    spec = CaptureSpec.model_validate(CAPTURE)
    observation, knowledge, _ = capture(spec, dataset)
    told = LawSpec.model_validate({"capture": spec, "generator": GENERATOR}).told()
    wide = replace(dataset, name="wide", train_images=dataset.train_images.repeat(1, 1, 1, 2),
                   test_images=dataset.test_images.repeat(1, 1, 1, 2))  # fmt: skip
    with pytest.raises(UserError, match="the images of 'wide' are not those of the attacked network"):
        rehearse(told.capture, observation, knowledge, wide)
