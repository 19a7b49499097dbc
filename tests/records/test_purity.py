"""Numbers with a seed are numbers: of every kind of plug-in, who draws elsewhere or works in place is named."""

import random
import re
import time
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from torch import nn

from leaklab.attacks import run as attacks
from leaklab.attacks.adaptive.base import NoTransform
from leaklab.captures import manipulation
from leaklab.data import deal, prepare
from leaklab.defenses.base import ClientContext, Defense, NoDefense
from leaklab.federated.algorithms.base import Algorithm
from leaklab.federated.batches import Batch, Visit, batch_stream
from leaklab.federated.client_work import ClientWork
from leaklab.federated.engine import _Federation
from leaklab.federated.forms.one_by_one import OneByOne
from leaklab.federated.local import local_training
from leaklab.federated.optimizers import Sgd
from leaklab.metrics.landscape import distances
from leaklab.metrics.of_update import Certified, UpdateNorm, values_of_search, values_of_speaking
from leaklab.metrics.scoring import image_scores
from leaklab.models.base import Architecture
from leaklab.observations.base import Knowledge, Observation
from leaklab.records import purity
from leaklab.records.errors import UserError
from leaklab.records.purity import watched
from leaklab.records.streams import stream
from leaklab.specs.attack import AttackerSpec
from leaklab.specs.training import PartitionSpec
from leaklab.steps import attack_text, check_theory

DRAWS = {
    "torch": lambda _: torch.rand(1, device="cpu"),
    "numpy": lambda _: np.random.rand(),  # noqa: NPY002
    "random": lambda _: random.random(),
}
"""What draws from each global generator, whatever it is given."""


def in_place(value):
    value[...] = 0


@pytest.fixture
def loads(monkeypatch):
    """Return a function that gives a module a plug-in in place of the one that it loads."""
    return lambda module, plugin: monkeypatch.setattr(module.plugins, "load", lambda *_: plugin)


def trained(defense=None, optimizer=None, spoilt=None):
    network = nn.Sequential(spoilt or nn.Identity(), nn.Flatten(), nn.Linear(4, 3))
    weights = {name: value.detach().expand(2, *value.shape).clone() for name, value in network.named_parameters()}
    batch = Batch(torch.ones(2, 1, 1, 2, 2), torch.zeros(2, 1, dtype=torch.int64), {})
    contexts = [ClientContext(scaled_rate=0.1, seed=0, client=client) for client in range(2)]
    local_training(OneByOne(network), weights, [batch], contexts, defense or NoDefense(), optimizer=optimizer)


def defense_gradient(act, loads):
    class Mine(Defense):
        def gradient(self, gradients, context):
            act(next(iter(gradients.values())))
            return gradients

    trained(Mine())


def defense_of_weights(act, loads):
    class Mine(Defense):
        def gradient(self, gradients, context):
            act(next(iter(context.weights.values())))
            return gradients

    trained(Mine())


def defense_of_images(act, loads):
    class Mine(Defense):
        def gradient(self, gradients, context):
            act(context.batch["images"])
            return gradients

    trained(Mine())


def defense_update(act, loads):
    class Mine(Defense):
        def update(self, delta, context):
            act(next(iter(delta.values())))
            return delta

    trained(Mine())


def optimizer(act, loads):
    class Mine(Sgd):
        def step(self, state, weights, gradients, rates, weight_decay):
            act(next(iter(gradients.values())))
            super().step(state, weights, gradients, rates, weight_decay)

    trained(optimizer=Mine())


def forward_pass(act, loads):
    class Spoilt(nn.Module):
        def forward(self, images):
            act(images)
            return images

    trained(spoilt=Spoilt())


def algorithm(act, loads):
    class Mine(Algorithm):
        def upload(self, before, after):
            act(after["w"])
            return after

    work = ClientWork(Mine(), None, NoDefense(), Sgd(), 0.0, 1)
    work.lifted("upload", {"w": torch.ones(2, 3)}, {"w": torch.ones(2, 3)})


