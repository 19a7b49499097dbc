"""GradDefense against a loop over entries and samples; its slices, clipping and noise; refusals."""

from dataclasses import replace
from functools import partial
from itertools import pairwise
from math import nan

import pytest
import torch
from torch.nn import functional as F

from leaklab.defenses.base import Alone, ClientContext
from leaklab.defenses.grad_defense import GradDefense, clipped_mean, equal_cuts, sensitivities
from leaklab.federated.batches import Batch
from leaklab.federated.forms.network import trainable
from leaklab.federated.local import local_training
from leaklab.models.cnns import DLGLeNet
from leaklab.models.resnets import SmallResNet
from leaklab.records import plugins
from leaklab.records.errors import UserError
from leaklab.records.streams import stream

SHAPE, CLASSES = (1, 8, 8), 5
MODELS = {"dlg-lenet": DLGLeNet(n_conv=3), "resnet-small": SmallResNet(width=4)}


@pytest.fixture(params=MODELS)
def model(request):
    return MODELS[request.param]


@pytest.fixture
def batch():
    draws = stream(0, "samples")
    return {"images": draws.normal(3, *SHAPE), "labels": draws.integers(0, CLASSES, 3)}


def network_of(model):
    return model.initialised(SHAPE, CLASSES, 1, torch.float64).eval()


def at(context, model, batch, step=0):
    network = network_of(model)
    return context.at(Alone(step, dict(network.state_dict()), batch, partial(model.build, SHAPE, CLASSES)))


def slopes(network, images, labels, create_graph=False):
    loss = F.cross_entropy(network(images), labels)
    return dict(
        zip(
            dict(network.named_parameters()),
            torch.autograd.grad(loss, list(network.parameters()), create_graph=create_graph),
            strict=True,
        )
    )


def slow_sensitivities(network, batch):
    """One sample and one parameter at a time, each entry of the image by a difference quotient of second order."""
    found = {name: 0.0 for name, _ in network.named_parameters()}
    for image, label in zip(batch["images"], batch["labels"], strict=True):
        sums = {name: torch.zeros_like(image) for name in found}
        for place in range(image.numel()):
            ends = []
            for sign in (1, -1):
                moved = image.clone()
                moved.view(-1)[place] += sign * 1e-5
                ends.append(slopes(network, moved[None], label[None]))
            for name, own in sums.items():
                own.view(-1)[place] = (ends[0][name].sum() - ends[1][name].sum()) / 2e-5
        for name, own in sums.items():
            found[name] += float(own.norm()) / len(batch["labels"])
    return found


def test_sensitivities_equal_difference_quotients(batch):
    network = network_of(MODELS["dlg-lenet"])
    expected = slow_sensitivities(network, batch)
    found = sensitivities(network, batch["images"], batch["labels"])
    assert list(found) == list(expected)
    assert found == pytest.approx(expected, rel=1e-4, abs=1e-7)


def test_the_last_layer_has_no_sensitivity_and_lies_in_one_slice(model, batch):
    """The slopes of a cross-entropy by its logits sum up to zero, whatever the image, so those of the head do too."""
    network = network_of(model)
    found = sensitivities(network, batch["images"], batch["labels"])
    assert max(found["fc.weight"], found["fc.bias"]) < 1e-12 * found["conv1.weight"]
    sizes = [value.numel() for value in network.parameters()]
    cuts = equal_cuts(list(found.values()), sizes, 10)
    head = network.get_parameter("fc.weight").numel() + CLASSES
    assert cuts[-2] <= sum(sizes) - head


def slow_slices(sensitivity, sizes, slices):
    """Go through the entries one by one; an entry belongs to the slice that its middle falls into."""
    share, spent, result = sum(sensitivity) / slices, 0.0, []
    for own, size in zip(sensitivity, sizes, strict=True):
        for _ in range(size):
            result.append(int((spent + own / size / 2) / share))
            spent += own / size
    return result


