"""Soteria changes the columns that its mask names, in every step and for every client by itself."""

from functools import partial

import pytest
import torch
from torch.nn import functional as F

from leaklab.defenses.base import Alone, ClientContext
from leaklab.defenses.soteria import Soteria, soteria_mask
from leaklab.federated.batches import Batch
from leaklab.federated.forms.network import trainable
from leaklab.federated.local import local_training
from leaklab.models.cnns import DLGLeNet
from leaklab.models.resnets import SmallResNet
from leaklab.records.errors import UserError
from leaklab.records.streams import stream

SHAPE, CLASSES, CLIENTS = (1, 8, 8), 5, 3
MODELS = {"dlg-lenet": DLGLeNet(), "resnet-small": SmallResNet(width=4)}


@pytest.fixture(params=MODELS)
def model(request):
    return MODELS[request.param]


@pytest.fixture
def batch():
    draws = stream(0, "samples")
    return Batch(draws.normal(CLIENTS, 2, *SHAPE), draws.integers(0, CLASSES, CLIENTS, 2), {})


def trained(model, batch, defense):
    network = model.initialised(SHAPE, CLASSES, 1, torch.float64)
    state = {name: value.detach().expand(CLIENTS, *value.shape) for name, value in network.state_dict().items()}
    contexts = [ClientContext(1.0, seed=0, client=client) for client in range(CLIENTS)]
    form = trainable(network, SHAPE, training=False)
    return local_training(form, state, [batch], contexts, defense, build=partial(model.build, SHAPE, CLASSES)).weights


@pytest.mark.parametrize("pruned", [0.2, 0.5, 0.8])
def test_the_pruned_columns_of_the_head_do_not_move_and_without_it_they_would(model, batch, pruned):
    before = model.initialised(SHAPE, CLASSES, 1, torch.float64).eval()
    after = trained(model, batch, Soteria(pruned))
    for client in range(CLIENTS):
        mask = soteria_mask(before, batch.images[client], "fc", pruned)
        own = model.initialised(SHAPE, CLASSES, 1, torch.float64).eval()
        F.cross_entropy(own(batch.images[client]), batch.labels[client]).backward()
        for name, parameter in own.named_parameters():
            moved = parameter.detach() - after[name][client]
            expected = parameter.grad.masked_fill(mask, 0.0) if name == "fc.weight" else parameter.grad
            torch.testing.assert_close(moved, expected, rtol=0, atol=1e-10)
        assert 0 < int(mask.sum()) < mask.numel()
        lost = own.get_parameter("fc.weight").grad.masked_select(mask)
        assert float(lost.abs().max()) > 1e-6


def test_wrong_use_is_refused(context, batch):
    network = MODELS["dlg-lenet"].initialised(SHAPE, CLASSES, 1)
    gradients = {name: torch.zeros_like(value) for name, value in network.named_parameters()}
    client = {"images": batch.images[0].float(), "labels": batch.labels[0]}
    here = context.at(Alone(0, dict(network.state_dict()), client, partial(MODELS["dlg-lenet"].build, SHAPE, CLASSES)))
    with pytest.raises(UserError, match="no affine layer 'conv1'"):
        Soteria(0.5, layer="conv1").gradient(gradients, here)
    with pytest.raises(UserError, match="looks into the network"):
        Soteria(0.5).gradient(gradients, context.at(Alone(0, dict(network.state_dict()), client)))
    with pytest.raises(UserError, match="pruned must be a number above 0"):
        Soteria(0.0)
