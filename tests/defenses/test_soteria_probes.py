"""Probed Soteria: an exact identity of the estimate, the share of the exact mask that it finds, and what it zeroes."""

from dataclasses import replace
from functools import partial
from math import sqrt

import pytest
import torch
from torch import nn

from leaklab.defenses.base import Alone, ClientContext
from leaklab.defenses.soteria import sensitivity_ratios, soteria_mask
from leaklab.defenses.soteria_probes import SoteriaProbes, probed_ratios, random_signs
from leaklab.federated.batches import Batch
from leaklab.federated.forms.network import trainable
from leaklab.federated.local import local_training
from leaklab.models.affine import MultilayerPerceptron
from leaklab.models.cnns import DLGLeNet
from leaklab.models.resnets import SmallResNet
from leaklab.records import plugins
from leaklab.records.errors import UserError
from leaklab.records.streams import stream

SHAPE, CLASSES = (1, 8, 8), 5
MODELS = {
    "dlg-lenet": (DLGLeNet(), "fc"),
    "mlp": (MultilayerPerceptron(hidden=20), "fc2"),
    "resnet": (SmallResNet(width=4), "fc"),
}


@pytest.fixture(params=MODELS)
def victim(request):
    model, layer = MODELS[request.param]
    network = model.initialised(SHAPE, CLASSES, 3, torch.float64).eval()
    names = [name for name, _ in network.named_children()]
    return network, network[: names.index(layer)], layer


@pytest.mark.parametrize("probes", [1, 4])
def test_the_estimate_is_the_exact_ratio_along_the_probes(victim, probes):
    """In the coordinates of the probes, t -> r(x + V t), the Jacobian's rows are what the probes see of the lengths."""
    _, features_of, _ = victim
    images = stream(0, "images").normal(3, *SHAPE)
    tangents = random_signs(stream(7, "probes"), probes, *images.shape)

    def along(coordinates):
        return features_of(images + torch.einsum("bk,kbchw->bchw", coordinates.flatten(1), tangents.double()))

    exact = sensitivity_ratios(along, torch.zeros(3, probes, 1, 1, dtype=torch.float64))
    found = probed_ratios(features_of, images, probes, stream(7, "probes"))
    torch.testing.assert_close(found, exact / sqrt(probes), rtol=1e-10, atol=1e-12)


def test_many_probes_come_to_the_exact_ratios(victim):
    _, features_of, _ = victim
    images = stream(0, "images").normal(2, *SHAPE)
    found = probed_ratios(features_of, images, 4000, stream(1, "probes"))
    torch.testing.assert_close(found, sensitivity_ratios(features_of, images), rtol=0.1, atol=0)


def test_features_of_both_signs_count_by_their_size():
    """Of an affine layer feature i has the slope W_i, so that q_i is the sum over the batch of |W_i| / |r_i|."""
    front = nn.Sequential(nn.Flatten(), nn.Linear(64, 6)).double()
    weight, images = stream(2, "weight").normal(6, 64), stream(0, "images").normal(3, *SHAPE)
    front.load_state_dict({"1.weight": weight, "1.bias": torch.zeros(6, dtype=torch.float64)})
    features = images.flatten(1) @ weight.T
    assert bool((features < 0).any(1).all())
    expected = (weight.norm(dim=1) / features.abs()).sum(0)
    torch.testing.assert_close(sensitivity_ratios(front, images), expected)
    torch.testing.assert_close(probed_ratios(front, images, 4000, stream(1, "probes")), expected, rtol=0.1, atol=0)


