"""Compiled steps give the outputs, losses and gradients of autograd; who has no compiler trains as before."""

import ctypes
import logging
import stat
from dataclasses import replace
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.func import functional_call
from torch.testing import assert_close

from leaklab.federated.batches import Batch
from leaklab.federated.forms import lanes
from leaklab.federated.forms import network as forms
from leaklab.federated.forms.lanes import LanesNetwork
from leaklab.models.lanes import check, library
from leaklab.models.lanes.check import agrees
from leaklab.models.lanes.description import fits_lanes
from leaklab.records import plugins
from leaklab.records.streams import stream

SHAPE, CLASSES = (1, 28, 28), 10
EXACT = {"rtol": 0, "atol": 1e-11}
ROUNDED = {"rtol": 1e-4, "atol": 1e-5}

KEPT = library.kept_or_built() if library.library() else None
needs_compiler = pytest.mark.skipif(KEPT is None, reason="no compiled steps on this machine")


def odd():
    """Layers and sizes that no model has: what fills no vector, borders, windows of three, units dropped in planes."""
    return nn.Sequential(
        nn.Conv2d(3, 7, (3, 2), padding=2), nn.Dropout(0.3), nn.ReLU(), nn.Conv2d(7, 5, 1, bias=False),
        nn.LeakyReLU(0.2), nn.MaxPool2d(3), nn.Conv2d(5, 9, 2, padding=1), nn.Flatten(),
        nn.Linear(9 * 6 * 5, 33, bias=False), nn.ReLU(), nn.Dropout(0.5), nn.Linear(33, 17), nn.Linear(17, 6),
    )  # fmt: skip


CASES = {
    "cnn-small": (SHAPE, CLASSES),
    "cnn-mnist": (SHAPE, CLASSES),
    "cnn-leaky": ((3, 32, 32), CLASSES),
    "odd": ((3, 12, 13), 6),
}


def build(name):
    shape, classes = CASES[name]
    settings = {"convolutions": 3} if name == "cnn-leaky" else {}
    return odd() if name == "odd" else plugins.load("models", name, settings).build(shape, classes)


def material(name, models, groups, size, dtype=torch.float64):
    """A network, weights of some models, and a batch with its dropout masks."""
    (shape, classes), network, draws = CASES[name], build(name).to(dtype), stream(0, name)
    weights = {
        key: (draws.normal(models, *value.shape) * 0.5 / max(1, value[0].numel()) ** 0.5).to(dtype)
        for key, value in network.state_dict().items()
    }
    lanes = LanesNetwork(network, shape, library.library())
    masks = {
        key: (draws.uniform(groups, size, *site.shape) >= site.probability).to(dtype) / (1 - site.probability)
        for key, site in lanes.dropouts.items()
    }
    images = draws.normal(groups, size, *shape).to(dtype)
    return network, lanes, weights, Batch(images, draws.integers(0, classes, groups, size), masks)


def by_autograd(network, weights, images, labels, masks):
    """One model's outputs, loss and gradients; dropout layers multiply by their masks."""
    leaves = {name: value.detach().requires_grad_() for name, value in weights.items()}
    values = images
    for name, layer in network.named_children():
        if isinstance(layer, nn.Dropout):
            values = values * masks[name].view_as(values) if masks else values
        else:
            own = {key.partition(".")[2]: value for key, value in leaves.items() if key.partition(".")[0] == name}
            values = functional_call(layer, own, (values,))
    loss = F.cross_entropy(values, labels)
    return values.detach(), loss.detach(), dict(zip(leaves, torch.autograd.grad(loss, leaves.values()), strict=True))


