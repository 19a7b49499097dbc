"""The vision transformer is timm's function, trains as the others do, and an update of it can be simulated."""

from importlib.util import find_spec

import pytest
import torch
from torch.nn import functional as F

from leaklab.attacks.matching.steps import simulated_delta
from leaklab.defenses.base import ClientContext, NoDefense
from leaklab.federated.batches import Batch
from leaklab.federated.forms.network import trainable
from leaklab.federated.local import local_training
from leaklab.models import published
from leaklab.models.adapted import is_frozen
from leaklab.records import plugins
from leaklab.records.errors import UserError
from leaklab.records.streams import stream

SHAPE, TINY = (3, 8, 8), {"patch": 4, "width": 16, "blocks": 2, "heads": 2}


def network_of(shape=SHAPE, classes=10, seed=0, **settings):
    return plugins.load("models", "vit", {**TINY, **settings}).initialised(shape, classes, seed, torch.float64)


@pytest.mark.skipif(find_spec("timm") is None, reason="timm is not installed: pip install timm")
@pytest.mark.parametrize("side", [0, 16])
def test_it_is_timms_function(side):
    from timm.models.vision_transformer import VisionTransformer

    ours = network_of(side=side).eval()
    with torch.random.fork_rng():
        theirs = VisionTransformer(
            img_size=side or 8, patch_size=4, embed_dim=16, depth=2, num_heads=2, num_classes=10
        ).double().eval()  # fmt: skip
    names = {"tokens.cls_token": "cls_token", "tokens.pos_embed": "pos_embed", "fc.weight": "head.weight",
             "fc.bias": "head.bias"}  # fmt: skip
    theirs.load_state_dict({names.get(name, name): value for name, value in ours.state_dict().items()}, strict=True)
    images = stream(0, "images").normal(2, *SHAPE)
    enlarged = F.interpolate(images, size=(16, 16), mode="bilinear") if side else images
    assert torch.allclose(ours(images), theirs(enlarged), rtol=0, atol=1e-12)


@pytest.mark.skipif(find_spec("timm") is None, reason="timm is not installed: pip install timm")
def test_weights_of_timms_small_vit_are_a_frozen_part_of_the_adapted_one(tmp_path, monkeypatch):
    """As they are published: below ``model``, by timm's names; with adapters at zero the features are timm's."""
    from timm.models.vision_transformer import VisionTransformer

    small = {"patch_size": 16, "embed_dim": 384, "depth": 12, "num_heads": 6}
    with torch.random.fork_rng():
        torch.manual_seed(0)
        theirs = VisionTransformer(img_size=224, num_classes=1000, **small).eval()
    file = tmp_path / "weights/deit_small_patch16_224-cd65a155.pth"
    file.parent.mkdir()
    torch.save({"model": theirs.state_dict()}, file)
    monkeypatch.setattr(published, "weights_path", lambda name: file)
    state = published.published_state("vit-small-imagenet")
    own = {"patch": 16, "width": 384, "blocks": 12, "heads": 6, "side": 224}
    network = plugins.load("models", "vit-adapted", own).initialised((3, 32, 32), 10, 0).eval()
    frozen = {name for name in network.state_dict() if is_frozen(name)}
    assert frozen == {name for name in state if not name.startswith("fc.")}
    closed = {name: torch.zeros_like(value) for name, value in network.state_dict().items() if ".adapter.up." in name}
    assert len(closed) == 2 * 12
    network.load_state_dict({**{name: state[name] for name in frozen}, **closed}, strict=False)
    images = stream(0, "images").normal(2, 3, 32, 32).float()
    enlarged = F.interpolate(images, size=(224, 224), mode="bilinear")
    with torch.no_grad():
        features = torch.nn.Sequential(*list(network.children())[:-1])(images)
        assert torch.allclose(features, theirs.forward_features(enlarged)[:, 0], rtol=0, atol=1e-4)


def test_the_papers_size():
    network = plugins.load("models", "vit", {"patch": 16, "width": 768, "blocks": 12, "heads": 12, "side": 224})
    with torch.device("meta"):
        count = sum(p.numel() for layer in network.layers((3, 32, 32), 100).values() for p in layer.parameters())
    assert count == 85_875_556  # timm's vit_base_patch16_224 with 100 classes


def test_weights_come_from_the_stream_alone_and_every_layer_starts():
    before = torch.get_rng_state()
    first, again, other = (network_of(seed=seed) for seed in (0, 0, 1))
    assert torch.equal(before, torch.get_rng_state())
    for name, value in first.named_parameters():
        assert torch.equal(value, again.get_parameter(name))
        drawn = name.endswith(("weight", "pos_embed")) and "norm" not in name
        assert drawn != torch.equal(value, other.get_parameter(name)) or name == "patch_embed.proj.bias"
        assert name.endswith(("bias", "cls_token")) or bool(value.abs().max() > 0), name
    assert all(torch.equal(first.get_parameter(f"blocks.{n}.norm1.weight"), torch.ones(16).double()) for n in (0, 1))


def test_f2_the_simulated_update_is_the_clients_and_its_derivative_is_right():
    network, steps, rate = network_of(), 2, 0.1
    draws = stream(0, "samples")
    images, labels = draws.uniform(2, 3, *SHAPE), draws.integers(0, 10, 2, 3)
    weights = {name: value.detach().expand(2, *value.shape) for name, value in network.named_parameters()}
    contexts = [ClientContext(scaled_rate=rate, seed=0, client=client) for client in range(2)]
    form = trainable(network_of(), SHAPE)
    sent = local_training(form, weights, [Batch(images, labels, {})] * steps, contexts, NoDefense())
    network = network.eval().requires_grad_(requires_grad=False)
    targets, rates = F.one_hot(labels, 10).double(), torch.full((2, steps), rate, dtype=torch.float64)
    ours = simulated_delta(network, images, targets, rates)
    for name, value in sent.weights.items():
        assert torch.allclose(ours[name], value - weights[name], rtol=0, atol=1e-12), name

    def loss(pixels):
        delta = simulated_delta(network, pixels, targets, rates)
        return sum(((value - 0.9 * ours[name]) ** 2).sum() for name, value in delta.items())

    direction, step = draws.normal(*images.shape), 1e-3
    points = images.clone().requires_grad_()
    (slope,) = torch.autograd.grad(loss(points), points)
    numeric = (loss(images + step * direction) - loss(images - step * direction)) / (2 * step)
    assert float((slope * direction).sum()) == pytest.approx(float(numeric), rel=1e-6)


@pytest.mark.parametrize(
    ("settings", "message"),
    [({"patch": 3}, "cut 8x8 into patches of 3"), ({"heads": 3}, "width of 16 among 3 heads")],
)
def test_what_does_not_fit_is_one_clear_line(settings, message):
    with pytest.raises(UserError, match=message):
        network_of(**settings)
