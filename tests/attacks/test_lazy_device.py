"""Attacks leave no tensor behind on the processor: on a device that refuses such they find the same.

Every attack and every transform of the house is listed, each with a victim whom it fits. Attacks on sentences know no
device.
"""

from dataclasses import replace

import pytest
import torch
from torch.testing import assert_close

from leaklab.attacks.learnt import laws
from leaklab.attacks.learnt.linear import Rehearsals
from leaklab.attacks.learnt.runs import SlicedLaw
from leaklab.attacks.run import attacked
from leaklab.captures.capture import capture
from leaklab.data.dataset import Dataset
from leaklab.federated.engine import train
from leaklab.models.generators.class_gaussian import ClassGaussian
from leaklab.observations.base import Observation
from leaklab.records import plugins
from leaklab.specs.attack import AttackerSpec
from leaklab.specs.capture import CaptureSpec
from leaklab.specs.training import TrainSpec

PUBLIC = 400
PERCEPTRON = {"name": "mlp", "hidden": 64, "dropout": 0.0}
BATCH = {"images": {"count": 4, "seed": 1}, "batch_size": 2}
# L-BFGS remembers one step more in each, so that the device compiles twenty graphs: of the smallest network
ONE = {"images": {"count": 1, "seed": 1}, "model": "logistic-regression"}
STEPS = {"local_steps": 2, "kind": "delta"}
IG = {"name": "ig", "total_variation": 1e-2}
IMPRINT = {"threat_model": "malicious-server", "server": {"name": "imprint", "mean": 0.305, "std": 0.04}}
STAGES = {"label_rule": "known", "stages": 2}

# attack with its settings -> the capture
ATTACKS = [
    ("analytic", {}, {"model": PERCEPTRON}),
    ("annealed-map", STAGES, BATCH),
    ("annealed-map", {**STAGES, "matching": "unrolled"}, {**BATCH, **STEPS}),
    ("narrow-map", {"label_rule": "known"}, BATCH),
    ("annealed-sum", {"stages": 2}, {**BATCH, "defense": "masked-sum"}),
    ("csdlg", {}, {**ONE, **STEPS}),
    ("csdlg", {"optimizer": "signed-adam", "total_variation": 0.01, "dummy": "client"}, {**BATCH, **STEPS}),
    ("delta-dlg", {}, {**ONE, **STEPS}),
    ("delta-ig", {"matching": "nominal"}, STEPS),
    ("delta-ig", {"matching": "joint-rates"}, {**STEPS, "defense": "lrp"}),
    ("delta-ig", {"matching": "profiled-rates"}, {**STEPS, "defense": "lrp"}),
    ("delta-ig", {"matching": "surrogate"}, {**STEPS, "defense": "lrp"}),
    ("dlg", {}, ONE),
    ("exact-batch", {}, {**BATCH, "model": PERCEPTRON}),
    ("ggl", {"population": 8}, {}),
    ("ggl", {"optimizer": "adam"}, {}),
    ("head-lookup", {}, {}),
    ("idlg", {}, ONE),
    ("ig", {"total_variation": 1e-2}, BATCH),
    ("imprint", {}, {**BATCH, **IMPRINT, "model": PERCEPTRON}),
    ("position-reading", {}, {"model": {"name": "vit", "patch": 4, "width": 16, "blocks": 1, "heads": 2}}),
    ("rog-lite", {}, {}),
    ("support-quotient", {}, {"model": PERCEPTRON, "defense": "gradient-compression"}),
    ("unmixed-pictures", {}, {**BATCH, "model": PERCEPTRON}),
]
OF_POOLS = ("pool-peel", "pool-peel-smooth")
RESIDUAL = "residual-peel"
SLOW = {"dlg", "idlg", "csdlg", "delta-dlg", "annealed-likelihood", "annealed-map", "annealed-sum", "narrow-map"}
GENERATIVE = {"annealed-likelihood", "annealed-map", "annealed-sum", "ggl", "head-lookup", "narrow-map"}

