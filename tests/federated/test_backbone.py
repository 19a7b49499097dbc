"""A frozen part is a constant of the sweep: in no state and no average, unchanged, a shortcut where it comes first."""

import pytest
import torch
import torch.nn.functional as F
from torch.testing import assert_close

from leaklab.federated.batches import Visit
from leaklab.federated.engine import train
from leaklab.federated.forms import network as backbones
from leaklab.models.adapted import is_frozen
from leaklab.records import plugins
from leaklab.records.errors import UserError
from leaklab.report.collect.source import _substitute_backbone
from leaklab.specs.capture import CaptureSpec, ImageChoice

torch.set_num_threads(1)
ADAPTED = {"name": "resnet-small-adapted", "width": 4, "channels": 1}
VIT = {"name": "vit-adapted", "patch": 4, "width": 8, "blocks": 1, "heads": 2, "reduction": 2}
FIXED = [{**ADAPTED, "tuning": "fixed"}, {**VIT, "tuning": "fixed"}]


def varied(spec, **changes):
    few = {"rounds": 2, "local_steps": 2, "rates": ((0.05,),), "seeds": (5,), "evaluate_every": 0}
    return type(spec).model_validate(spec.model_dump() | few | changes)


def by_hand(spec, dataset, clients):
    """One seed of federated averaging (scheme 1) of whole networks, one step of one client after the other."""
    model = plugins.load("models", spec.model.name, spec.model.settings)
    frozen = model.initialised(dataset.shape, dataset.num_classes, backbones.UNTRAINED_SEED, torch.float64).state_dict()
    start = model.initialised(dataset.shape, dataset.num_classes, spec.seeds[0], torch.float64).state_dict()
    state = {name: frozen[name] if is_frozen(name) else value for name, value in start.items()}
    images, sizes = dataset.normalised(dataset.train_images, torch.float64), [len(held) for held in clients]
    for index in range(spec.rounds):
        ends = []
        for client, held in enumerate(clients):
            network = model.build(dataset.shape, dataset.num_classes).double().train()
            network.load_state_dict(state, strict=True)
            learned = [value for name, value in network.named_parameters() if not is_frozen(name)]
            rate = spec.rates[0][0] * sizes[client] * len(sizes) / sum(sizes)
            descent = torch.optim.SGD(learned, lr=rate, weight_decay=spec.weight_decay)
            for chosen in Visit(spec.seeds[0], client, index, held).batch_indices(spec.local_steps, spec.batch_size):
                descent.zero_grad()
                F.cross_entropy(network(images[chosen]), dataset.train_labels[chosen]).backward()
                descent.step()
            ends.append(network.state_dict())
        state = {name: sum(end[name] for end in ends) / len(ends) for name in state}
    return {name: value for name, value in state.items() if not is_frozen(name)}


@pytest.mark.parametrize("model", [ADAPTED, VIT, *FIXED])
def test_training_is_that_of_the_whole_network_with_its_backbone_held_still(spec, dataset, clients, model):
    spec = varied(spec, model=model)
    sweep = train(spec, dataset, clients)
    expected = by_hand(spec, dataset, clients)
    assert sorted(sweep.weights) == sorted(expected)
    assert_close({name: value[0] for name, value in sweep.weights.items()}, expected, rtol=1e-9, atol=1e-11)
    assert sweep.table["backbone_checksum_changed"].tolist() == [0.0]


@pytest.mark.parametrize("model", FIXED)
def test_a_frozen_extractor_is_computed_once(spec, dataset, clients, model, monkeypatch):
    """Its training steps never see an image; and the numbers are those of a network that does."""
    spec, seen = varied(spec, model=model, evaluate=("test", "train")), []
    features = backbones.Backbone.features
    monkeypatch.setattr(
        backbones.Backbone, "features", lambda self, images: seen.append(self.shape) or features(self, images)
    )
    fast = train(spec, dataset, clients)
    monkeypatch.setattr(backbones, "_constant_layers", lambda *_: 0)
    slow = train(spec, dataset, clients)
    width = 16 if "resnet" in model["name"] else 8
    assert seen == [(width, 1, 1)] * 2 + [dataset.shape] * 2
    assert_close(fast.weights, slow.weights, rtol=1e-10, atol=1e-12)
    assert fast.table["test_accuracy"].tolist() == slow.table["test_accuracy"].tolist()


def test_adapters_let_nothing_be_computed_once(spec, dataset, clients):
    """What leaves the first stage is larger than an image."""
    spec = varied(spec, model=ADAPTED)
    model = plugins.load("models", "resnet-small-adapted", spec.model.settings)
    parts = backbones.Backbone.of(spec, model, dataset, {}, torch.device("cpu"))
    assert len(parts.extractor) == 0
    assert sorted(parts.within) == sorted(parts.constant)


def test_no_augmented_image_is_computed_once(spec, dataset, clients):
    spec = varied(spec, model=FIXED[0], augmentation="crop-flip-cutout")
    model = plugins.load("models", "resnet-small-adapted", spec.model.settings)
    assert len(backbones.Backbone.of(spec, model, dataset, {}, torch.device("cpu")).extractor) == 0