@needs_compiler
@pytest.mark.parametrize("size", [1, 7, 8, 9, 33])
@pytest.mark.parametrize("name", CASES)
def test_losses_and_gradients_are_those_of_autograd_whatever_fills_a_vector(name, size):
    network, lanes, weights, batch = material(name, models=4, groups=2, size=size)
    losses, gradients = lanes.gradients(weights, batch)
    assert list(gradients) == list(weights)
    for model in range(4):
        own, group = {key: value[model] for key, value in weights.items()}, model // 2
        masks = {key: mask[group] for key, mask in batch.masks.items()}
        _, loss, expected = by_autograd(network, own, batch.images[group], batch.labels[group], masks)
        assert_close(losses[model], loss, **EXACT)
        for key, value in expected.items():
            assert_close(gradients[key][model], value, **EXACT)


@needs_compiler
@pytest.mark.parametrize("name", CASES)
def test_in_single_precision_only_roundings_differ(name):
    network, lanes, weights, batch = material(name, 1, 1, 32, torch.float32)
    losses, gradients = lanes.gradients(weights, batch)
    own, masks = ({key: value[0] for key, value in held.items()} for held in (weights, batch.masks))
    _, loss, expected = by_autograd(network, own, batch.images[0], batch.labels[0], masks)
    assert_close(losses[0], loss, **ROUNDED)
    for key, value in expected.items():
        assert_close(gradients[key][0], value, rtol=0, atol=float(value.abs().max()) * 2e-5)


@needs_compiler
@pytest.mark.parametrize("groups", [1, 2])
@pytest.mark.parametrize("name", CASES)
def test_outputs_of_more_images_than_one_pass_takes_drop_nothing(name, groups):
    network, form, weights, batch = material(name, 2, groups, lanes.IMAGES + 3)
    outputs = form.logits(weights, batch.images, {})
    for model in range(2):
        own, group = {key: value[model] for key, value in weights.items()}, model * groups // 2
        expected, _, _ = by_autograd(network, own, batch.images[group], batch.labels[group], {})
        assert_close(outputs[model], expected.T, **EXACT)


@needs_compiler
def test_wanted_gradients_alone_are_those_of_all():
    _, lanes, weights, batch = material("odd", 2, 1, 9)
    _, every = lanes.gradients(weights, batch)
    for wanted in (["11.weight"], ["3.weight", "12.bias"], ["0.bias"]):
        _, found = lanes.gradients(weights, batch, wanted)
        assert set(found) == set(wanted)
        for key in wanted:
            assert torch.equal(found[key], every[key])


@needs_compiler
def test_the_first_of_equal_values_in_a_window_gets_the_slope():
    _, lanes, weights, batch = material("cnn-small", 1, 1, 5)
    plain = Batch(torch.ones_like(batch.images), batch.labels, batch.masks)  # every window has four equal values
    network = build("cnn-small").double()
    own, masks = ({key: value[0] for key, value in held.items()} for held in (weights, batch.masks))
    _, _, expected = by_autograd(network, own, plain.images[0], plain.labels[0], masks)
    _, found = lanes.gradients(weights, plain)
    for key, value in expected.items():
        assert_close(found[key][0], value, **EXACT)


@needs_compiler
@pytest.mark.parametrize("bad", [torch.nan, torch.inf])
def test_a_diverged_model_is_not_finite_and_leaves_the_others_alone(bad):
    _, lanes, weights, batch = material("cnn-small", 3, 1, 5)
    losses, gradients = lanes.gradients(weights, batch)
    spoilt = {key: value.clone() for key, value in weights.items()}
    spoilt["conv1.weight"][1, 0] = bad
    for _ in range(2):  # what the first call left in memory is not seen by the second
        found, slopes = lanes.gradients(spoilt, batch)
        assert not found[1].isfinite()
        for model in (0, 2):
            assert found[model] == losses[model]
            assert all(torch.equal(slopes[key][model], gradients[key][model]) for key in weights)


@needs_compiler
def test_models_give_the_same_bytes_alone_and_together():
    _, lanes, weights, batch = material("cnn-leaky", 3, 1, 9, torch.float32)
    _, together = lanes.gradients(weights, batch)
    for model in range(3):
        _, alone = lanes.gradients({key: value[model : model + 1] for key, value in weights.items()}, batch)
        assert all(torch.equal(alone[key][0], together[key][model]) for key in weights)


