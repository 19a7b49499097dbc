"""The networks have the papers' shapes, draw nothing from torch and can be differentiated as the attacks need."""

import pytest
import torch
import torch.nn.functional as F

from leaklab.federated.forms.stacked import dropout_sites
from leaklab.models.base import Architecture
from leaklab.records import plugins
from leaklab.records.errors import UserError
from leaklab.records.streams import stream

MNIST = (1, 28, 28)
NAMES = ["logistic-regression", "mlp", "cnn-small", "cnn-mnist", "dlg-lenet", "resnet-small"]


def shapes(name, input_shape=MNIST, classes=10, **settings):
    network = plugins.load("models", name, settings).build(input_shape, classes)
    return {n: tuple(p.shape) for n, p in network.named_parameters()}


def test_the_room_offers_exactly_the_models():
    assert set(NAMES) <= set(plugins.available("models"))
    assert all(isinstance(plugins.load("models", name), Architecture) for name in NAMES)


def test_logistic_regression():
    assert shapes("logistic-regression") == {"fc.weight": (10, 784), "fc.bias": (10,)}


def test_mlp():
    assert shapes("mlp") == {
        "fc1.weight": (64, 784),
        "fc1.bias": (64,),
        "fc2.weight": (10, 64),
        "fc2.bias": (10,),
    }


@pytest.mark.parametrize(("dropped", "site", "before"), [("hidden", 64, "fc2"), ("input", 784, "fc1")])
def test_mlp_drops_hidden_units_or_pixels(dropped, site, before):
    """LRP appendix B: "dropout in the first layer" may be that of its outputs or of its inputs."""
    network = plugins.load("models", "mlp", {"dropped": dropped}).build(MNIST, 10)
    names = [name for name, _ in network.named_children()]
    assert names[names.index("dropout1") + 1] == before
    assert dropout_sites(network, MNIST)["dropout1"].shape == (site,)
    assert shapes("mlp", dropped=dropped) == shapes("mlp")


def test_small_cnn():
    assert shapes("cnn-small") == {
        "conv1.weight": (10, 1, 5, 5),
        "conv1.bias": (10,),
        "conv2.weight": (20, 10, 5, 5),
        "conv2.bias": (20,),
        "fc1.weight": (50, 320),
        "fc1.bias": (50,),
        "fc2.weight": (10, 50),
        "fc2.bias": (10,),
    }


def test_the_mnist_cnn_is_the_small_one_but_wider_and_without_dropout():
    found = shapes("cnn-mnist")
    assert list(found) == list(shapes("cnn-small"))
    assert found["conv1.weight"] == (32, 1, 5, 5)
    assert found["conv2.weight"] == (64, 32, 5, 5)
    assert found["fc1.weight"] == (512, 1024)
    assert found["fc2.weight"] == (10, 512)
    layers = {
        name: [n for n, _ in plugins.load("models", name).build(MNIST, 10).named_children()]
        for name in ("cnn-small", "cnn-mnist")
    }
    assert [name for name in layers["cnn-small"] if name != "dropout1"] == layers["cnn-mnist"]


def test_parameter_counts():
    counts = {
        name: sum(p.numel() for p in plugins.load("models", name).build(MNIST, 10).parameters())
        for name in ("cnn-small", "cnn-mnist")
    }
    assert counts == {"cnn-small": 21_840, "cnn-mnist": 582_026}


@pytest.mark.parametrize(
    ("input_shape", "classes", "features"), [(MNIST, 10, 588), ((3, 32, 32), 100, 768), ((3, 32, 32), 5749, 768)]
)
def test_dlg_lenet_is_that_of_table_4(input_shape, classes, features):
    found = shapes("dlg-lenet", input_shape, classes)
    assert found["conv1.weight"] == (12, input_shape[0], 5, 5)
    assert all(found[f"conv{index}.weight"] == (12, 12, 5, 5) for index in (2, 3, 4))
    assert found["fc.weight"] == (classes, features)


def test_dlg_lenet_with_three_convolutions():
    found = shapes("dlg-lenet", n_conv=3)
    assert "conv4.weight" not in found
    assert found["fc.weight"] == (10, 588)
    with pytest.raises(UserError, match="set n_conv to 3 or 4"):
        shapes("dlg-lenet", n_conv=5)


def test_dlg_lenet_can_be_differentiated_twice():
    network = plugins.load("models", "dlg-lenet").initialised(MNIST, 10, seed=0, dtype=torch.float64)
    image = stream(0, "image").normal(1, *MNIST).requires_grad_()

    def matching(x):
        loss = F.cross_entropy(network(x), torch.tensor([3]))
        return sum((g**2).sum() for g in torch.autograd.grad(loss, list(network.parameters()), create_graph=True))

    (slope,) = torch.autograd.grad(matching(image), image)
    direction = stream(0, "direction").normal(*image.shape)
    step = 1e-5 * direction
    numeric = (matching(image + step) - matching(image - step)) / 2e-5
    assert float((slope * direction).sum()) == pytest.approx(float(numeric.detach()), rel=1e-6)


@pytest.mark.parametrize("name", [*NAMES, "resnet-18"])
def test_networks_take_a_batch_and_leave_the_global_generator_alone(name):
    before = torch.get_rng_state()
    network = plugins.load("models", name).initialised(MNIST, 7, seed=0).eval()
    assert network(torch.zeros(2, *MNIST)).shape == (2, 7)
    assert torch.equal(before, torch.get_rng_state())


@pytest.mark.parametrize("name", NAMES)
def test_the_seed_is_the_initialisation(name):
    model = plugins.load("models", name)
    first, again, other = (model.initialised(MNIST, 10, seed=seed).state_dict() for seed in (1, 1, 2))
    double = model.initialised(MNIST, 10, seed=1, dtype=torch.float64).state_dict()
    for key, value in first.items():
        assert torch.equal(value, again[key])
        assert torch.equal(value, double[key].float())
        same = torch.equal(value, other[key])
        assert same == (value.unique().numel() == 1), key  # batch normalisations start as ones and zeros


@pytest.mark.parametrize("name", [*NAMES, "resnet-18"])
def test_dropout_stands_on_its_own_so_that_its_masks_can_be_given(name):
    network = plugins.load("models", name).build(MNIST, 10)
    inside = [n for n, layer in network.named_modules() if isinstance(layer, torch.nn.Dropout) and "." in n]
    assert not inside


def test_an_image_that_is_too_small_is_refused():
    with pytest.raises(UserError, match="images of 1x8x8 are too small"):
        plugins.load("models", "cnn-small").build((1, 8, 8), 10)