@pytest.mark.parametrize("slices", [1, 3, 10])
def test_slices_are_of_equal_sensitivity(slices):
    draws = stream(3, "sizes")
    sizes, sensitivity = [300, 12, 3600, 12, 960, 10], draws.uniform(6).tolist()
    cuts = equal_cuts(sensitivity, sizes, slices)
    expected = slow_slices(sensitivity, sizes, slices)
    assert (cuts[0], cuts[-1], len(cuts)) == (0, sum(sizes), slices + 1)
    assert [expected.count(place) for place in range(slices)] == [end - first for first, end in pairwise(cuts)]
    each = [own / size for own, size in zip(sensitivity, sizes, strict=True) for _ in range(size)]
    sums = [sum(each[first:end]) for first, end in pairwise(cuts)]
    assert sums == pytest.approx([sum(sensitivity) / slices] * slices, abs=max(each))


@pytest.mark.parametrize("sensitivity", [[0.0, 0.0], [nan, 1.0]])
def test_without_a_measure_every_entry_counts_alike(sensitivity):
    assert equal_cuts(sensitivity, [30, 10], 4) == [0, 10, 20, 30, 40]


def slow_defended(network, batch, chosen, noise, slices, sigma, clip):
    """Sample by sample and entry by entry: slices, norms, clipping, mean, noise."""
    measured = slow_sensitivities(network, {name: value[:1] for name, value in batch.items()})
    sizes = [value.numel() for value in network.parameters()]
    place_of = slow_slices(list(measured.values()), sizes, slices)
    total = [0.0] * sum(sizes)
    for image, label in zip(batch["images"], batch["labels"], strict=True):
        own = torch.cat([slope.flatten() for slope in slopes(network, image[None], label[None]).values()]).tolist()
        for place in range(slices):
            inside = [entry for entry, where in enumerate(place_of) if where == place]
            norm = sum(own[entry] ** 2 for entry in inside) ** 0.5
            shorter = max(1.0, norm / sigma) if clip and place in chosen else 1.0
            for entry in inside:
                total[entry] += own[entry] / shorter / len(batch["labels"])
    for entry, where in enumerate(place_of):
        if where in chosen:
            total[entry] += sigma * next(noise)
    return torch.tensor(total, dtype=torch.float64)


@pytest.mark.parametrize(("clip", "sigma"), [(True, 0.01), (True, 0.2), (True, 50.0), (False, 0.01)])
def test_a_step_equals_the_loop(context, batch, clip, sigma):
    """With a bound of 0.2 some samples are short and stay as they are, with 50 all of them."""
    model, defense = MODELS["dlg-lenet"], GradDefense(clip=clip, sigma=sigma)
    network = network_of(model)
    draws = replace(context, _streams={})
    chosen = set(draws.stream("chosen slices").permutation(10)[:5].tolist())
    normal = draws.stream("noise")
    noise = iter(lambda: float(normal.normal()), None)
    expected = slow_defended(network, batch, chosen, noise, 10, sigma, clip)
    gradients = slopes(network, batch["images"], batch["labels"])
    found = defense.gradient(gradients, at(replace(context, _streams={}), model, batch))
    assert {name: value.shape for name, value in found.items()} == {n: v.shape for n, v in gradients.items()}
    torch.testing.assert_close(torch.cat([v.flatten() for v in found.values()]), expected, rtol=1e-9, atol=1e-11)


def test_only_samples_above_the_bound_are_shortened():
    """A short one is never lengthened up to the bound, in however many pieces its slice lies."""
    rows = torch.tensor([[0.3, 0.4, 0.0], [0.0, 3.0, 4.0], [0.0, 0.0, 0.0]])
    kept = torch.tensor([[0.3, 0.4, 0.0], [0.0, 0.6, 0.8], [0.0, 0.0, 0.0]])
    for cut in range(1, 3):
        torch.testing.assert_close(clipped_mean([rows[:, :cut], rows[:, cut:]], 1.0), kept.mean(0))