def algorithm_network(act, loads):
    class Mine(Algorithm):
        def network(self, values):
            act(values["w"])
            return values

    ClientWork(Mine(), None, NoDefense(), Sgd(), 0.0, 1).networks({"w": torch.ones(2, 3)})


def algorithm_start(act, loads):
    class Mine(Algorithm):
        def server_start(self, network, draws):
            act(network["0.weight"])
            return network

    model = SimpleNamespace(initialised=lambda *_: nn.Sequential(nn.Linear(2, 2)), frozen=lambda _: False)
    work = SimpleNamespace(algorithm=Mine())
    population = SimpleNamespace(samples=[1])
    spec = SimpleNamespace(algorithm_plugin=SimpleNamespace(name="mine"))
    federation = {"_work": work, "_model": model, "_population": population, "spec": spec}
    _Federation._start(SimpleNamespace(**federation, _shape=(1,), _num_classes=2, _dtype=None), 0)


def augmentation(act, loads):
    class Mine:
        def apply(self, images, draws):
            act(images)
            return images

    visits = [Visit(0, 0, 0, torch.arange(4))]
    list(batch_stream(torch.ones(4, 1, 2, 2), torch.zeros(4, dtype=torch.int64), visits, {}, 2, 2, Mine()))


def schedule(act, loads):
    mine = SimpleNamespace(factor=lambda index, rounds: act(None))
    spec = SimpleNamespace(rounds_done=1, rounds=1, evaluate_every=0)
    _Federation.next_state(SimpleNamespace(spec=spec, _schedule=mine), None, 0)


def model(act, loads):
    class Mine(Architecture):
        def layers(self, input_shape, num_classes):
            act(None)
            return {"fc": nn.Linear(2, num_classes)}

    Mine("pytorch").initialised((1, 1, 2), 3, 0)


def observed():
    update = {"w": torch.ones(1, 2)}
    return Observation({"w": torch.ones(2)}, update, "gradient", "eval", {"name": "mlp", "settings": {}}, (0,))


KNOWLEDGE = Knowledge("honest-but-curious", {"input_range": [0.0, 1.0], "batch_size": 1, "input_shape": [1, 1, 2]})


def attack(act, loads):
    class Mine:
        def reconstruct(self, case):
            act(case.observation.update["w"])

    attack_by(NoTransform(), Mine(), loads)


def attack_of_weights(act, loads):
    class Mine:
        def reconstruct(self, case):
            act(case.observation.weights["w"])

    attack_by(NoTransform(), Mine(), loads)


def transform(act, loads):
    class Mine(NoTransform):
        def prepare(self, observation, knowledge):
            act(observation.update["w"])
            return super().prepare(observation, knowledge)

    attack_by(Mine(), None, loads)


def attack_by(transform, attack, loads):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(attacks, "_planned", lambda *_: (transform, attack))
        spec = AttackerSpec.model_validate({"attack": "dlg", "iterations": 1})
        attacks.attacked(spec, observed(), KNOWLEDGE, "cpu", None)


def text_attack(act, loads):
    class Mine:
        def reconstruct(self, case):
            act(case.observation.update["w"])

    with pytest.MonkeyPatch.context() as patch:
        loads(attack_text, Mine())
        patch.setattr(attack_text, "load_observation", lambda *_: (observed(), KNOWLEDGE))
        patch.setattr(attack_text, "sha256", str)
        patch.setattr(attack_text, "packed", lambda one: one)
        patch.setattr(attack_text, "KeptParts", lambda *_: SimpleNamespace(part=lambda _: None))
        spec = {"attack": {"name": "lamp-lite", "settings": {}}, "iterations": 1}
        attack_text.run(job(spec, outputs={"reconstruction": Path("x")}))