@needs_compiler
@pytest.mark.parametrize("spoil", [
    lambda weights, batch: (weights, replace(batch, labels=batch.labels + 10)),
    lambda weights, batch: (weights, replace(batch, labels=batch.labels - 10)),
    lambda weights, batch: (weights, replace(batch, images=batch.images[..., :-1])),
    lambda weights, batch: (weights, replace(batch, images=batch.images.float())),
    lambda weights, batch: (weights, replace(batch, labels=batch.labels.int())),
    lambda weights, batch: ({name: value.float() for name, value in weights.items()}, batch),
    lambda weights, batch: ({name: value.to("meta") for name, value in weights.items()}, batch),
])  # fmt: skip
def test_nothing_is_read_or_written_beyond_a_tensor(spoil):
    _, form, weights, batch = material("cnn-small", 1, 1, 5)
    weights, batch = spoil(weights, batch)
    with pytest.raises(ValueError, match=r"compiled steps take|images of|labels from"):
        form.gradients(weights, batch)


@needs_compiler
@pytest.mark.parametrize("name", ["cnn-mnist", "cnn-small"])  # written out, and by autograd
def test_what_lies_on_another_device_is_left_to_the_form_that_needs_no_compiler(name):
    form = forms.trainable(build(name), SHAPE)
    weights = {key: value[None].to("meta") for key, value in build(name).state_dict().items()}
    images, labels = torch.zeros(1, 4, *SHAPE, device="meta"), torch.zeros(1, 4, dtype=torch.int64, device="meta")
    loss, gradients = form.gradients(weights, Batch(images, labels, {}))
    assert {value.device.type for value in (loss, *gradients.values())} == {"meta"}
    assert form.logits(weights, images, {}).device.type == "meta"


@pytest.mark.parametrize("change", [
    (0, nn.Conv2d(1, 2, 3, stride=(1, 2))), (0, nn.Conv2d(1, 2, 3, dilation=2)),
    (0, nn.Conv2d(1, 2, 3, padding="same")),
    (0, nn.Conv2d(1, 2, 3, padding=1, padding_mode="circular")), (0, nn.Conv2d(1, 2, (3, 5), padding=(1, 2))),
    (0, nn.Linear(9, 9)), (1, nn.MaxPool2d(3, stride=2)), (1, nn.MaxPool2d(2, ceil_mode=True)), (1, nn.Tanh()),
    (1, nn.BatchNorm2d(2)), (2, nn.Flatten(2)), (2, nn.ReLU()), (3, nn.ReLU()),
])  # fmt: skip
def test_a_network_with_another_layer_is_left_to_other_forms(change):
    layers = [nn.Conv2d(1, 2, 3), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(8, 3)]
    assert fits_lanes(nn.Sequential(*layers))
    layers[change[0]] = change[1]
    assert not fits_lanes(nn.Sequential(*layers))


@needs_compiler
def test_without_a_compiler_other_forms_train(monkeypatch):
    assert isinstance(forms.trainable(build("cnn-mnist"), SHAPE), LanesNetwork)
    monkeypatch.setattr(forms, "library", lambda: None)
    assert not isinstance(forms.trainable(build("cnn-mnist"), SHAPE), LanesNetwork)


# The library: what is built once, and what stands in its way.


