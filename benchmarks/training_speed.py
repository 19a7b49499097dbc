"""Microseconds per client step of a sweep: the engine beside a plain loop of nn.Module and torch.optim.SGD.

Both count the optimiser steps that they really executed. The sweep is LRP table 1's: 3 seeds x 9 rates x 2 clients,
batches of 32 of 28x28 images (made up; the cost does not depend on the pixels). Processor time of one thread, so that
other processes disturb little; preparation included, evaluation (10 images) negligible.

    python benchmarks/training_speed.py [--models mlp cnn-small] [--chunks 6 12] [--rounds 3]
"""

import argparse
import time

import torch
import torch.nn.functional as F

from leaklab.data.dataset import Dataset
from leaklab.federated.engine import train
from leaklab.records import plugins
from leaklab.records.specs import TrainSpec
from leaklab.records.streams import stream

RATES = (0.005, 0.01, 0.02)
LOCAL_STEPS, CLIENTS, SAMPLES, BATCH = 25, 2, 800, 32
NAIVE_STEPS = 50


def main() -> None:
    """Print one line per model, defense and chunk."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--models", nargs="+", default=["logistic-regression", "mlp", "cnn-small"])
    parser.add_argument("--defenses", nargs="+", default=["none", "lrp"])
    parser.add_argument("--chunks", nargs="+", type=int, default=[0], help="0 is the engine's own choice")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--repeats", type=int, default=3)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    data = made_up_data()
    for model in arguments.models:
        for repeat in range(arguments.repeats):
            print(f"{model:22} plain loop        {naive(model, data):8.1f} us", f"(run {repeat})", flush=True)
            for defense in arguments.defenses:
                for chunk in arguments.chunks:
                    cost = swept(model, defense, data, arguments.rounds, chunk)
                    print(f"{model:22} {defense:5} chunk {chunk:4} {cost:8.1f} us", f"(run {repeat})", flush=True)


def made_up_data() -> Dataset:
    """Return noise with labels."""
    draws, count = stream(0, "speed"), CLIENTS * SAMPLES
    images, labels = draws.integers(0, 256, count, 1, 28, 28).to(torch.uint8), draws.integers(0, 10, count)
    return Dataset("noise", 10, images, labels, images[:10], labels[:10], torch.tensor([0.5]), torch.tensor([0.3]))


def swept(model: str, defense: str, data: Dataset, rounds: int, chunk: int) -> float:
    """Return microseconds per client step of the engine."""
    spec = TrainSpec(
        dataset="noise",
        partition="two-clients",
        model=model,
        defense=defense,
        rates=tuple((a, b) for a in RATES for b in RATES),
        rounds=rounds,
        local_steps=LOCAL_STEPS,
        batch_size=BATCH,
        weight_decay=1e-4,
        seeds=(1024, 1022, 1020),
    )
    clients = list(torch.arange(CLIENTS * SAMPLES).split(SAMPLES))
    started = time.process_time()
    sweep = train(spec, data, clients, chunk=chunk or None)
    seconds = time.process_time() - started
    expected = len(spec.rates) * len(spec.seeds) * CLIENTS * rounds * LOCAL_STEPS
    if sweep.client_steps != expected:
        raise SystemExit(f"{sweep.client_steps} client steps were executed, not {expected}: the figures are void")
    return 1e6 * seconds / expected


def naive(model: str, data: Dataset) -> float:
    """Return microseconds per step of the usual loop over one model."""
    network = plugins.load("models", model).initialised(data.shape, 10, seed=0).train()
    optimizer = torch.optim.SGD(network.parameters(), lr=0.01, weight_decay=1e-4)
    images = data.normalised(data.train_images)
    batches = torch.arange(NAIVE_STEPS * BATCH).remainder(len(images)).split(BATCH)
    started = time.process_time()
    for batch in batches:
        optimizer.zero_grad()
        F.cross_entropy(network(images[batch]), data.train_labels[batch]).backward()
        optimizer.step()
    return 1e6 * (time.process_time() - started) / NAIVE_STEPS


if __name__ == "__main__":
    main()