# transform -> attack, and the capture
LIKELIHOOD = {"name": "annealed-likelihood", **STAGES}
TRANSFORMS = {
    "clip-emulation": (IG, {"defense": {"name": "gradient-clipping", "bound": 0.1}}),
    "closed-form-scale": (IG, {"defense": "lrp"}),
    "masked-columns": (IG, {"defense": "soteria"}),
    "matched-dp-sgd": (IG, {"defense": "dp-sgd"}),
    "matched-laplace": (LIKELIHOOD, {**BATCH, "defense": "laplace-noise"}),
    "matched-noise": (IG, {"defense": "additive-noise"}),
    "muted-layer": (IG, {"defense": "soteria"}),
    "none": (IG, {}),
    "outpost-support": (IG, {"defense": "outpost"}),
    "profiled-scale": (IG, {"defense": "lrp"}),
    "prune-emulation": (IG, {"defense": "gradient-compression"}),
    # of an update with convolutions the device computes another likelihood, by twenty-five orders of magnitude
    "ranked-mixture": (LIKELIHOOD, {**ONE, "defense": "outpost"}),
    "sliced-mixture": (LIKELIHOOD, {**BATCH, "defense": "grad-defense"}),
    "support-only": (IG, {"defense": "gradient-compression"}),
    "unmixed-scale": (IG, {**BATCH, "defense": "lrp"}),
}
HYPERFL = {"name": "hyperfl", "embedding": 3, "hidden": 4, "classifier_steps": 0}
# transform with its settings -> the algorithm whose clients are attacked, and their defense
OF_ALGORITHMS = [
    ("drawn-embedding", {}, HYPERFL, "none"),
    ("linear-heads", {}, HYPERFL, "none"),
    ("linear-heads", {"classifier": "drawn"}, HYPERFL, "none"),
    ("two-level", {"iterations": 3}, HYPERFL, "none"),
    ("private-classifier", {}, {"name": "ppsgd"}, "none"),
    ("matched-dp-sgd-extractor", {}, {"name": "ppsgd"}, "dp-sgd"),
]


@pytest.fixture(scope="module")
def dataset(digits):
    images, labels = (digits[0] * 255).round().to(torch.uint8), digits[1]
    mean, std = torch.tensor([0.3]), torch.tensor([0.4])
    return Dataset("digits", 10, images[:PUBLIC], labels[:PUBLIC], images[PUBLIC:], labels[PUBLIC:], mean, std)


@pytest.fixture(scope="module")
def generator(digits):
    return ClassGaussian(components=4, kept=20).fitted(digits[0][:PUBLIC].float(), digits[1][:PUBLIC], 10)


@pytest.fixture
def both(lazy, generator):
    """Return a function that attacks on the processor and on the lazy device, for some iterations."""

    def run(captured, attack, transform="none", law=None):
        # one of L-BFGS are twenty evaluations
        few = {"iterations": 1} if attack["name"] in SLOW else {"iterations": 3, "restarts": 2}
        spec = AttackerSpec.model_validate({"attack": attack, "transform": transform, **few})
        prior = generator if attack["name"] in GENERATIVE else None
        laws_there = {device: on(law, device) for device in ("cpu", lazy)}
        return [attacked(spec, *captured, device, prior, own) for device, own in laws_there.items()]

    return run


def on(law, device):
    return law and (law[0], {name: tensor.to(device) for name, tensor in law[1].items()})


def drawn(dataset, changes):
    fields = {"dataset": "digits", "images": {"count": 2, "seed": 1}, "model": "dlg-lenet", "rate": 0.1,
              "threat_model": "honest-but-curious-with-labels"}  # fmt: skip
    return capture(CaptureSpec.model_validate({**fields, **changes}), dataset)[:2]


def dealt(dataset, algorithm, defense):
    """Return what the server sees of a client of an algorithm with messages of its own, and knows."""
    deal = [torch.arange(20 * client, 20 * client + 12) for client in range(3)]
    shared = {"dataset": "digits", "model": {"name": "mlp", "hidden": 6, "dropout": 0.0}, "local_steps": 1,
              "batch_size": 1, "algorithm": algorithm, "dtype": "float64"}  # fmt: skip
    training = TrainSpec.model_validate({
        **shared, "partition": {"name": "two-clients", "tests": 4}, "evaluate": ["own-test"], "rates": [[0.1]],
        "rounds": 3, "seeds": [2], "until": 0,
    })  # fmt: skip
    done = train(training, dataset, deal, tests=[torch.arange(4)] * 3)
    weights = {**done.weights, **{f"clients/{name}": value for name, value in done.clients.items()}}
    spec = CaptureSpec.model_validate({
        **shared, "images": {"partition": training.partition, "clients": [2, 0]}, "state": {"train": training},
        "defense": defense, "threat_model": "honest-but-curious-with-labels", "rate": 0.1,
    })  # fmt: skip
    return capture(spec, dataset, deal, weights)[:2]


