"""A small federation on made-up images, and a plain sequential trainer as the oracle of the stacked engine."""

from dataclasses import replace
from functools import partial

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from leaklab.data.dataset import Dataset
from leaklab.federated.algorithms.fedavg import FedAvg
from leaklab.federated.batches import Visit
from leaklab.federated.forms.stacked import dropout_sites
from leaklab.records import plugins
from leaklab.records.streams import stream
from leaklab.specs.training import TrainSpec

SIDE = 16  # the smallest square that the small CNN accepts


# tiny tensors: threads would only wait for each other
torch.set_num_threads(1)


@pytest.fixture
def dataset():
    def images(name, n, labels):
        # classes differ by brightness of a stripe, so that there is something to learn
        noise = stream(0, name).integers(0, 120, n, 1, SIDE, SIDE)
        for image, label in zip(noise, labels.tolist(), strict=True):
            image[0, 4 * label : 4 * label + 4] += 120
        return noise.to(torch.uint8)

    train_labels, test_labels = (stream(0, part, "labels").integers(0, 4, n) for part, n in (("a", 90), ("b", 24)))
    return Dataset(
        name="stripes",
        num_classes=4,
        train_images=images("a", 90, train_labels),
        train_labels=train_labels,
        test_images=images("b", 24, test_labels),
        test_labels=test_labels,
        mean=torch.tensor([0.3]),
        std=torch.tensor([0.25]),
    )


@pytest.fixture
def clients():
    """Three clients of unequal size; the last one has fewer samples than a batch."""
    order = stream(0, "deal").permutation(90)
    return [order[:40], order[40:61], order[61:68]]


@pytest.fixture
def spec():
    return TrainSpec(
        dataset="stripes",
        partition="two-clients",
        model="mlp",
        rates=((0.05,), (0.1, 0.02, 0.05)),
        rounds=3,
        local_steps=4,
        batch_size=10,
        weight_decay=1e-2,
        seeds=(5, 6),
        evaluate_every=1,
        dtype="float64",
    )


class SequentialTrainer:
    """One nn.Module and one torch.optim.SGD at a time, on the same batch, dropout and rate streams."""

    def __init__(self, spec, dataset, clients, optimizer=None):
        self.spec, self.dataset, self.clients = spec, dataset, clients
        self.optimizer = optimizer or partial(torch.optim.SGD, momentum=spec.optimizer.settings.get("momentum", 0.0))
        self.images = dataset.normalised(dataset.train_images, torch.float64)
        self.model = plugins.load("models", spec.model.name, spec.model.settings)

    def weights(self, seed, rates, rate_of=None):
        """Return the final global weights of one replicate; ``rate_of(visit, mean)`` yields a step's rate."""
        spec = self.spec
        sizes = [len(client) for client in self.clients]
        factors = FedAvg(scheme=int(spec.algorithm[-1])).rate_factors(sizes)
        network = self.network(seed)
        shares = [1 / len(sizes)] * len(sizes) if spec.algorithm == "scheme1" else [n / sum(sizes) for n in sizes]
        for index in range(spec.rounds):
            start = {name: value.clone() for name, value in network.state_dict().items()}
            average = {name: torch.zeros_like(value) for name, value in start.items()}
            for k, client in enumerate(self.clients):
                network.load_state_dict(start)
                visit = Visit(seed, k, index, client)
                self.local(network, visit, factors[k] * rates[k % len(rates)], rate_of)
                for name, value in network.state_dict().items():
                    average[name] += shares[k] * value
            network.load_state_dict(average)
        return network.state_dict()

    def network(self, seed):
        return self.model.initialised(self.dataset.shape, self.dataset.num_classes, seed, torch.float64)

    def local(self, network, visit, mean, rate_of):
        spec = self.spec
        sites = dropout_sites(network, self.dataset.shape)
        keep = {n: visit.dropout_mask(n, site, spec.local_steps, spec.batch_size) for n, site in sites.items()}
        draws = rate_of(visit, mean) if rate_of else None
        optimizer = self.optimizer(network.parameters(), lr=mean, weight_decay=spec.weight_decay)
        for step, batch in enumerate(visit.batch_indices(spec.local_steps, spec.batch_size)):
            if draws:
                optimizer.param_groups[0]["lr"] = next(draws)
            values = self.images[batch]
            for name, layer in network.named_children():
                dropped = isinstance(layer, nn.Dropout)
                values = values * keep[name][step] / (1 - layer.p) if dropped else layer(values)
            optimizer.zero_grad()
            F.cross_entropy(values, self.dataset.train_labels[batch]).backward()
            optimizer.step()


@pytest.fixture
def sequential(dataset, clients):
    return lambda spec, optimizer=None: SequentialTrainer(spec, dataset, clients, optimizer)


@pytest.fixture
def changed():
    """Return a function that replaces fields of a dataset."""
    return replace