def test_a_backbone_that_moved_is_seen(spec, dataset, clients):
    model = plugins.load("models", "resnet-small-adapted", {"width": 4})
    parts = backbones.Backbone.of(varied(spec, model=ADAPTED), model, dataset, {}, torch.device("cpu"))
    assert parts.columns == {"backbone_checksum_changed": 0.0}
    parts.constant["bn1.running_mean"][0] += 1e-12
    assert parts.columns == {"backbone_checksum_changed": 1.0}


@pytest.mark.parametrize("algorithm", ["local-only", "hyperfl"])
def test_clients_keep_and_send_nothing_of_the_backbone(spec, dataset, clients, algorithm):
    settings = {"embedding": 4, "hidden": 6, "classifier_steps": 1} if algorithm == "hyperfl" else {}
    tests = [torch.arange(8) + 8 * k for k in range(3)]
    changes = {"model": ADAPTED, "algorithm": {"name": algorithm, **settings}, "evaluate": ("own-test",)}
    changes["partition"] = {**spec.partition.model_dump(), "tests": 8}
    sweep = train(varied(spec, **changes), dataset, clients, tests=tests)
    names = {*sweep.weights, *sweep.clients}
    assert not any(is_frozen(name) for name in names if not name.startswith("hypernetwork.") and name != "embedding")
    made = {name for name in names if name.startswith("hypernetwork.heads.")}
    assert all("adapter" in name and "running" not in name for name in made)
    assert bool(made) == (algorithm == "hyperfl")
    assert {"adapter1.norm1.running_mean", "fc.bias"} <= set(sweep.clients)
    assert sweep.table["backbone_checksum_changed"].tolist() == [0.0]


def test_a_backbone_of_a_training_is_its_first_replicate(spec, dataset, clients):
    """Pretrained here: the frozen part is the global network without its head, whatever the number of classes."""
    plain = varied(spec, model={"name": "resnet-small", "width": 4}, seeds=(5, 6))
    pretrained = train(plain, dataset, clients)
    own = varied(spec, model=ADAPTED, backbone={"train": plain.model_dump()})
    model = plugins.load("models", "resnet-small-adapted", own.model.settings)
    parts = backbones.Backbone.of(own, model, dataset, pretrained.weights, torch.device("cpu"))
    for name, value in parts.constant.items():
        assert torch.equal(value, pretrained.weights[name][0]), name
    assert not torch.equal(train(own, dataset, clients, pretrained=pretrained.weights).weights["fc.weight"],
                           train(varied(spec, model=ADAPTED), dataset, clients).weights["fc.weight"])  # fmt: skip


def test_a_backbone_of_another_size_is_refused_in_one_line(spec, dataset, clients):
    plain = varied(spec, model={"name": "resnet-small", "width": 8})
    pretrained = train(varied(spec, model={"name": "resnet-small", "width": 8}, until=0), dataset, clients)
    own = varied(spec, model=ADAPTED, backbone={"train": plain.model_dump()})
    with pytest.raises(UserError, match=r"'conv1.weight' is \(8, 1, 3, 3\) there and \(4, .* choose the settings"):
        train(own, dataset, clients, pretrained=pretrained.weights)


def test_a_model_without_a_frozen_part_wants_no_backbone(spec, dataset, clients):
    own = varied(spec, backbone={"weights": "resnet20-cifar10"})
    with pytest.raises(UserError, match="model 'mlp' has no frozen part"):
        train(own, dataset, clients)


@pytest.mark.parametrize("wrong", [{}, {"weights": "a", "train": None, "block": "b"}])
def test_a_backbone_has_one_source(spec, wrong):
    with pytest.raises(ValueError, match="backbone"):
        varied(spec, backbone=wrong)


def test_plans_refuse_a_backbone_without_a_frozen_part_and_captures_of_one(spec):
    with pytest.raises(UserError, match="x: model 'mlp' has no frozen part"):
        varied(spec, backbone={"weights": "resnet20-cifar10"}).check_plugins("x")
    varied(spec, model=ADAPTED, backbone={"weights": "resnet20-cifar10"}).check_plugins("x")
    capture = CaptureSpec(dataset="digits", images=ImageChoice(count=1), model=ADAPTED)
    with pytest.raises(UserError, match="has a frozen part, which a capture does not know"):
        capture.check_plugins("x")


def test_the_readers_are_told_what_the_backbone_saw(spec):
    plain = varied(spec, model={"name": "resnet-small", "width": 4})
    told = {None: "untrained backbone", "train": "backbone resnet-small trained on stripes", "weights": ""}
    given = {None: None, "train": {"train": plain.model_dump()}, "weights": {"weights": "resnet20-cifar10"}}
    for kind, text in told.items():
        assert _substitute_backbone(varied(spec, model=ADAPTED, backbone=given[kind])) == text
    assert _substitute_backbone(plain) == ""
