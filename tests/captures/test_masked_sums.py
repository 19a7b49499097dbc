"""Masked sums: what the server has of K clients is what each sends alone, added up, and no more."""

from functools import partial

import pytest
import torch

from leaklab.attacks.base import Budget, Case
from leaklab.attacks.exact_batch import ExactBatch
from leaklab.captures.capture import capture
from leaklab.records.errors import UserError
from leaklab.records.streams import stream
from leaklab.specs.capture import CaptureSpec

FIELDS = {"dataset": "digits", "images": {"count": 16, "seed": 1}, "batch_size": 8, "model": "dlg-lenet", "rate": 1.0}


@pytest.fixture(scope="module")
def seen(dataset):
    def make(**changes):
        return capture(CaptureSpec.model_validate({**FIELDS, **changes}), dataset)

    return make


def masked(clients, perturbed):
    return {"name": "masked-sum", "clients": clients, "perturbed": perturbed}


def entries(observation):
    """Return all updates as one matrix, [T, n]."""
    return torch.cat([value.flatten(1) for value in observation.update.values()], 1)


@pytest.mark.parametrize("model", ["dlg-lenet", {"name": "mlp", "dropout": 0.0}, "resnet-small"])
def test_at_fixed_rates_it_is_the_mean_of_what_each_client_sends_alone(seen, model):
    summed, alone = seen(defense=masked(4, perturbed=False), model=model)[0], seen(batch_size=2, model=model)[0]
    assert torch.allclose(entries(summed), entries(alone).view(2, 4, -1).mean(1), rtol=0, atol=1e-13)


@pytest.mark.parametrize("model", ["dlg-lenet", {"name": "mlp", "dropout": 0.0}, "resnet-small"])
def test_at_perturbed_rates_each_client_has_a_factor_of_its_own_between_0_and_2(seen, model):
    """Least squares finds the factors exactly: there is nothing else in the sum."""
    summed, alone = seen(defense=masked(4, perturbed=True), model=model)[0], seen(batch_size=2, model=model)[0]
    own = entries(alone).view(2, 4, -1)
    for sent, clients in zip(entries(summed), own, strict=True):
        factors = torch.linalg.lstsq(clients.T, 4 * sent[:, None]).solution[:, 0]
        assert torch.allclose(factors @ clients, 4 * sent, rtol=0, atol=1e-12)
        assert float(factors.min()) > 0
        assert float(factors.max()) < 2
        assert len({round(factor, 6) for factor in factors.tolist()}) == 4


def test_draws_differ_and_a_trial_does_not_depend_on_the_others(seen):
    two = entries(seen(defense=masked(2, perturbed=True), draws=2)[0])
    assert not torch.allclose(two[0], two[1])
    assert torch.equal(two[0], entries(seen(defense=masked(2, perturbed=True))[0])[0])


def test_the_law_is_that_of_lrp(seen):
    """One client in the sum is a client under LRP: mean 1, variance 1 / 3 of its factor."""
    small = {"batch_size": 1, "model": {"name": "mlp", "hidden": 4, "dropout": 0.0}}
    plain = entries(seen(**small)[0])
    sent = entries(seen(**small, defense=masked(1, perturbed=True), draws=200)[0]).view(len(plain), 200, -1)
    factors = (sent * plain[:, None]).sum(2) / plain.square().sum(1)[:, None]
    assert float(factors.mean()) == pytest.approx(1, abs=0.05)
    assert float(factors.var()) == pytest.approx(1 / 3, abs=0.03)


@pytest.mark.parametrize("perturbed", [False, True])
def test_the_first_layer_gives_all_clients_images_back_whatever_their_rates(seen, perturbed):
    """A hidden rate belongs to its client's rows of the unknown factor, so the sum is one batch to the algebra."""
    fields = {"batch_size": 3, "images": {"count": 12, "seed": 1}, "kind": "delta"}
    model = {"name": "mlp", "hidden": 128, "dropout": 0.0}
    observation, knowledge, truth = seen(model=model, defense=masked(3, perturbed), **fields)
    found = ExactBatch().reconstruct(Case(observation, knowledge, Budget(1, 1), partial(stream, 0)))
    pairs = zip(truth.images, found.images, strict=True)
    nearest = [torch.cdist(own.flatten(1), mine.flatten(1)).min(1) for own, mine in pairs]
    certified = [place for place, start in enumerate(found.starts) if start.stopped == "matched"]
    assert len(certified) >= 3
    assert max(float(nearest[place].values.max()) for place in certified) < 1e-6
    assert all(len(set(nearest[place].indices.tolist())) == 3 for place in certified)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"defense": masked(3, perturbed=True)}, "8 samples do not go to 3 clients in equal parts"),
        ({"defense": masked(2, perturbed=False), "local_steps": 2}, "set local_steps: 1"),
    ],
)
def test_what_is_no_sum_is_refused(seen, changes, said):
    with pytest.raises(UserError, match=said):
        seen(**changes)
