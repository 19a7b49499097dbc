"""A Flower training whose rounds are timed, recorded and not: ``python app.py SIZE FOLDER STEPS PAIRS``.

A program of its own, as Ray's workers get by value what a program defines. A clock outside of the recorder and one
inside of it tell for how long each reply waits for the recorder; what it does behind a reply, only the rounds tell:
blocks of rounds are recorded, and blocks between them are not.
"""

import sys
import time
from itertools import pairwise
from pathlib import Path

import torch
from flwr.app import ArrayRecord, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import ServerApp
from flwr.serverapp.strategy import FedAvg
from flwr.simulation import run_simulation
from torch import nn
from torch.nn import functional as F

import leaklab

CLIENTS, BATCH = 2, 32
WARM, BLOCK = 2, 6
"""Rounds in which workers start; rounds of a block."""
WIDTHS = {"5e4": (784, 64), "1e6": (784, 1000, 200), "1.1e7": (3072, 3000, 600)}
CLASSES = 10


def network(size):
    """Return a multilayer perceptron of about so many parameters."""
    widths = (*WIDTHS[size], CLASSES)
    layers = []
    for number, (inner, outer) in enumerate(pairwise(widths)):
        layers += [*([nn.ReLU()] if number else []), nn.Linear(inner, outer)]
    return nn.Sequential(*layers)


def is_recorded(number):
    """Return whether a round, counted from 0, belongs to a block that is recorded."""
    return number >= WARM and (number - WARM) // BLOCK % 2 == 0


class Clock:
    """Two mods, one around the recorder and one inside of it; the outer one writes how long a reply waited."""

    def __init__(self, path):
        self.path, self.inside = path, 0.0

    def inner(self, message, context, call_next):
        """Time the app alone."""
        start = time.perf_counter()
        reply = call_next(message, context)
        self.inside = time.perf_counter() - start
        return reply

    def outer(self, message, context, call_next):
        """Time the recorder and the app, and add a line of seconds to the file."""
        start = time.perf_counter()
        reply = call_next(message, context)
        own = time.perf_counter() - start - self.inside
        with Path(self.path).open("a", encoding="utf-8") as file:
            file.write(f"{own}\n")
        return reply


def sides(size, folder, steps, pairs):
    """Return the client's and the server's app."""
    clock = Clock(f"{folder}/recorder")
    recorder = leaklab.flower.record(f"{folder}/leaves", limit=None)

    def in_blocks(message, context, call_next):
        number = message.content["config"]["server-round"] - 1
        return recorder(message, context, call_next) if is_recorded(number) else call_next(message, context)

    client, server = ClientApp(mods=[clock.outer, in_blocks, clock.inner]), ServerApp()

    @client.train()
    def train(message, context):
        model = network(size)
        model.load_state_dict(message.content["arrays"].to_torch_state_dict())
        optimizer = torch.optim.SGD(model.parameters(), 0.01)
        for _ in range(int(steps)):
            optimizer.zero_grad()
            F.cross_entropy(model(torch.rand(BATCH, WIDTHS[size][0])), torch.zeros(BATCH, dtype=torch.int64)).backward()
            optimizer.step()
        content = {"arrays": ArrayRecord(model.state_dict()), "metrics": MetricRecord({"num-examples": 1})}
        return Message(RecordDict(content), reply_to=message)

    @server.main()
    def main(grid, context):
        stamps = []
        strategy = FedAvg(fraction_evaluate=0.0, min_available_nodes=CLIENTS)
        strategy.start(grid, ArrayRecord(network(size).state_dict()), num_rounds=WARM + 2 * BLOCK * int(pairs),
                       evaluate_fn=lambda number, arrays: stamps.append(time.perf_counter()))  # fmt: skip
        rounds = [later - earlier for earlier, later in pairwise(stamps)]
        Path(f"{folder}/rounds").write_text("".join(f"{seconds}\n" for seconds in rounds), encoding="utf-8")

    return client, server


if __name__ == "__main__":
    client_app, server_app = sides(*sys.argv[1:])
    # one worker, so that a round is longer by what the recorder takes of both clients
    backend = {"client_resources": {"num_cpus": 1, "num_gpus": 0.0}, "init_args": {"num_cpus": 1}}
    run_simulation(server_app, client_app, num_supernodes=CLIENTS, backend_config=backend)
