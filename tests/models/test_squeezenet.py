"""SqueezeNet 1.1 as a frozen backbone: torchvision's layers, published weights, and adapters behind its last stages."""

import os
from pathlib import Path

import pytest
import torch
import torchvision

from leaklab.data.download import describe_weights
from leaklab.data.readers.imagenet import NamedImages
from leaklab.models.adapted import is_frozen
from leaklab.models.published import published_state, read_torch
from leaklab.records import plugins
from leaklab.records.errors import UserError
from leaklab.records.streams import stream

MIRROR = os.environ.get("LEAKLAB_MIRROR")
NAME = "squeezenet1.1"


def network_of(shape=(3, 64, 64), classes=10, **settings):
    architecture = plugins.load("models", "squeezenet-adapted", {"side": 0, **settings})
    return architecture, architecture.initialised(shape, classes, seed=0)


def renamed(state):
    for theirs, ours in describe_weights(NAME).renamed.items():
        state = {name.replace(theirs, ours): value for name, value in state.items()}
    return state


def test_without_adapters_it_is_torchvisions_with_another_head():
    with torch.random.fork_rng():
        torch.manual_seed(0)
        theirs = torchvision.models.squeezenet1_1(num_classes=7).eval()
    _, ours = network_of(tuning="fixed")
    state = renamed(theirs.state_dict())
    head = {name for name in state if name.startswith("fc.")}
    assert {name for name in ours.state_dict() if is_frozen(name)} == set(state) - head
    ours.load_state_dict({name: value for name, value in state.items() if name not in head}, strict=False)
    images = stream(0, "images").normal(2, 3, 64, 64).float()
    bare = torch.nn.Sequential(*[layer for name, layer in ours.eval().named_children() if name != "fc"])
    torch.testing.assert_close(bare(images), theirs.features(images).mean((2, 3)))


def test_adapters_stand_behind_the_two_last_stages_alone():
    _, network = network_of()
    names = [name for name, _ in network.named_children()]
    assert [(names[place - 1], name) for place, name in enumerate(names) if name.startswith("adapter")] == [
        ("pool3", "adapter1"), ("fire8", "adapter2"),
    ]  # fmt: skip
    trained = {name: tuple(value.shape) for name, value in network.named_parameters() if not is_frozen(name)}
    assert trained["adapter1.conv.weight"] == (256, 256, 1, 1)
    assert trained["adapter2.conv.weight"] == (512, 512, 1, 1)
    assert trained["fc.weight"] == (10, 512)
    assert network(stream(0, "images").normal(2, 3, 64, 64).float()).shape == (2, 10)


def test_gray_images_are_enlarged_and_small_ones_refused():
    _, network = network_of((1, 28, 28), side=64)
    assert network(stream(0, "images").normal(2, 1, 28, 28).float()).shape == (2, 10)
    with pytest.raises(UserError, match="images of 3x16x16 are too small"):
        network_of((3, 16, 16))


@pytest.mark.mirror
@pytest.mark.skipif(not MIRROR, reason="LEAKLAB_MIRROR is not set: no weights to test with")
def test_with_its_published_last_layer_it_has_its_accuracy():
    """60.9 % of the 64 photographs of 224 pixels in the mirror, as measured when they were stored."""
    folder = Path(MIRROR)
    _, network = network_of((3, 224, 224), tuning="fixed")
    network.load_state_dict(published_state(NAME), strict=False)
    last = read_torch(folder / "weights/squeezenet1_1_classifier_fp16.pth")
    samples = as_photographs(folder / "data/imagenet-sample/imagenet_sample_224px_64.tar.gz")
    weights = describe_weights(NAME)
    mean, std = (torch.tensor(values)[:, None, None] for values in (weights.mean, weights.std))
    layers = [layer for name, layer in network.eval().named_children() if name not in ("avgpool", "flatten", "fc")]
    with torch.no_grad():
        maps = torch.nn.Sequential(*layers)((torch.tensor(samples[0]) / 255 - mean) / std)
        kernel, bias = (last[f"classifier.1.{part}"].float() for part in ("weight", "bias"))
        logits = torch.conv2d(maps, kernel, bias).relu().mean((2, 3))
    assert int((logits.argmax(1) == torch.tensor(samples[1])).sum()) == 39  # 60.9 %


def as_photographs(archive):
    """Return images and labels of an archive that has some of the classes."""
    import tarfile

    import numpy as np

    reader = NamedImages()
    with tarfile.open(archive, "r:gz") as tar:
        found = [reader._image(tar, member, archive) for member in tar if member.isfile()]
    return np.stack([image for *_, image in found]), [number for number, *_ in found]