def test_noise_is_fresh_and_falls_on_other_slices_from_step_to_step(context, batch):
    model, defense = MODELS["dlg-lenet"], GradDefense(clip=False)
    client = replace(context, _streams={})
    gradients = slopes(network_of(model), batch["images"], batch["labels"])
    steps = [defense.gradient(gradients, at(client, model, batch, step)) for step in range(12)]
    plain = torch.cat([value.flatten() for value in gradients.values()])
    noise = torch.stack([torch.cat([value.flatten() for value in step.values()]) - plain for step in steps])
    touched = noise != 0
    assert len({tuple(row) for row in touched.tolist()}) > 6
    assert float(noise[touched].std()) == pytest.approx(0.01, rel=0.03)
    assert float(touched.double().mean()) < 1
    assert bool(touched.any(0).all())


def test_slices_belong_to_the_weights_of_the_first_step(context, batch):
    """Later steps of a round keep the cuts; a new round measures again."""
    model = MODELS["dlg-lenet"]
    gradients = slopes(network_of(model), batch["images"], batch["labels"])
    other = {**batch, "images": 5 * batch["images"].flip(0)}

    def cuts(steps):
        client = replace(context, _streams={})
        found = [GradDefense().gradient(gradients, at(client, model, own, step)) for step, own in enumerate(steps)]
        return [{name: value != gradients[name] for name, value in one.items()} for one in found]

    kept, fresh = cuts([batch, other])[1], cuts([other, other])[1]
    same = cuts([batch, batch])[1]
    assert all(torch.equal(kept[name], value) for name, value in same.items())
    assert any(not torch.equal(kept[name], value) for name, value in fresh.items())


CLIENTS = 7


def trained(model, chunk):
    """Return the weights of seven clients after two steps, ``chunk`` of them trained together."""
    network = model.initialised(SHAPE, CLASSES, 1, torch.float64)
    draws = stream(0, "samples")
    images, labels = draws.normal(CLIENTS, 2, *SHAPE), draws.integers(0, CLASSES, CLIENTS, 2)
    found = []
    for first in range(0, CLIENTS, chunk):
        who = range(first, min(first + chunk, CLIENTS))
        state = {name: value.detach().expand(len(who), *value.shape) for name, value in network.state_dict().items()}
        batch = Batch(images[who.start : who.stop], labels[who.start : who.stop], {})
        contexts = [ClientContext(0.5, seed=0, client=client) for client in who]
        form, build = trainable(model.build(SHAPE, CLASSES).double(), SHAPE), partial(model.build, SHAPE, CLASSES)
        done = local_training(form, state, [batch] * 2, contexts, GradDefense(root_samples=2), build=build)
        found.append(done.weights)
    return {name: torch.cat([one[name] for one in found]) for name in found[0]}


def test_lifted_clients_are_what_each_is_alone(model):
    alone, together = trained(model, 1), trained(model, CLIENTS)
    for name, value in alone.items():
        torch.testing.assert_close(together[name], value, rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"noised": 0.0}, "noised"),
        ({"noised": 5}, "noised"),
        ({"sigma": float("inf")}, "sigma"),
        ({"slices": 0}, "slices"),
        ({"root_samples": 0}, "root_samples"),
    ],
)
def test_settings_out_of_range_are_refused_with_a_plan_and_without(settings, message):
    with pytest.raises(UserError, match=f"'grad-defense': {message}"):
        plugins.check("defenses", "grad-defense", settings)
    with pytest.raises(UserError, match=f"defense grad-defense: {message}"):
        GradDefense(**settings)


def test_wrong_use_is_refused(context, batch):
    model = MODELS["dlg-lenet"]
    with pytest.raises(UserError, match="root_samples is 4, but a batch has 3: lower it"):
        GradDefense(root_samples=4).gradient({}, at(context, model, batch))
    with pytest.raises(UserError, match="theta is no parameter of the network"):
        GradDefense().gradient({"theta": torch.zeros(3)}, at(context, model, batch))
    with pytest.raises(UserError, match="looks into the network"):
        GradDefense().gradient({}, ClientContext(1.0, 0, 0).at(Alone(0, dict(network_of(model).state_dict()), batch)))
