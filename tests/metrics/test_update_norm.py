"""The norm of an update: that of the gradient, whether it is sent as such or as a difference of weights."""

import pytest
import torch
from torch.nn import functional as F

from leaklab.attacks.base import victim
from leaklab.captures.capture import capture
from leaklab.data.dataset import Dataset
from leaklab.metrics.of_update import UpdateNorm
from leaklab.specs.capture import CaptureSpec

COUNT = 4


@pytest.fixture(scope="module")
def dataset():
    draws = torch.Generator().manual_seed(0)
    images = torch.randint(0, 256, (40, 1, 8, 8), generator=draws).to(torch.uint8)
    labels = torch.arange(40) % 10
    return Dataset("digits", 10, images, labels, images, labels, torch.zeros(1), torch.ones(1))


@pytest.mark.parametrize("kind", ["gradient", "delta"])
@pytest.mark.parametrize("batch", [1, 2])
def test_it_is_the_norm_of_the_gradient_at_the_private_batch(dataset, kind, batch):
    spec = CaptureSpec.model_validate({
        "dataset": "digits", "images": {"split": "train", "count": COUNT, "seed": 1}, "model": "mlp", "rate": 0.25,
        "batch_size": batch, "kind": kind, "dtype": "float64", "mode": "eval",
    })  # fmt: skip
    observation, knowledge, truth = capture(spec, dataset)
    found = UpdateNorm().values(observation, knowledge, None, truth)
    assert found.shape == truth.labels.shape == (COUNT // batch, batch)
    network = victim(observation, knowledge, "the test").requires_grad_(True)
    for row, images in enumerate(truth.images):
        loss = F.cross_entropy(network(images.double()), truth.labels[row])
        slopes = torch.autograd.grad(loss, list(network.parameters()))
        norm = torch.cat([slope.flatten() for slope in slopes]).norm()
        assert found[row].tolist() == pytest.approx([float(norm)] * batch, rel=1e-9)
