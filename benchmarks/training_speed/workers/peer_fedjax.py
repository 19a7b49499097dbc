"""Peer fedjax: federated averaging with its ``for_each_client``, compiled by jax for one processor."""

import os

os.environ |= {"JAX_PLATFORMS": "cpu", "XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false"}

import sys
from functools import partial
from typing import Any

import fedjax
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from speed.clock import use_one_cpu

from training_speed.made_up import CLASSES, noise, normalised, participants
from training_speed.workers.measuring import measure
from training_speed.workloads import Cell, Workload

Tree = Any
WIDTHS = {"cnn-small": (10, 20, 50), "cnn-mnist": (32, 64, 512)}
DROPOUT = {"mlp": 0.5, "cnn-small": 0.5}


def initial_weights(model: str, seed: int) -> list[jax.Array]:
    """Return the weights of ``model`` on 28x28 images: kernels [height, width, in, out], matrices [in, out], biases."""
    if model in WIDTHS:
        first, second, hidden = WIDTHS[model]
        shapes = [(5, 5, 1, first), (5, 5, first, second), (16 * second, hidden), (hidden, CLASSES)]
    else:
        shapes = {"logistic-regression": [(784, CLASSES)], "mlp": [(784, 64), (64, CLASSES)]}[model]
    generator = np.random.Generator(np.random.Philox(key=seed))
    arrays = [a for shape in shapes for a in (0.05 * generator.standard_normal(shape), np.zeros(shape[-1]))]
    return [jnp.asarray(a, jnp.float32) for a in arrays]


def logits(model: str, weights: list[jax.Array], images: jax.Array, key: jax.Array) -> jax.Array:
    """Return the outputs [B, classes] for images [B, 28, 28, 1], with dropout where the model has it."""
    values, layers = images, list(zip(weights[::2], weights[1::2], strict=True))
    if model in WIDTHS:
        for kernel, bias in layers[:2]:
            values = jax.nn.relu(_pooled(_convolved(values, kernel) + bias))
        layers = layers[2:]
    values = values.reshape(len(values), -1)
    for kernel, bias in layers[:-1]:
        values = _dropped(jax.nn.relu(values @ kernel + bias), DROPOUT.get(model, 0.0), key)
    kernel, bias = layers[-1]
    return values @ kernel + bias


def _convolved(values: jax.Array, kernel: jax.Array) -> jax.Array:
    return lax.conv_general_dilated(values, kernel, (1, 1), "VALID", dimension_numbers=("NHWC", "HWIO", "NHWC"))


def _pooled(values: jax.Array) -> jax.Array:
    return lax.reduce_window(values, -jnp.inf, lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")


def _dropped(values: jax.Array, probability: float, key: jax.Array) -> jax.Array:
    if not probability:
        return values
    return values * jax.random.bernoulli(key, 1 - probability, values.shape) / (1 - probability)


class Fedjax:
    """The workload in fedjax's terms; its functions are compiled once for all cells."""

    def __init__(self, workload: Workload) -> None:
        self._workload, self._counts = workload, []
        images, labels = noise(workload)
        pixels = normalised(images).transpose(0, 2, 3, 1)
        held = [slice(k * workload.samples, (k + 1) * workload.samples) for k in range(workload.clients)]
        self._clients = [fedjax.ClientDataset({"x": pixels[part], "y": labels[part]}) for part in held]
        self._train_clients = fedjax.for_each_client(_start, partial(_step, workload), _finish)

    @property
    def steps(self) -> int:
        """Optimiser steps, counted in the state of every client."""
        return int(sum(self._counts))

    def train_cell(self, cell: Cell, rounds: int) -> None:
        """Train one cell."""
        workload, weights = self._workload, initial_weights(self._workload.model, cell.seed)
        for index in range(rounds):
            visits = [self._visit(cell, index, client) for client in participants(workload, cell.seed, index)]
            outputs = [output for _, output in self._train_clients(weights, visits)]
            weights = jax.tree_util.tree_map(lambda *values: sum(values) / len(values), *(w for w, _ in outputs))
            self._counts += [count for _, count in outputs]
            jax.block_until_ready(weights)

    def _visit(self, cell: Cell, index: int, client: int) -> tuple[int, Any, Tree]:
        workload = self._workload
        batches = self._clients[client].shuffle_repeat_batch(
            batch_size=workload.batch_size,
            num_steps=workload.local_steps,
            num_epochs=None,  # its default, 1, would end a client early
            seed=cell.seed + 1000 * index + client,
        )
        return client, batches, {"key": jax.random.PRNGKey(client), "rate": jnp.float32(cell.rate(client))}


def _start(weights: Tree, given: Tree) -> Tree:
    zeros = jax.tree_util.tree_map(jnp.zeros_like, weights)
    return {"weights": weights, "velocity": zeros, "count": jnp.int32(0), **given}


def _step(workload: Workload, state: Tree, batch: Tree) -> Tree:
    key, dropout = jax.random.split(state["key"])

    def loss(weights: Tree) -> jax.Array:
        scores = jax.nn.log_softmax(logits(workload.model, weights, batch["x"], dropout))
        return -jnp.take_along_axis(scores, batch["y"][:, None], 1).mean()

    gradients, weights = jax.grad(loss)(state["weights"]), state["weights"]
    directions = jax.tree_util.tree_map(lambda g, w: g + workload.weight_decay * w, gradients, weights)
    if workload.momentum:
        directions = jax.tree_util.tree_map(lambda v, d: workload.momentum * v + d, state["velocity"], directions)
    return {
        **state,
        "weights": jax.tree_util.tree_map(lambda w, d: w - state["rate"] * d, weights, directions),
        "velocity": directions if workload.momentum else state["velocity"],
        "key": key,
        "count": state["count"] + 1,
    }


def _finish(weights: Tree, state: Tree) -> Tree:
    return state["weights"], state["count"]


def main() -> None:
    """Measure the workload in the first argument."""
    use_one_cpu()
    workload = Workload.from_json(sys.argv[1])
    peer = Fedjax(workload)
    parameters = sum(values.size for values in initial_weights(workload.model, 0))
    measure(workload, parameters, peer.train_cell, lambda: peer.steps)


if __name__ == "__main__":
    main()