def job(spec, **more):
    shared = {"input": lambda name: name, "inputs": {}, "outputs": {"numbers": None}, "device": "cpu"}
    shared |= {"track": lambda rows, **_: rows, "recorder": SimpleNamespace(code="")}
    return SimpleNamespace(spec=spec, **{**shared, **more})


def partition(act, loads):
    class Mine:
        def deal(self, labels, draws):
            act(labels)
            return [labels]

    loads(deal, Mine())
    spec = PartitionSpec.model_validate({"dataset": "digits", "partition": {"name": "mine"}})
    deal._dealt(spec, np.arange(6), None)


def reader(act, loads):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(prepare, "make_reader", lambda _: SimpleNamespace(read=act))
        source = SimpleNamespace(reader=None)
        prepare.prepare("mine", None, SimpleNamespace(source=source, paths=dict))


def metric(act, loads):
    class Mine:
        card = SimpleNamespace(name="mine")

        def values(self, reconstruction, truth):
            act(truth)
            return torch.zeros(1)

    image_scores([Mine()], {"best": torch.zeros(1, 1, 1, 2, 2)}, torch.ones(1, 1, 1, 2, 2))


def metric_of_update(act, loads):
    class Mine(UpdateNorm):
        def values(self, observation, knowledge, generator, truth):
            act(observation.update["w"])

    values_of_speaking(Mine(), (observed(), KNOWLEDGE), None, None)


def metric_of_search(act, loads):
    class Mine(Certified):
        def values(self, found, errors):
            act(errors)

    values_of_search(Mine(), {"labels": torch.zeros(1, 1)}, torch.ones(1, 1))


def metric_of_landscape(act, loads):
    class Mine:
        card = SimpleNamespace(name="mine")

        def values(self, reconstruction, truth):
            act(reconstruction)
            return torch.zeros(1)

    distances([Mine()], torch.ones(1, 1, 2, 2), torch.ones(1, 2, 2))


def server(act, loads):
    loads(manipulation, SimpleNamespace(catch=lambda victims: act(victims.state["w"])))
    start = SimpleNamespace(state={"w": torch.ones(2)}, round=0)
    spec, name = SimpleNamespace(batch_size=1), SimpleNamespace(name="mine", settings={})
    manipulation.manipulated(spec, name, start, lambda _: SimpleNamespace(parameters=["w"]))


def check(act, loads):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(check_theory, "write_numbers", lambda path, numbers: 0)
        loads(check_theory, SimpleNamespace(run=lambda seed, clients, track: act(None)))
        check_theory.run(job({"check": {"name": "mine", "settings": {}}, "seed": 0}, track=None))


KINDS = {
    one.__name__: one
    for one in (
        algorithm, algorithm_network, algorithm_start, attack, attack_of_weights, augmentation, check,
        defense_gradient, defense_of_images, defense_of_weights, defense_update, forward_pass, metric,
        metric_of_landscape, metric_of_search, metric_of_update, model,
        optimizer, partition, reader, schedule, server, text_attack, transform,
    )
}  # fmt: skip
WITHOUT_TENSORS = {"check", "model", "reader", "schedule"}
"""Kinds that are given nothing that could be changed in place."""
OF_VMAP = {"algorithm", "algorithm_network"}
"""Torch itself refuses draws there, in words of its own."""


@pytest.mark.parametrize("generator", DRAWS)
@pytest.mark.parametrize("kind", KINDS)
def test_a_draw_from_a_global_generator_is_named(kind, generator, loads):
    said = f"global generator of {generator}, which others draw from too: use"
    if generator == "torch" and kind in OF_VMAP:
        said = "failed with RuntimeError: vmap: called random operation"
    with pytest.raises(UserError, match=said):
        KINDS[kind](DRAWS[generator], loads)


@pytest.mark.parametrize("kind", sorted({*KINDS} - WITHOUT_TENSORS))
def test_an_argument_that_is_changed_in_place_is_named(kind, loads):
    with pytest.raises(UserError, match=r"changes .* in place: work on copies \(value.clone\(\)\)"):
        KINDS[kind](in_place, loads)


