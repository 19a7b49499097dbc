"""HyperFL's procedure on a few clients with images of noise: what moves, what is averaged, what leaves.

Source: HyperFL equations 4 to 6 (C.4-C.6). Everything is read off the code that trains everywhere else, in float64.
"""

from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.func import functional_call

from leaklab.attacks.first_layer import quotient
from leaklab.attacks.first_layer.layer import FirstLayer
from leaklab.attacks.private_parts.hypernetwork import Heads
from leaklab.attacks.private_parts.hypernetwork import hidden_units as read_units
from leaklab.data.dataset import Dataset
from leaklab.defenses.base import ClientContext, Defense
from leaklab.federated.algorithms.base import Tensors
from leaklab.federated.algorithms.hyperfl import EMBEDDING, HyperFL
from leaklab.federated.batches import Batch, Visit, batch_stream
from leaklab.federated.checkpoint import Sweep
from leaklab.federated.client_work import ClientWork
from leaklab.federated.engine import train
from leaklab.federated.forms.network import trainable
from leaklab.federated.optimizers import Sgd
from leaklab.federated.population import sampled_clients
from leaklab.models.base import Architecture, Shape
from leaklab.models.hypernetwork import BIAS, HEADS, HIDDEN, WEIGHT, generated_names, hidden_units, is_hypernetwork
from leaklab.records import plugins
from leaklab.records.bounds import Count
from leaklab.records.streams import stream
from leaklab.specs.training import OWN_TEST, TrainSpec
from leaklab.theory.base import Clients, Number, Track
from leaklab.theory.times import dealt_in_order, noise_dataset

RATE, MOMENTUM, DECAY, BATCH, TESTS = 0.02, 0.5, 5e-4, 10, 10
SIZES = (40, 30, 20)
"""Samples of the clients: unequal, so that a plain mean is not the weighted one."""
PARTS = ("classifier", "hypernetwork", "embedding")


@dataclass(frozen=True)
class HyperFLProcedure:
    """Rounds of three clients, of whom all or all but one take part.

    Attributes:
        model: the network.
        channels: of the images.
        side: their height and width.
        classes: of the labels.
        embedding: length of the embeddings.
        hidden: units of the hypernetwork.
        classifier_steps: of the first phase.
        local_steps: of the second.
    """

    model: str = "cnn-leaky"
    channels: Count = 1
    side: Count = 28
    classes: Count = 10
    embedding: Count = 64
    hidden: Count = 128
    classifier_steps: Count = 3
    local_steps: Count = 4

    def run(self, seed: int, clients: Clients | None, track: Track) -> Iterable[Number]:
        """Return the numbers; the deal is not looked at.

        ``<phase>_phase_changes_<part>``: the largest change, 0 where the part rests, and more where it moves.
        ``mean_error``: of the new hypernetwork against the clients' own, weighed by samples. ``sat_out_change``: of
        what a client keeps that did not take part. ``generated_gradient_error``: of autograd through the generated
        weights against the written-out products. ``low_rank_error``: of the fast form after a round. Errors are
        Euclidean and relative. ``uploaded_tensors``, ``uploaded_others`` (not the hypernetwork's, or equal to
        something private) and ``uploaded_megabytes`` in float32, beside ``network_megabytes``, which FedAvg sends.
        ``head_attack_gradient_error`` and ``head_attack_weights_error``: of the extractor's gradient and weights that
        the message of one plain step tells (``attacks/adaptive/hyperfl.py``). ``embedding_error`` and, after a
        whole second phase with momentum and decay, ``embedding_error_of_steps``: of the private embedding that the
        hypernetwork's first layer tells (``attacks/first_layer/quotient.py``).
        """
        case = _Case(self, seed)
        return [
            *case.moved(), *case.averaged(), *case.gradients(), *case.low_rank(), *case.uploaded(), *case.head_attack(),
            *case.embedding(),
        ]  # fmt: skip