@pytest.fixture
def fresh(monkeypatch, tmp_path):
    """A machine on which nothing was built yet."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv(library.COMPILER, raising=False)
    library.library.cache_clear()
    yield tmp_path
    library.library.cache_clear()


@pytest.fixture
def fresh_with_library(fresh, monkeypatch):
    """The same, where the compiler gives at once what it gave before."""
    monkeypatch.setattr(library, "_build", lambda compiler, source, path, check: path.write_bytes(KEPT.read_bytes()))
    return fresh


def compiler(folder, script):
    """Put a compiler there and return its name."""
    path = folder / "compiler"
    path.write_text(f'#!/bin/sh\nif [ "$1" = --version ]; then echo 1; exit; fi\n{script}\n')
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return str(path)


def test_the_digest_of_a_job_sees_the_sources():
    folder = Path(library.__file__).parent
    assert library.digest([folder / name for name in library.FILES]) == library.DIGEST


@pytest.mark.parametrize(("script", "message"), [
    ("echo 'x.cpp:1: error: no such word' >&2; exit 1", "failed: x.cpp:1: error: no such word"),
    ("exit 3", "failed: exit status 3"),
])  # fmt: skip
def test_a_compiler_that_fails_is_told_in_one_line_and_stops_nothing(fresh, monkeypatch, caplog, script, message):
    monkeypatch.setenv(library.COMPILER, compiler(fresh, script))
    with caplog.at_level(logging.INFO):
        assert library.library() is None
    assert message in caplog.messages[-1]
    assert not isinstance(forms.trainable(build("cnn-mnist"), SHAPE), LanesNetwork)


@pytest.mark.parametrize("told", [library.OFF, "no-such-compiler"])
def test_no_compiler_is_told_in_one_line_and_stops_nothing(fresh, monkeypatch, caplog, told):
    monkeypatch.setenv(library.COMPILER, told)
    with caplog.at_level(logging.INFO):
        assert library.library() is None
    assert told in caplog.messages[-1]
    assert not (fresh / "cache").exists()


def test_a_folder_that_may_not_be_made_is_told_in_one_line_and_stops_nothing(fresh, monkeypatch, caplog):
    (fresh / "cache").write_text("a file")
    monkeypatch.setenv(library.COMPILER, compiler(fresh, "exit 1"))
    with caplog.at_level(logging.INFO):
        assert library.library() is None
    assert "no folder for what is built" in caplog.messages[-1]


def test_what_is_of_no_use_is_not_kept_and_not_built_again(fresh, monkeypatch):
    script = f'echo >> {fresh}/built; while [ "$1" != -o ]; do shift; done; echo bad > "$2"'
    monkeypatch.setenv(library.COMPILER, compiler(fresh, script))
    for _ in range(2):
        with pytest.raises(library.NoLibraryError, match=r"is slower than torch \(delete .*refused to try again"):
            library.kept_or_built(check=lambda path: "is slower than torch")
    (left,) = (fresh / "cache" / "leaklab").iterdir()
    assert (left.suffix, (fresh / "built").read_text()) == (library.REFUSED, "\n")


@needs_compiler
def test_a_library_that_is_slower_than_autograd_is_of_no_use(monkeypatch):
    assert library.what_is_wrong(KEPT) == ""
    real = check.gradients

    def slow(*arguments):
        for _ in range(30):
            found = real(*arguments)
        return found

    monkeypatch.setattr(check, "gradients", slow)
    assert library.what_is_wrong(KEPT) == "is slower than torch on this processor"


@needs_compiler
def test_tensors_without_numbers_take_the_way_without_a_compiler():
    network = build("cnn-mnist")
    weights = {key: value[None] for key, value in network.state_dict().items()}
    form = forms.trainable(network, SHAPE)
    assert isinstance(form, LanesNetwork)
    with FakeTensorMode(allow_non_fake_inputs=True):
        assert form.logits(weights, torch.zeros(1, 4, *SHAPE), {}).shape == (1, CLASSES, 4)


@needs_compiler
def test_a_library_that_was_damaged_is_built_again(monkeypatch, fresh_with_library):
    built = library.kept_or_built()
    built.write_bytes(b"damaged")
    assert agrees(library.library())
    assert built.read_bytes() != b"damaged"


@needs_compiler
def test_a_library_with_another_sign_does_not_agree():
    class Wrong:
        def __getattr__(self, name):
            function = getattr(library.library(), name)
            if not name.startswith("gradients"):
                return function

            def call(*arguments):
                function(*arguments)
                ctypes.cast(arguments[-2], ctypes.POINTER(ctypes.c_double))[0] *= -1

            return call

    assert agrees(library.library())
    assert not agrees(Wrong())
