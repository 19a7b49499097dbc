"""Annealed MAP of a sum of clients: a factor for each of them, which one factor for all cannot stand for."""

from functools import partial

import pytest
import torch

from leaklab.attacks.adaptive.scale import ProfiledScale
from leaklab.attacks.annealed import AnnealedMap
from leaklab.attacks.annealed_sum import AnnealedSum, FreeFactors
from leaklab.attacks.base import Budget, Case
from leaklab.attacks.matching.distances import squared_l2
from leaklab.captures.capture import capture
from leaklab.data.dataset import Dataset
from leaklab.models.generators.class_gaussian import ClassGaussian
from leaklab.observations.base import Knowledge
from leaklab.records.errors import UserError
from leaklab.records.streams import stream
from leaklab.specs.capture import CaptureSpec

PUBLIC, CLIENTS = 1000, 2
STREAMS = partial(stream, 0, "attack")


@pytest.fixture(scope="module")
def generator(digits):
    return ClassGaussian().fitted(digits[0][:PUBLIC], digits[1][:PUBLIC], 10)


@pytest.fixture(scope="module")
def captured(digits):
    """Return observation, knowledge and truth of sums of two clients with an image each."""
    images, labels, one = (digits[0] * 255).round().to(torch.uint8), digits[1], torch.ones(1)
    dataset = Dataset("digits", 10, images[:PUBLIC], labels[:PUBLIC], images[PUBLIC:], labels[PUBLIC:], 0 * one, one)
    fields = {"dataset": "digits", "images": {"count": 6, "seed": 1}, "batch_size": CLIENTS, "model": "dlg-lenet",
              "threat_model": "honest-but-curious-with-labels"}  # fmt: skip
    masked = {"name": "masked-sum", "clients": CLIENTS, "perturbed": True}
    return capture(CaptureSpec.model_validate({**fields, "defense": masked}), dataset)


def psnr(found, truth):
    """Return the mean over the images of each update, in dB; they are paired in their order."""
    return -10 * ((found.images - truth.images) ** 2).flatten(2).mean(2).log10().mean(1)


def test_a_factor_on_a_label_is_one_on_the_gradient_of_its_client(network_of, observe, digits):
    """At the true images and factors the objective vanishes, and nowhere near them."""
    images, labels = digits[0][:4].view(1, 4, 1, 8, 8), digits[1][:4].view(1, 4)
    factors = torch.tensor([0.4, 1.7], dtype=torch.float64)
    parts = [observe(images[:, k : k + 2], labels[:, k : k + 2]).update for k in (0, 2)]
    summed = [(factors[0] * parts[0][name] + factors[1] * parts[1][name]) / 2 for name in parts[0]]
    inversion = FreeFactors(network_of(), summed, (4, 1, 8, 8), 10, squared_l2, labels)
    inversion.clients = 2
    point = torch.cat([images.flatten(), factors - 1])[None]
    value, slope = inversion(point, torch.tensor([0]))
    assert float(value) < 1e-25
    assert float(slope.abs().max()) < 1e-12
    assert float(inversion(torch.cat([images.flatten(), 0 * factors])[None], torch.tensor([0]))[0]) > 1e-4
    beyond = torch.cat([images.flatten(), torch.tensor([5.0, -3.0], dtype=torch.float64)])[None]
    assert inversion.unpack(beyond, torch.tensor([0])).targets.sum(2).tolist() == [[2.0, 2.0, 0.0, 0.0]]


def test_the_derivative_is_that_of_the_value(network_of, observe, digits):
    images, labels = digits[0][:2].view(1, 2, 1, 8, 8), digits[1][:2].view(1, 2)
    inversion = FreeFactors(
        network_of(), list(observe(images, labels).update.values()), (2, 1, 8, 8), 10, squared_l2, labels
    )
    inversion.clients = 2
    point = torch.cat([images.flatten() + 0.1, torch.tensor([0.3, -0.4], dtype=torch.float64)])[None]
    _, slope = inversion(point, torch.tensor([0]))
    for place in (3, 70, 128, 129):
        step = torch.zeros_like(point)
        step[0, place] = 1e-6
        high, low = (float(inversion(point + sign * step, torch.tensor([0]))[0]) for sign in (1, -1))
        assert float(slope[0, place]) == pytest.approx((high - low) / 2e-6, rel=1e-4)


def test_sums_at_hidden_rates_are_read_where_one_factor_reads_none(captured, generator):
    observation, knowledge, truth = captured
    found = AnnealedSum().reconstruct(Case(observation, knowledge, Budget(100, 2), STREAMS, generator=generator))
    direction, _ = ProfiledScale().prepare(observation, knowledge)
    one_factor = AnnealedMap(label_rule="known")
    plain = one_factor.reconstruct(
        Case(direction, knowledge, Budget(100, 2), STREAMS, ProfiledScale().distance, generator=generator)
    )
    assert float(psnr(found, truth).median()) > float(psnr(plain, truth).median()) + 8
    assert float(psnr(found, truth).median()) > 22


@pytest.mark.parametrize(
    ("defense", "said"), [(None, "needs 'defense'"), ({"name": "lrp", "settings": {}}, "not for 'lrp': choose")]
)
def test_who_knows_of_no_sum_is_refused(captured, generator, defense, said):
    observation, knowledge, _ = captured
    facts = {name: value for name, value in knowledge.facts.items() if name != "defense"}
    facts |= {"defense": defense} if defense else {}
    with pytest.raises(UserError, match=said):
        AnnealedSum().reconstruct(
            Case(observation, Knowledge("any", facts), Budget(2, 1), STREAMS, generator=generator)
        )