def assert_same(here, there):
    assert torch.equal(there.labels, here.labels)
    # 1e-9: L-BFGS adds up in another order, and twenty of its steps make more of that
    for part in ("images", "candidates", "candidate_losses", "scale"):
        assert_close(getattr(there, part), getattr(here, part), rtol=1e-9, atol=1e-9, equal_nan=True, msg=part)
    wanted, found = ([(s.trial, s.evaluations, s.stopped) for s in one.starts] for one in (here, there))
    assert found == wanted


@pytest.mark.parametrize(("name", "settings", "changes"), ATTACKS, ids=str)
def test_every_attack_works_there(both, dataset, name, settings, changes):
    assert_same(*both(drawn(dataset, changes), {"name": name, "settings": settings}))


@pytest.mark.parametrize("name", OF_POOLS)
def test_what_reads_pools_works_there(lazy, dataset, name):
    """On digits of twice the size, which two convolutions with pools take."""
    doubled = {key: getattr(dataset, key) for key in ("train_images", "test_images")}
    doubled = {key: value.repeat_interleave(2, 2).repeat_interleave(2, 3) for key, value in doubled.items()}
    large = replace(dataset, **doubled)
    prior = ClassGaussian(components=4).fitted(large.train_images / 255, large.train_labels, 10)
    captured = drawn(large, {"model": "cnn-mnist"})
    attack = {"name": name, "settings": {"turns": 2}}
    spec = AttackerSpec.model_validate({"attack": attack, "transform": "none", "iterations": 1, "restarts": 2})
    given = prior if name == "pool-peel" else None
    assert_same(*(attacked(spec, *captured, device, given, None) for device in ("cpu", lazy)))


def test_what_reads_residual_networks_works_there(lazy, dataset):
    prior = ClassGaussian(components=4).fitted(dataset.train_images / 255, dataset.train_labels, 10)
    captured = drawn(dataset, {"model": "resnet-small", "mode": "eval"})
    attack = {"name": RESIDUAL, "settings": {}}
    spec = AttackerSpec.model_validate({"attack": attack, "transform": "none", "iterations": 2, "restarts": 2})
    assert_same(*(attacked(spec, *captured, device, prior, None) for device in ("cpu", lazy)))


@pytest.mark.parametrize("transform", TRANSFORMS)
def test_every_transform_works_there(both, dataset, transform):
    attack, changes = TRANSFORMS[transform]
    assert_same(*both(drawn(dataset, changes), attack, transform))


@pytest.mark.parametrize("name", laws.KINDS)
def test_every_law_that_is_learnt_works_there(both, dataset, name):
    captured = drawn(dataset, {**ONE, "defense": "lrp"})
    gradient = {key: value.double() for key, value in captured[0].update.items()}
    own = [value.flatten(1).repeat(8, 1) * torch.arange(1.0, 9.0)[:, None] for value in gradient.values()]
    rehearsals = Rehearsals(tuple(own), tuple(own), draws=2)
    learnt = dict(laws.laws(rehearsals, [value.shape[1:] for value in gradient.values()]))
    learnt[laws.RUNS] = SlicedLaw(0.4, 0.1)
    fixed = tuple(torch.ones(value.shape[1]).double() for value in own)
    learnt[laws.LINEAR] = replace(learnt[laws.LINEAR], scope="whole", fixed=fixed, beta=(1e-3,) * len(own))
    assert_same(*both(captured, LIKELIHOOD, "learnt", laws.written(name, learnt[name])))


@pytest.mark.parametrize(("name", "settings", "algorithm", "defense"), OF_ALGORITHMS, ids=str)
def test_every_transform_of_an_algorithms_messages_works_there(both, dataset, name, settings, algorithm, defense):
    captured = dealt(dataset, algorithm, defense)
    assert_same(*both(captured, IG, {"name": name, "settings": settings}))


def test_every_attack_and_transform_is_listed():
    attacks = (
        {name for name, _, _ in ATTACKS} | {*OF_POOLS, RESIDUAL} | {attack["name"] for attack, _ in TRANSFORMS.values()}
    )
    assert attacks == set(plugins.available("attacks"))
    transforms = {*TRANSFORMS, "learnt"} | {name for name, *_ in OF_ALGORITHMS}
    assert transforms == set(plugins.available("attacks/adaptive"))


def test_an_update_that_was_left_on_the_processor_is_found(both, dataset, monkeypatch):
    whole = Observation.to

    def forgetful(self, device):
        return replace(whole(self, device), update=self.update)

    monkeypatch.setattr(Observation, "to", forgetful)
    with pytest.raises((AssertionError, RuntimeError), match=r"different devices|not a lazy tensor"):
        both(drawn(dataset, {}), {"name": "idlg", "settings": {}})