def test_a_message_has_file_line_argument_and_what_to_do(loads):
    with pytest.raises(UserError) as error:
        defense_gradient(DRAWS["numpy"], loads)
    lines = Path(__file__).read_text(encoding="utf-8").splitlines()
    line = next(n for n, text in enumerate(lines, 1) if "np.random.rand()" in text)
    assert str(error.value) == (
        f"{Path(__file__).relative_to(Path.cwd())}, line {line}: a local step draws from the global "
        "generator of numpy, which others draw from too: use context.stream(name) in a defense; others draw nothing"
    )
    with pytest.raises(UserError, match=re.escape("gradient changes context.weights ('2.weight') in place")):
        defense_of_weights(in_place, loads)


@pytest.mark.parametrize(
    "act",
    [
        lambda: stream(3, "own").normal(5),
        lambda: np.random.default_rng(0).normal(),
        lambda: random.Random(0).random(),
        lambda: torch.rand(1, generator=torch.Generator().manual_seed(0)),
        time.monotonic,
    ],
    ids=["stream", "numpy", "random", "torch", "reading"],
)
def test_a_generator_of_its_own_is_nobodys_business(act):
    with watched("mine", call="call", draws="streams"):
        act()


def test_states_are_the_same_however_they_are_read(monkeypatch):
    """Another Python may keep its words elsewhere; then they are asked for."""
    assert purity._lies_behind_its_head(random.Random)
    monkeypatch.setattr(purity, "_lies_behind_its_head", lambda _: False)
    with pytest.raises(UserError, match="global generator of random"):
        model(DRAWS["random"], None)


def test_generators_that_are_put_back_are_no_fault():
    with watched("mine", call="call", draws="streams"), torch.random.fork_rng(devices=[]):
        torch.manual_seed(1)
        torch.rand(3)


def test_a_name_that_is_taken_out_is_a_change():
    given = {"w": torch.ones(2), "b": torch.ones(1)}

    def call():
        with watched("mine", call="call", given={"values": given}):
            del given["b"]

    with pytest.raises(UserError, match=r"mine: call changes values \('b'\) in place"):
        call()


def test_a_call_that_fails_fails_as_it_did():
    value = torch.ones(2)

    def call():
        with watched("mine", call="call", given={"value": value}, draws="streams"):
            value.zero_()
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        call()


def test_what_is_only_read_passes():
    given = {"tensor": torch.ones(2), "array": np.ones(2), "facts": {"a": [1, 2], "b": None}, "more": [torch.ones(1)]}
    with watched("mine", call="call", given=given, draws="streams"):
        assert given["tensor"].sum() + given["array"].sum() + given["more"][0] == 5


# Libraries that draw as they are imported.

DRAWING_LIBRARY = "import random\nimport numpy as np\nimport torch\nrandom.random(), np.random.rand(), torch.rand(1)\n"
IMPORTING = "def defend():\n    import {name}\n"


def called(tmp_path, monkeypatch, name, text):
    """Call a plug-in of a file within a watch; it may import a library that draws as it is loaded."""
    (tmp_path / f"{name}.py").write_text(DRAWING_LIBRARY)
    file = tmp_path / "guest.py"
    file.write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    module = {}
    exec(compile(text, str(file), "exec"), module)
    with watched(module["defend"], call="defend", draws="context.stream(name)"):
        module["defend"]()


def test_what_a_library_draws_at_its_first_import_is_no_fault_of_who_imports_it(tmp_path, monkeypatch):
    called(tmp_path, monkeypatch, "drawing_once", IMPORTING.format(name="drawing_once"))


def test_who_draws_beside_a_first_import_is_refused(tmp_path, monkeypatch):
    text = IMPORTING.format(name="drawing_twice") + "    import random\n    random.random()\n"
    with pytest.raises(UserError, match="line 4: defend draws from the global generator of random"):
        called(tmp_path, monkeypatch, "drawing_twice", text)
