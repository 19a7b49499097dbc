"""MSE-R in the published ResNet-20: with its weights, and with random ones under the published names."""

import hashlib
import os
from pathlib import Path

import pytest
import torch
from torch.nn import functional as F

from leaklab.data import download
from leaklab.data.readers.cifar import CifarStrips
from leaklab.metrics.features import PretrainedRepresentationError, prepared, published_resnet_20
from leaklab.models.resnets import SmallResNet
from leaklab.records.errors import UserError
from leaklab.records.streams import stream

MIRROR = os.environ.get("LEAKLAB_MIRROR")
FILE = "resnet20-12fca82f.th"
SHA256 = "12fca82f0bebc4135bf1f32f6e3710e61d5108578464b84fd6d7f5c1b04036c8"
ENTRY = """resnet20-cifar10:
  {{title: t, licence: l, citation: c, files: [{{path: {}, sha256: {}}}],
    mean: [0.485, 0.456, 0.406], std: [0.229, 0.224, 0.225], renamed: {{"module.": "", "linear.": "fc."}}}}
"""


def register(folder, monkeypatch, file, digest):
    (folder / "weights.yaml").write_text(ENTRY.format(file, digest))
    monkeypatch.setattr(download, "REGISTRY", folder / "weights.yaml")
    monkeypatch.setattr(download, "LOCAL", folder / "local")


def images(n=4, channels=3, side=32):
    return stream(0, "images").uniform(n, channels, side, side)


@pytest.fixture
def network(tmp_path, monkeypatch):
    """A random network, saved as the published one and named in the registry."""
    made = SmallResNet(blocks=3).initialised((3, 32, 32), 10, seed=5).eval()
    made.bn1.running_mean.uniform_(-0.1, 0.1, generator=torch.Generator().manual_seed(0))
    saved = {f"module.{name.replace('fc.', 'linear.')}": value for name, value in made.state_dict().items()}
    saved["module.bn1.num_batches_tracked"] = torch.tensor(3)
    path = tmp_path / "mirror" / "weights" / "net.th"
    path.parent.mkdir(parents=True)
    torch.save({"state_dict": saved, "best_prec1": 91.0}, path)
    register(tmp_path, monkeypatch, path.name, hashlib.sha256(path.read_bytes()).hexdigest())
    monkeypatch.setenv("LEAKLAB_MIRROR", str(tmp_path / "mirror"))
    return made


def test_values_are_those_of_the_last_inputs_image_by_image(network):
    truth, guess = images(), images().flip(-1)
    seen = []
    network.fc.register_forward_hook(lambda layer, inputs, output: seen.append(inputs[0][0].double()))
    mean, deviation = (torch.tensor(v).view(3, 1, 1) for v in ([0.485, 0.456, 0.406], [0.229, 0.224, 0.225]))
    with torch.no_grad():
        for image in [*guess, *truth]:
            network(((image.float() - mean) / deviation)[None])
    expected = torch.stack([((a - b) ** 2).mean() for a, b in zip(seen[:4], seen[4:], strict=True)])
    found = PretrainedRepresentationError().values(guess, truth)
    assert seen[0].shape == (64,)
    assert (found.dtype, found.shape) == (torch.float64, (4,))
    assert found.numpy() == pytest.approx(expected.numpy(), rel=1e-3)


@pytest.mark.parametrize(("channels", "side"), [(3, 32), (1, 28), (3, 48)])
@pytest.mark.usefixtures("network")
def test_equal_images_score_zero_and_noise_adds_up(channels, side):
    truth = 0.3 + 0.4 * images(3, channels, side)
    noise = stream(1, "noise").normal(*truth.shape)
    metric = PretrainedRepresentationError()
    values = torch.stack([metric.values(truth + size * noise, truth) for size in (0, 0.005, 0.02, 0.08)])
    assert float(values[0].max()) == 0
    assert bool((values.diff(dim=0) > 0).all())


