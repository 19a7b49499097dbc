"""What is noted of local training, against loops over single modules; notes leave no trace in the training."""

from statistics import mean

import pytest
import torch
import torch.nn.functional as F
from torch.testing import assert_close

from leaklab.federated.batches import Visit
from leaklab.federated.engine import train
from leaklab.records import plugins

BOTH = ["local-loss", "extractor-change"]
TESTS = [torch.arange(4)] * 3


@pytest.fixture
def watched(spec):
    def varied(**changes):
        base = {
            "model": {"name": "mlp", "dropout": 0.0},
            "algorithm": "scheme2",
            "seeds": [5],
            "rates": [[0.05], [0.1]],
        }
        return type(spec).model_validate(spec.model_dump() | base | {"watch": BOTH} | changes)

    return varied


def noted(spec, dataset, clients, rate):
    """Return losses and changes, round by round, of federated averaging weighed by samples."""
    images, seed = dataset.normalised(dataset.train_images, torch.float64), spec.seeds[0]
    net = plugins.load("models", "mlp", {"dropout": 0.0}).initialised(dataset.shape, 4, seed, torch.float64)
    extractor = torch.cat([value.flatten() for name, value in net.state_dict().items() if not name.startswith("fc2.")])
    losses, changes = [], []
    for index in range(spec.rounds):
        start = {name: value.clone() for name, value in net.state_dict().items()}
        total, of_clients = dict.fromkeys(start, 0), []
        for k, held in enumerate(clients):
            net.load_state_dict(start)
            optimizer = torch.optim.SGD(net.parameters(), lr=rate, weight_decay=spec.weight_decay)
            own = []
            for batch in Visit(seed, k, index, held).batch_indices(spec.local_steps, spec.batch_size):
                optimizer.zero_grad()
                loss = F.cross_entropy(net(images[batch]), dataset.train_labels[batch])
                loss.backward()
                optimizer.step()
                own.append(float(loss.detach()))
            epoch = max(1, len(held) // spec.batch_size)
            of_clients.append(mean(own[-epoch:]))
            state = {name: value.clone() for name, value in net.state_dict().items()}
            for name, value in state.items():
                total[name] = total[name] + len(held) / sum(map(len, clients)) * value
            if k == 0:
                new = torch.cat([value.flatten() for name, value in state.items() if not name.startswith("fc2.")])
                changes.append(float((new - extractor).norm()))
                extractor = new
        net.load_state_dict(total)
        losses.append(mean(of_clients))
    return losses, changes


def test_losses_and_changes_are_those_of_a_loop(watched, dataset, clients):
    spec = watched()
    table = train(spec, dataset, clients).table
    for setting, (rate,) in enumerate(spec.rates):
        own = table[table["replicate"] == setting]
        losses, changes = noted(spec, dataset, clients, rate)
        assert own["local_loss"].tolist() == pytest.approx(losses, rel=1e-10)
        assert own["extractor_change"].tolist() == pytest.approx(changes, rel=1e-10)


def test_notes_change_nothing_else_and_rounds_between_tests_are_followed_too(watched, dataset, clients):
    often, rarely = (train(watched(evaluate_every=every), dataset, clients) for every in (1, 0))
    without = train(watched(watch=[]), dataset, clients)
    assert_close(often.weights, without.weights, rtol=0, atol=0)
    assert without.table.equals(often.table.drop(columns=["local_loss", "extractor_change"]))
    last = often.table[often.table["round"] == 3]
    assert rarely.table["extractor_change"].tolist() == last["extractor_change"].tolist()


def test_the_generated_extractor_is_followed(watched, dataset, clients):
    algorithm = {"name": "hyperfl", "embedding": 4, "hidden": 5, "classifier_steps": 2}
    changes = {"algorithm": algorithm, "partition": {"name": "two-clients", "tests": 4}, "evaluate": ["own-test"],
               "rates": [[0.05]]}  # fmt: skip
    # the server of a single client holds what this client sent
    sweeps = [train(watched(until=n, **changes), dataset, clients[:1], tests=TESTS[:1]) for n in (1, 2)]
    generator = plugins.load("federated/algorithms", "hyperfl", {k: v for k, v in algorithm.items() if k != "name"})
    found = [
        generator.network({n: v[0] for n, v in s.weights.items()} | {n: v[0, 0] for n, v in s.clients.items()})
        for s in sweeps
    ]
    first, second = (torch.cat([f[n].flatten() for n in sorted(f) if not n.startswith("fc2.")]) for f in found)
    assert sweeps[1].table["extractor_change"].tolist()[-1] == pytest.approx(float((second - first).norm()), rel=1e-10)


def test_an_interrupted_training_notes_the_same(watched, dataset, clients, tmp_path):
    path = tmp_path / "checkpoint.safetensors"

    def stopping(rounds, total, label):
        for index in rounds:
            if index == 2:
                raise KeyboardInterrupt
            yield index

    with pytest.raises(KeyboardInterrupt):
        train(watched(), dataset, clients, checkpoint=path, checkpoint_seconds=0, track=stopping)
    resumed = train(watched(), dataset, clients, checkpoint=path, checkpoint_seconds=3600)
    assert resumed.table.equals(train(watched(), dataset, clients).table)


def test_what_cannot_be_watched_is_refused(watched):
    with pytest.raises(ValueError, match="leave clients_per_round out"):
        watched(clients_per_round=2)
    with pytest.raises(ValueError, match="watch: local training belongs to a round"):
        watched(until=0)
    with pytest.raises(ValueError, match="stands here twice"):
        watched(watch=["local-loss", "local-loss"])
