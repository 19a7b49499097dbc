"""The examples in docs/examples: each does what its method says, and is described with no wrong fact."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from leaklab.guests.calls import Subject, samples_of, sent
from leaklab.guests.description import describe
from leaklab.guests.files import find
from leaklab.guests.laboratory import Laboratory
from leaklab.guests.lint import linted
from leaklab.guests.moments import tiny
from leaklab.guests.networks import stage_of

FOLDER = Path(__file__).parents[2] / "docs/examples"
HOOKS = {"censor": ["gradient"], "precode": ["network", "penalty"], "ats": ["samples"], "dcs": ["gradient"]}
FACTS = {
    "censor": {"random", "looks at", "orthogonal", "mixes"},
    "precode": {"changes the network", "adds to the loss"},
    "ats": {"changes the samples"},
    "dcs": {"random", "looks at"},
}
"""All that may be said of each; what is said in addition would be wrong."""


@pytest.fixture(params=HOOKS)
def name(request):
    return request.param


def subject_of(name):
    return Subject.load(FOLDER / f"{name}.py")


def moment_of(subject, network="mlp", size=1, dtype=torch.float64):
    public = tiny().public
    return stage_of(subject, tiny(), network, dtype).moment(public.images[:size].to(dtype), public.labels[:size])


def flat(update):
    return torch.cat([value.flatten() for value in update.values()])


def test_an_example_is_sound(name):
    assert linted(FOLDER / f"{name}.py", lambda phase: None) == {"hooks": HOOKS[name], "warnings": []}


@pytest.mark.parametrize("network", ["mlp", "lenet"])
def test_no_wrong_fact(name, network):
    facts = {fact.name for fact in describe(Laboratory(subject_of(name), network))}
    assert facts <= FACTS[name]
    assert facts >= FACTS[name] - {"looks at"}


def test_an_example_is_short_and_names_its_paper(name):
    text = (FOLDER / f"{name}.py").read_text()
    assert 40 <= len(text.splitlines()) <= 100
    for part in ("Paper: ", "Taken over: ", "Left out: ", "Expect: "):
        assert part in text


def test_a_card_is_that_of_the_file(name):
    card = json.loads((FOLDER / f"cards/{name}.json").read_text())
    assert card["subject"]["sha256"] == find(FOLDER / f"{name}.py").sha256
    assert all(arena["complete"] for arena in card["arenas"]["tiny"].values())


@pytest.mark.parametrize("size", [1, 4])
def test_censor_is_orthogonal_and_as_long_in_each_tensor(size):
    subject = subject_of("censor")
    moment = moment_of(subject, size=size)
    update, gradient = sent(subject, subject.new(), moment), moment.gradients[0]
    for one, value in update.items():
        assert value.norm() == pytest.approx(float(gradient[one].norm()))
        assert abs(float((value * gradient[one]).sum())) < 1e-12 * float(value.norm()) ** 2


def test_censor_sends_the_trial_of_the_lowest_loss():
    subject = subject_of("censor")
    moment = moment_of(subject)

    def loss_after(trials):
        defense = subject.module.Censor(trials)
        step = sent(subject, defense, moment)
        network = moment.build()
        network.load_state_dict({one: value - step[one] for one, value in moment.weights.items()})
        logits = network(moment.batch["images"]).detach()
        return float(torch.nn.functional.cross_entropy(logits, moment.batch["labels"]))

    losses = [loss_after(trials) for trials in (1, 4, 12)]  # those of fewer trials are among those of more
    assert losses[0] >= losses[1] >= losses[2]
    assert losses[0] > losses[2]


@pytest.mark.parametrize("least", [0.5, 0.9])
@pytest.mark.parametrize("share", [0.5, 1.0])
def test_dcs_points_along_the_gradient(least, share):
    subject = subject_of("dcs")
    moment = moment_of(subject)
    update = sent(subject, subject.module.DCS(share, least), moment)
    cosine = torch.cosine_similarity(flat(update), flat(moment.gradients[0]), 0)
    assert least - 1e-9 <= float(cosine) < 0.9999
    assert flat(update).norm() == pytest.approx(float(flat(moment.gradients[0]).norm()))


def test_dcs_projects_what_points_elsewhere_and_nothing_else():
    projected = subject_of("dcs").module.projected
    true = torch.tensor([1.0, 0.0], dtype=torch.float64)
    away = projected(torch.tensor([-1.0, 1.0], dtype=torch.float64), true, 0.6)
    assert away.tolist() == pytest.approx([0.6, 0.8])
    assert projected(torch.tensor([3.0, 4.0], dtype=torch.float64), true, 0.6).tolist() == pytest.approx([0.6, 0.8])


def test_ats_changes_images_within_their_range_and_by_its_stream():
    subject = subject_of("ats")
    moment = moment_of(subject, size=8)
    first, again = samples_of(subject, moment), samples_of(subject, moment)
    assert torch.equal(first["images"], again["images"])
    assert torch.equal(first["labels"], moment.batch["labels"])
    assert 0 <= float(first["images"].min()) <= float(first["images"].max()) <= 1
    changed = (first["images"] - moment.batch["images"]).flatten(1).pow(2).mean(1).sqrt()
    assert float(changed.min()) > 0.1


def test_ats_sends_the_gradient_of_the_changed_images():
    subject = subject_of("ats")
    moment = moment_of(subject)
    changed = samples_of(subject, moment)
    update = sent(subject, subject.new(), moment)
    wanted = stage_of(subject, tiny(), "mlp").gradient(changed["images"], changed["labels"])
    assert torch.allclose(flat(update), flat(wanted))
    assert not torch.allclose(flat(update), flat(moment.gradients[0]), rtol=0.1)


def test_precode_draws_in_training_and_not_in_evaluation():
    subject = subject_of("precode")
    made = stage_of(subject, tiny(), "lenet")
    network, images = made.build(), tiny().public.images[:2]
    assert torch.equal(network(images), network(images))
    network.train()
    one, other = network(images), network(images)
    assert one.shape == (2, 10)
    assert not torch.allclose(one, other)
    assert float(subject.new().penalty(network).detach()) > 0
    new = [name for name in made.weights if name.split(".")[0] in ("encoder", "decoder")]
    assert new == ["encoder.weight", "encoder.bias", "decoder.weight", "decoder.bias"]


def test_precode_sends_other_updates_in_other_draws_and_the_same_in_one():
    subject = subject_of("precode")
    moment = moment_of(subject)
    updates = [flat(sent(subject, subject.new(), replace(moment, draw=draw))) for draw in (0, 0, 1)]
    assert torch.equal(updates[0], updates[1])
    assert not torch.allclose(updates[0], updates[2])