@dataclass(frozen=True, eq=False)
class _Case:
    """The clients, the network and the algorithm of a check."""

    check: HyperFLProcedure
    seed: int
    algorithm: HyperFL = field(init=False)

    def __post_init__(self) -> None:
        own = self.check
        algorithm = HyperFL(embedding=own.embedding, hidden=own.hidden, classifier_steps=own.classifier_steps)
        object.__setattr__(self, "algorithm", algorithm)

    @cached_property
    def shape(self) -> Shape:
        return self.check.channels, self.check.side, self.check.side

    @cached_property
    def dataset(self) -> Dataset:
        return noise_dataset(self.seed, self.shape, self.check.classes, sum(SIZES), TESTS)

    @cached_property
    def first(self) -> Tensors:
        model: Architecture = plugins.load("models", self.check.model)
        return model.initialised(self.shape, self.check.classes, self.seed, torch.float64).state_dict()

    @cached_property
    def server(self) -> dict[str, Tensor]:
        return dict(self.algorithm.server_start(self.first, stream(self.seed, "server", "start")))

    def kept(self, client: int) -> dict[str, Tensor]:
        return dict(self.algorithm.client_start(self.first, stream(self.seed, "client", client, "start")))

    def worked(
        self, client: int, algorithm: HyperFL, local_steps: int, momentum: float = MOMENTUM, decay: float = DECAY
    ) -> dict[str, Tensor]:
        """Return a client's values after its round from the start."""
        model: Architecture = plugins.load("models", self.check.model)
        defense: Defense = plugins.load("defenses", "none")
        form = trainable(model.build(self.shape, self.check.classes), self.shape)
        work = ClientWork(algorithm, form, defense, Sgd(momentum), decay, local_steps)
        values = {name: value[None] for name, value in {**self.server, **self.kept(client)}.items()}
        context = ClientContext(RATE, self.seed, client)
        done = work.train(values, self.kept(client), self.batches(client, work.steps), [context], [1.0])
        return {name: value[0] for name, value in done.values.items()}

    def batches(self, client: int, steps: int) -> Iterator[Batch]:
        images = self.dataset.normalised(self.dataset.train_images, torch.float64)
        visit = Visit(self.seed, client, 0, dealt_in_order(SIZES)[client])
        return batch_stream(images, self.dataset.train_labels, [visit], {}, steps, BATCH)

    def swept(self, algorithm: HyperFL, taking_part: int) -> Sweep:
        """Return a training of one round."""
        spec = TrainSpec.model_validate({
            "dataset": "noise",
            "partition": {"name": "iid", "clients": len(SIZES), "tests": TESTS},
            "model": self.check.model,
            "algorithm": {"name": "hyperfl", **asdict(algorithm)},
            "rates": [[RATE]],
            "rounds": 1,
            "local_steps": self.check.local_steps,
            "batch_size": BATCH,
            "optimizer": {"name": "sgd", "momentum": MOMENTUM},
            "weight_decay": DECAY,
            "clients_per_round": taking_part,
            "seeds": [self.seed],
            "evaluate": [OWN_TEST],
            "dtype": "float64",
        })  # fmt: skip
        return train(spec, self.dataset, dealt_in_order(SIZES), tests=[torch.arange(TESTS)] * len(SIZES))

    def moved(self) -> Iterator[Number]:
        before = {**self.server, **self.kept(0)}
        # a phase without steps is left out
        phases = {
            "classifier": self.worked(0, self.algorithm, 0),
            "generator": self.worked(0, replace(self.algorithm, classifier_steps=0), self.check.local_steps),
        }
        for phase, after in phases.items():
            for part in PARTS:
                own = [name for name in before if _part(name) == part]
                change = max(float((after[name] - before[name]).abs().max()) for name in own)
                yield Number(f"{phase}_phase_changes_{part}", change)

    def averaged(self) -> Iterator[Number]:
        clients = [self.worked(client, self.algorithm, self.check.local_steps) for client in range(len(SIZES))]
        shares = [size / sum(SIZES) for size in SIZES]
        weighed = [{n: share * own[n] for n in self.server} for share, own in zip(shares, clients, strict=True)]
        wanted = {n: torch.stack([own[n] for own in weighed]).sum(0) for n in self.server}
        whole = {name: value[0] for name, value in self.swept(self.algorithm, len(SIZES)).weights.items()}
        yield Number("mean_error", _difference(whole, wanted))
        fewer = self.swept(self.algorithm, len(SIZES) - 1)
        (out,) = set(range(len(SIZES))) - set(sampled_clients(self.seed, 0, len(SIZES), len(SIZES) - 1))
        begun = self.kept(out)
        yield Number("sat_out_change", max(float((v[0, out] - begun[n]).abs().max()) for n, v in fewer.clients.items()))

    def gradients(self) -> Iterator[Number]:
        """Compare d l(h(v)) with g u^T, g and what follows from them, for random g in place of dl/dtheta."""
        values = {**self.server, EMBEDDING: self.kept(0)[EMBEDDING]}
        leaves = {name: value.clone().requires_grad_() for name, value in values.items()}
        draws = stream(self.seed, "derivatives")
        g = {name: draws.normal(*self.first[name].shape) for name in generated_names(self.server)}
        made = self.algorithm.generator(leaves, leaves[EMBEDDING])
        total = torch.stack([(g[name] * made[name]).sum() for name in g]).sum()
        found = dict(zip(leaves, torch.autograd.grad(total, list(leaves.values())), strict=True))
        yield Number("generated_gradient_error", _difference(found, explicit_gradients(values, EMBEDDING, g)))

    def low_rank(self) -> Iterator[Number]:
        fast, lifted = (self.swept(replace(self.algorithm, low_rank=on), len(SIZES)) for on in (True, False))
        yield Number("low_rank_error", _difference(fast.weights, lifted.weights))

    def uploaded(self) -> Iterator[Number]:
        after = self.worked(0, self.algorithm, self.check.local_steps)
        sent = self.algorithm.upload({**self.server, **self.kept(0)}, after)
        private = [*self.algorithm.network(after).values(), after[EMBEDDING]]
        others = [
            name
            for name, value in sent.items()
            if not is_hypernetwork(name) or any(value.shape == own.shape and torch.equal(value, own) for own in private)
        ]
        yield Number("uploaded_tensors", float(len(sent)))
        yield Number("uploaded_others", float(len(others)))
        yield Number("uploaded_megabytes", 4 * sum(value.numel() for value in sent.values()) / 1e6)
        yield Number("network_megabytes", 4 * sum(value.numel() for value in self.first.values()) / 1e6)

    def head_attack(self) -> Iterator[Number]:
        """Compare what the message of one plain step tells with the extractor that the client had."""
        plain = replace(self.algorithm, classifier_steps=0, bound=None)
        after, order = self.worked(0, plain, 1, momentum=0.0, decay=0.0), list(self.first)
        change = {name: (value - after[name]) / RATE for name, value in self.server.items()}
        sent, gradient = (Heads.of(tensors, order, "hyperfl-procedure") for tensors in (self.server, change))
        made = self.algorithm.network({**self.server, **self.kept(0)})
        leaves = {name: value.detach().requires_grad_() for name, value in made.items()}
        batch = next(self.batches(0, 1))
        model: Architecture = plugins.load("models", self.check.model)
        logits = functional_call(model.build(self.shape, self.check.classes), leaves, (batch.images[0],))
        loss = F.cross_entropy(logits, batch.labels[0])
        slopes = dict(zip(sent.shapes, torch.autograd.grad(loss, [leaves[name] for name in sent.shapes]), strict=True))
        yield Number("head_attack_gradient_error", _difference(sent.apart(gradient.c), slopes))
        weights = sent.apart(sent.generated(read_units(gradient)))
        yield Number("head_attack_weights_error", _difference(weights, {name: made[name] for name in sent.shapes}))

    def embedding(self) -> Iterator[Number]:
        """Compare the embedding before the round with the quotient of the change of the hypernetwork's first layer.

        Whatever the batch, the embedding is the one sample of this layer.
        """
        plain = replace(self.algorithm, classifier_steps=0, bound=None)
        rounds = {
            "embedding_error": self.worked(0, plain, 1, momentum=0.0, decay=0.0),
            "embedding_error_of_steps": self.worked(0, plain, self.check.local_steps),
        }
        wanted = self.kept(0)[EMBEDDING]
        for name, after in rounds.items():
            weight, bias = (self.server[HIDDEN + part] for part in (WEIGHT, BIAS))
            moved = [(own - after[HIDDEN + part]).numpy() for own, part in ((weight, WEIGHT), (bias, BIAS))]
            found = quotient.least_squares(FirstLayer(moved[0], moved[1], weight.numpy(), bias.numpy()))
            yield Number(name, _difference({EMBEDDING: torch.from_numpy(found)}, {EMBEDDING: wanted}))


