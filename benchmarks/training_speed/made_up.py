"""Images and labels of noise, equal in every environment; numpy only."""

import numpy as np
from numpy.typing import NDArray

from training_speed.workloads import Workload

MEAN, STD, CLASSES = 0.5, 0.3, 10


def noise(workload: Workload) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Return images [N, C, H, W] and labels [N] of all clients; client k holds the k-th ``samples`` of them."""
    generator, count = np.random.Generator(np.random.Philox(key=0)), workload.clients * workload.samples
    images = generator.integers(0, 256, (count, *workload.image_shape), dtype=np.uint8)
    return images, generator.integers(0, CLASSES, count)


def normalised(images: NDArray[np.uint8]) -> NDArray[np.float32]:
    """Return the images as a network sees them."""
    return (images.astype(np.float32) / 255 - np.float32(MEAN)) / np.float32(STD)


def participants(workload: Workload, seed: int, round_index: int) -> list[int]:
    """Return who trains in a round."""
    order = np.random.Generator(np.random.Philox(key=[seed, round_index])).permutation(workload.clients)
    return [int(client) for client in order[: workload.participants]]
