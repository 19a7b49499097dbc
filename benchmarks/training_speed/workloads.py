"""What is trained, the same for every contestant; free of torch, because peers without torch read it too."""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from itertools import product

SEEDS = (1024, 1022, 1020)
RATES = (0.005, 0.01, 0.02)


@dataclass(frozen=True)
class Cell:
    """One run of federated averaging, as a user starts it.

    Attributes:
        seed: of the initial weights and of the order of batches.
        rates: one rate for all clients or one rate per client.
    """

    seed: int
    rates: tuple[float, ...]

    def rate(self, client: int) -> float:
        """Return a client's learning rate."""
        return self.rates[client] if len(self.rates) > 1 else self.rates[0]


@dataclass(frozen=True)
class Workload:
    """A sweep over cells (seeds x settings) of one model on made-up images: the cost does not depend on pixels.

    Attributes:
        name: key on the command line.
        title: heading in the report.
        model: plug-in of ``models/``.
        image_shape: (channels, height, width).
        clients: clients with data.
        participants: clients that train in a round.
        samples: images of every client.
        local_steps: optimiser steps of a participant in a round.
        batch_size: images of a step.
        momentum: of SGD.
        weight_decay: of SGD.
        seeds: of the sweep.
        settings: of the sweep; a setting has one rate for all clients or one rate per client.
        rounds: measured rounds of every cell; the warm-up comes before them.
        quick_rounds: the same under ``--quick``.
        with_peers: whether the peers take part.
    """

    name: str
    title: str
    model: str
    image_shape: tuple[int, int, int]
    clients: int
    participants: int
    samples: int
    local_steps: int
    batch_size: int
    momentum: float
    weight_decay: float
    seeds: tuple[int, ...]
    settings: tuple[tuple[float, ...], ...]
    rounds: int
    quick_rounds: int
    with_peers: bool = True

    @property
    def cells(self) -> list[Cell]:
        """All runs of the sweep."""
        return [Cell(seed, rates) for seed, rates in product(self.seeds, self.settings)]

    @property
    def steps(self) -> int:
        """Optimiser steps of all clients that a contestant has to do after its warm-up."""
        return len(self.seeds) * len(self.settings) * self.rounds * self.participants * self.local_steps

    def quick(self) -> "Workload":
        """Return the same work with fewer rounds."""
        return replace(self, rounds=self.quick_rounds)

    def to_json(self) -> str:
        """Return the text that a worker gets."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> "Workload":
        """Read what ``to_json`` wrote."""
        fields = json.loads(text)
        settings = tuple(tuple(rates) for rates in fields["settings"])
        lists = {"image_shape": tuple(fields["image_shape"]), "seeds": tuple(fields["seeds"]), "settings": settings}
        return cls(**fields | lists)


def _table1(key: str, title: str, model: str, rounds: Sequence[int]) -> list[Workload]:
    """Return LRP table 1's training of one model, as one cell and as its whole sweep.

    Args:
        key: part of the names.
        title: the model in words.
        model: plug-in.
        rounds: measured rounds of the cell, the same when quick, of the sweep, the same when quick.
    """
    cell_rounds, quick_cell_rounds, sweep_rounds, quick_sweep_rounds = rounds
    cell = Workload(
        name=f"w1-{key}-cell",
        title=f"W1 {title}, one cell",
        model=model,
        image_shape=(1, 28, 28),
        clients=2,
        participants=2,
        samples=800,
        local_steps=25,
        batch_size=32,
        momentum=0.0,
        weight_decay=1e-4,
        seeds=SEEDS[:1],
        settings=((0.01, 0.01),),
        rounds=cell_rounds,
        quick_rounds=quick_cell_rounds,
    )
    sweep = replace(
        cell,
        name=f"w1-{key}-sweep",
        title=f"W1 {title}, sweep of 27 cells",
        seeds=SEEDS,
        settings=tuple(product(RATES, RATES)),
        rounds=sweep_rounds,
        quick_rounds=quick_sweep_rounds,
    )
    return [cell, sweep]


WORKLOADS = (
    *_table1("lr", "logistic regression", "logistic-regression", (100, 40, 12, 2)),
    *_table1("mlp", "MLP 784-64-10", "mlp", (100, 40, 12, 2)),
    *_table1("cnn", "CNN 10/20/50", "cnn-small", (20, 8, 3, 1)),
    Workload(
        name="w2",
        title="W2 CNN 32/64/512, 10 of 100 clients",
        model="cnn-mnist",
        image_shape=(1, 28, 28),
        clients=100,
        participants=10,
        samples=600,
        local_steps=50,
        batch_size=32,
        momentum=0.5,
        weight_decay=1e-4,
        seeds=SEEDS[:1],
        settings=((0.01,),),
        rounds=2,
        quick_rounds=1,
    ),
    Workload(
        name="w3",
        title="W3 ResNet-18 with CIFAR stem",
        model="resnet-18",
        image_shape=(3, 32, 32),
        clients=1,
        participants=1,
        samples=200,
        local_steps=5,
        batch_size=40,
        momentum=0.5,
        weight_decay=1e-4,
        seeds=SEEDS[:1],
        settings=((0.01,),),
        rounds=2,
        quick_rounds=1,
        with_peers=False,
    ),
)
QUICK = ("w1-mlp-cell", "w1-mlp-sweep", "w1-cnn-sweep")