def test_four_probes_choose_most_of_the_exact_half():
    """The LeNet of the OUTPOST paper with its 588 features, on batches of 32: 92 % were measured for four probes."""
    network = DLGLeNet().initialised((1, 28, 28), 10, 0).eval()
    shares = []
    for seed in range(3):
        images = stream(seed, "images").uniform(32, 1, 28, 28).float()
        exact = soteria_mask(network, images, "fc", 0.5)
        ratios = probed_ratios(network[:-1], images, 4, stream(seed, "probes"))
        chosen = ratios.argsort()[: len(ratios) // 2]
        shares.append(float(exact[chosen].double().mean()))
    assert min(shares) > 0.85
    assert max(shares) < 1


def test_dead_features_rank_last():
    network = MultilayerPerceptron(hidden=20).initialised(SHAPE, CLASSES, 3, torch.float64).eval()
    dead = torch.tensor([0, 3, 4, 11, 19])
    network.fc1.bias.data[dead] = -1e3
    ratios = probed_ratios(network[:-1], stream(1, "images").normal(2, *SHAPE), 4, stream(0, "probes"))
    assert ratios[dead].isinf().all()
    assert not ratios.isnan().any()


def test_signs_are_independent_and_even():
    signs = random_signs(stream(0, "signs"), 3, 8, 50_001).double()
    assert signs.shape == (3, 8, 50_001)
    assert set(signs.unique().tolist()) == {-1, 1}
    # a sum of n signs has the deviation sqrt(n); each of the 64 places of a word is looked at on its own
    places = signs.flatten()[: 64 * 18_750].view(-1, 64)
    assert float(places.mean(0).abs().max()) < 4 / sqrt(len(places))
    together = (places.T @ places / len(places)).fill_diagonal_(0)
    assert float(together.abs().max()) < 5 / sqrt(len(places))
    assert float((places[1:] * places[:-1]).mean(0).abs().max()) < 4 / sqrt(len(places))


CLIENTS = 7


def trained(chunk, pruned=0.5):
    """Return the head's weights of seven clients after two steps, ``chunk`` of them trained together."""
    model = DLGLeNet(n_conv=3)
    network = model.initialised(SHAPE, CLASSES, 1, torch.float64)
    draws = stream(0, "samples")
    images, labels = draws.normal(CLIENTS, 2, *SHAPE), draws.integers(0, CLASSES, CLIENTS, 2)
    found = []
    for first in range(0, CLIENTS, chunk):
        who = range(first, min(first + chunk, CLIENTS))
        state = {name: value.detach().expand(len(who), *value.shape) for name, value in network.state_dict().items()}
        batch = Batch(images[who.start : who.stop], labels[who.start : who.stop], {})
        contexts = [ClientContext(0.5, seed=0, client=client) for client in who]
        form, build = trainable(model.build(SHAPE, CLASSES).double(), SHAPE), partial(model.build, SHAPE, CLASSES)
        done = local_training(form, state, [batch] * 2, contexts, SoteriaProbes(pruned), build=build)
        found.append(done.weights["fc.weight"])
    return torch.cat(found), network.get_parameter("fc.weight").detach()


def test_lifted_clients_are_what_each_is_alone_and_the_pruned_columns_rest():
    (alone, before), (together, _) = trained(1), trained(CLIENTS)
    torch.testing.assert_close(together, alone, rtol=1e-12, atol=1e-13)
    for client in alone:
        still = (client == before).all(0)
        # two steps may prune different columns; those that rest were pruned in both
        assert 0 < int(still.sum()) <= before.shape[1] // 2


def test_the_share_of_the_columns_is_zero_and_the_rest_untouched(context, victim):
    network, _, layer = victim
    batch = {"images": stream(0, "images").normal(2, *SHAPE), "labels": torch.tensor([0, 1])}
    gradients = {name: torch.ones_like(value) for name, value in network.named_parameters()}
    here = replace(context, _streams={}).at(Alone(0, dict(network.state_dict()), batch, lambda: network))
    found = SoteriaProbes(0.5).gradient(gradients, here)
    name = f"{layer}.weight"
    assert int((found[name] == 0).all(0).sum()) == gradients[name].shape[1] // 2
    assert int((found[name] == 1).all(0).sum()) == gradients[name].shape[1] - gradients[name].shape[1] // 2
    assert all(torch.equal(found[key], value) for key, value in gradients.items() if key != name)
    assert bool((gradients[name] == 1).all())


@pytest.mark.parametrize(
    ("settings", "message"), [({"pruned": 1.0}, "pruned"), ({"pruned": 0.0}, "pruned"), ({"probes": 0}, "probes")]
)
def test_settings_out_of_range_are_refused_with_a_plan_and_without(settings, message):
    with pytest.raises(UserError, match=message):
        plugins.check("defenses", "soteria-probes", settings)
    with pytest.raises(UserError, match=f"defense soteria-probes: {message}"):
        SoteriaProbes(**settings)


def test_wrong_use_is_refused(context):
    model, batch = MODELS["mlp"][0], {"images": torch.zeros(1, *SHAPE), "labels": torch.zeros(1)}
    state = dict(model.initialised(SHAPE, CLASSES, 1).state_dict())
    with pytest.raises(UserError, match="looks into the network"):
        SoteriaProbes().gradient({}, context.at(Alone(0, state, batch)))
    with pytest.raises(UserError, match="of 20 features is none: raise pruned"):
        SoteriaProbes(0.01).gradient({}, context.at(Alone(0, state, batch, partial(model.build, SHAPE, CLASSES))))
    with pytest.raises(UserError, match="defense soteria-probes: the network has no affine layer"):
        SoteriaProbes().gradient({}, ClientContext(1.0, 0, 0).at(Alone(0, {"w": torch.zeros(1)}, batch, Unlayered)))


class Unlayered(nn.Sequential):
    """A network without an affine layer; its only value is ``w``."""

    def __init__(self):
        super().__init__(nn.Flatten())
        self.register_buffer("w", torch.zeros(1))