@pytest.mark.usefixtures("network")
def test_a_value_depends_on_its_own_image_alone():
    metric, truth, guess = PretrainedRepresentationError(), images(), images().flip(-1)
    alone = torch.cat([metric.values(guess[i : i + 1], truth[i : i + 1]) for i in range(4)])
    assert metric.values(guess, truth).numpy() == pytest.approx(alone.numpy(), rel=1e-4)


def test_gray_is_tripled_and_other_sides_become_32():
    gray = images(2, 1, 28)
    by_hand = F.interpolate(gray, size=(32, 32), mode="bilinear").repeat(1, 3, 1, 1)
    assert torch.allclose(prepared(gray), prepared(by_hand))
    assert torch.allclose(prepared(torch.full((1, 3, 224, 224), 0.485))[:, 0], torch.zeros(1, 32, 32), atol=1e-5)
    fine = torch.arange(96).remainder(2).double().expand(1, 3, 96, 96)
    # columns that alternate become nearly gray; every third of them would deviate by more than 2
    assert float(prepared(fine)[..., 4:-4].std((2, 3)).max()) < 0.5


@pytest.mark.parametrize("content", [{}, {"state_dict": {}}, {"state_dict": {1: 2}}, [1], {"state_dict": None}])
def test_other_files_are_refused_in_one_line(tmp_path, content):
    torch.save(content, tmp_path / "net.th")
    with pytest.raises(UserError, match="does not fit the network") as error:
        published_resnet_20(tmp_path / "net.th")
    assert "\n" not in str(error.value)


def test_without_weights_it_says_so_and_never_guesses(tmp_path, monkeypatch):
    register(tmp_path, monkeypatch, FILE, SHA256)
    monkeypatch.delenv("LEAKLAB_MIRROR", raising=False)
    monkeypatch.setattr(download, "CONFIG", tmp_path / "none.yaml")
    assert f"put {FILE} into" in PretrainedRepresentationError().available()
    with pytest.raises(UserError, match="not at hand"):
        PretrainedRepresentationError().values(images(1), images(1))


def test_the_card_says_which_network():
    card = PretrainedRepresentationError().card
    assert (card.name, card.better) == ("mse_r_pretrained", "higher")
    assert "ResNet-20 trained on CIFAR-10" in card.network
    assert all([card.domain, card.clamping, card.input_range, card.assignment, card.averaging, card.note])


@pytest.mark.mirror
@pytest.mark.skipif(not MIRROR, reason="LEAKLAB_MIRROR is not set: no weights to test with")
class TestWithWeights:
    @pytest.fixture
    def photographs(self, tmp_path, monkeypatch):
        """CIFAR-10's first 200 test images in [0, 1], and their labels."""
        register(tmp_path, monkeypatch, FILE, SHA256)
        tar = Path(MIRROR) / "data/CIFAR10/test_batch.tar"
        samples = CifarStrips().read({"train_1": tar, "test_1": tar})
        return torch.tensor(samples.test_images[:200]).double() / 255, torch.tensor(samples.test_labels[:200])

    def test_the_network_knows_the_classes(self, photographs):
        network = published_resnet_20(Path(MIRROR) / "weights" / FILE)
        with torch.no_grad():
            predicted = network(prepared(photographs[0].float())).argmax(1)
        assert float((predicted == photographs[1]).double().mean()) > 0.85

    def test_images_of_one_class_are_nearer_than_those_of_two(self, photographs):
        pictures, labels = photographs
        assert PretrainedRepresentationError().available() is None
        other = PretrainedRepresentationError().values(pictures.roll(1, 0), pictures)
        same = labels.roll(1) == labels
        assert float(other[same].mean()) < 0.7 * float(other[~same].mean())
        near = PretrainedRepresentationError().values(
            pictures + 0.01 * stream(1, "n").normal(*pictures.shape), pictures
        )
        assert float(near.mean()) < 0.2 * float(other.mean())