def explicit_gradients(values: Tensors, embedding: str, g: Tensors) -> dict[str, Tensor]:
    """Return the gradients by hypernetwork and embedding as products.

    dA = g u^T, dc = g, dl/du = A^T g, db = dl/du where u > 0, dW = db v^T, dv = W^T db.

    Args:
        values: of hypernetwork and embedding.
        embedding: its name.
        g: derivatives of the loss by the generated tensors.
    """
    weight, v = values[HIDDEN + WEIGHT], values[embedding]
    u = hidden_units(weight, values[HIDDEN + BIAS], v)
    at_u = torch.zeros_like(u)
    found = {}
    for name, slope in g.items():
        found[HEADS + name + WEIGHT] = slope[..., None] * u
        found[HEADS + name + BIAS] = slope
        at_u += values[HEADS + name + WEIGHT].flatten(0, -2).T @ slope.flatten()
    at_b = at_u * (u > 0)
    return found | {HIDDEN + WEIGHT: torch.outer(at_b, v), HIDDEN + BIAS: at_b, embedding: weight.T @ at_b}


def _part(name: str) -> str:
    if is_hypernetwork(name):
        return "hypernetwork"
    return "embedding" if name == EMBEDDING else "classifier"


def _difference(found: Tensors, wanted: Tensors) -> float:
    """Return the largest Euclidean difference of a tensor, relative to its length."""
    return max(float((found[n] - w).norm() / w.norm().clamp_min(torch.finfo(w.dtype).tiny)) for n, w in wanted.items())


PLUGIN = HyperFLProcedure
