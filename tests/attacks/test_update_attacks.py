"""DLG and csDLG on updates: the truth is a zero of the loss in either state, and the searches find it."""

from dataclasses import replace
from functools import partial

import pytest
import torch
from torch.nn import functional as F

from leaklab.attacks.annealed import AnnealedLikelihood, AnnealedMap
from leaklab.attacks.base import Budget, Case
from leaklab.attacks.latents.posterior import posterior_of
from leaklab.attacks.latents.scene import scene_of
from leaklab.attacks.matching.distances import Differentiated, OnlyWidened, squared_l2, squared_norm
from leaklab.attacks.matching.steps import LocalSteps, batch_order, simulated_delta, steps_of
from leaklab.attacks.run import check_shapes
from leaklab.defenses.base import ClientContext, NoDefense
from leaklab.federated.batches import Batch
from leaklab.federated.forms.network import trainable
from leaklab.federated.local import local_training
from leaklab.federated.optimizers import Sgd
from leaklab.models.generators.class_gaussian import ClassGaussian
from leaklab.models.normalisation import with_batch_statistics
from leaklab.observations.base import Knowledge, Observation
from leaklab.records import plugins
from leaklab.records.errors import UserError
from leaklab.records.streams import stream

TRIALS, RATE, CLASSES = 2, 0.05, 10
STREAMS = partial(stream, 0, "attack")
LENET, RESNET = {"name": "dlg-lenet", "settings": {}}, {"name": "resnet-small", "settings": {"width": 4}}
# model, state of the client's layers, images [E or 1, B]
CLIENTS = {
    "one step": (LENET, "eval", [[0]]),
    "two steps on an image each": (LENET, "eval", [[0], [1]]),
    "three steps on one batch": (LENET, "eval", [[0, 1]] * 3),
    "residual network, evaluation": (RESNET, "eval", [[0, 1, 2], [3, 4, 5]]),
    "residual network, training, one step": (RESNET, "train", [[0, 1, 2]]),
    "residual network, training, own batches": (RESNET, "train", [[0, 1, 2], [3, 4, 5]]),
    "residual network, training, one batch": (RESNET, "train", [[0, 1, 2]] * 2),
}


def broadcast(model):
    network = plugins.load("models", model["name"], model["settings"]).initialised((1, 8, 8), CLASSES, 1, torch.float64)
    for name, buffer in network.named_buffers():  # statistics of nobody's batch, or both states would be alike
        buffer.copy_(buffer + stream(0, name).uniform(*buffer.shape))
    return network.requires_grad_(requires_grad=False)


class Sent:
    """What clients send who train by the code that trains: observation, knowledge and truth."""

    def __init__(self, digits, model, mode, order, optimizer=None, weight_decay=0.0):
        network = broadcast(model)
        state = {name: value.clone() for name, value in network.state_dict().items()}
        self.batch, self.steps = len(order[0]), len(order)
        self.repeated = all(row == order[0] for row in order)
        self.samples = self.batch if self.repeated else self.batch * self.steps
        used = self.samples * TRIALS
        self.images = digits[0][:used].view(TRIALS, self.samples, 1, 8, 8)
        self.labels = digits[1][:used].view(TRIALS, self.samples)
        batches = [Batch(self.images[:, row], self.labels[:, row], {}) for row in order]
        names = [name for name, _ in network.named_parameters()]
        form = trainable(network, (1, 8, 8), training=mode == "train")
        stacked = {name: value.expand(TRIALS, *value.shape).clone() for name, value in state.items()}
        contexts = [ClientContext(scaled_rate=RATE, seed=0, client=trial) for trial in range(TRIALS)]
        sent = local_training(
            form, stacked, batches, contexts, NoDefense(), optimizer=optimizer or Sgd(), weight_decay=weight_decay
        )
        weights = {name: state[name] for name in names}
        update = {name: sent.weights[name] - weights[name] for name in names}
        buffers = {name: value for name, value in state.items() if name not in names}
        self.observation = Observation(weights, update, "delta", mode, model, tuple(range(TRIALS)), buffers)
        facts = {
            "architecture": model, "weights": True, "nominal_rate": RATE, "local_steps": self.steps,
            "batch_size": self.batch, "num_classes": CLASSES, "input_shape": [1, 8, 8], "input_range": [0.0, 1.0],
            "labels": self.labels.tolist(),
        }  # fmt: skip
        if optimizer or weight_decay:
            settings = {"momentum": optimizer.momentum} if optimizer else {}
            facts |= {"optimizer": {"name": "sgd", "settings": settings}, "weight_decay": weight_decay}
        self.knowledge = Knowledge("honest-but-curious-with-labels", facts)

    def attack(self, name, **settings):
        samples = 0 if self.repeated else self.samples
        return plugins.load("attacks", name, {"samples": samples, "dummy": "client", **settings})

    def inversion(self, name, **settings):
        attack = self.attack(name, **settings)
        return attack.inversion(self.observation.as_gradient(self.knowledge), self.knowledge, attack.distance())

    def loss_at_truth(self, name, **settings):
        """Return loss and derivative at the private samples, and the loss of a zero update."""
        inversion = self.inversion(name, **settings)
        points = self.images.flatten(1)
        if name == "delta-dlg":
            points = torch.cat([points, 60.0 * F.one_hot(self.labels, CLASSES).flatten(1).double()], 1)
        value, derivative = inversion(points, torch.arange(TRIALS))
        return value, derivative, inversion.loss_of_nothing()

    def run(self, name, iterations, restarts=1, **settings):
        found = self.attack(name, **settings).reconstruct(
            Case(self.observation, self.knowledge, Budget(iterations, restarts), STREAMS)
        )
        check_shapes(found, self.observation, self.knowledge, name)
        return found, ((found.images - self.images) ** 2).flatten(1).mean(1)


@pytest.fixture
def sent(digits):
    return lambda case, **more: Sent(digits, *CLIENTS[case], **more)


@pytest.mark.parametrize("name", ["delta-dlg", "csdlg"])
@pytest.mark.parametrize("case", CLIENTS)
def test_f1_the_truth_is_a_zero_of_the_loss_in_the_clients_state(sent, case, name):
    value, derivative, nothing = sent(case).loss_at_truth(name)
    # what products of gradients leave of 1 - 1
    assert (value.abs() < 1e-12 * nothing.clamp(min=1)).all()
    assert (derivative.abs().amax(1) < 1e-7 * nothing.clamp(min=1)).all()


@pytest.mark.parametrize("name", ["delta-dlg", "csdlg"])
@pytest.mark.parametrize(("mode", "dummy"), [("train", "evaluation"), ("eval", "training")])
def test_the_wrong_state_misses_the_truth(digits, name, mode, dummy):
    wrong = Sent(digits, RESNET, mode, [[0, 1, 2]])
    value, _, nothing = wrong.loss_at_truth(name, dummy=dummy)
    assert (value > 1e-2 * nothing).all()


def test_the_truth_in_another_order_is_missed(sent):
    client = sent("two steps on an image each")
    client.images, client.labels = client.images.flip(1), client.labels.flip(1)
    client.knowledge = replace(client.knowledge, facts={**client.knowledge.facts, "labels": client.labels.tolist()})
    value, _, nothing = client.loss_at_truth("csdlg")
    assert (value > 1e-6 * nothing).all()


@pytest.mark.parametrize("case", [case for case in CLIENTS if "network, training" in case])
def test_f2_the_simulated_update_is_the_clients_in_training_state_with_momentum_and_decay(sent, case):
    client = sent(case, optimizer=Sgd(0.5), weight_decay=1e-2)
    order = batch_order(client.samples, client.batch, client.steps)
    network = with_batch_statistics(broadcast(RESNET))
    ours = simulated_delta(
        network, client.images, F.one_hot(client.labels, CLASSES).double(),
        torch.full((TRIALS, client.steps), RATE, dtype=torch.float64), steps_of(client.knowledge, order, "csdlg"),
    )  # fmt: skip
    for name, delta in client.observation.update.items():
        assert torch.allclose(ours[name], delta, rtol=0, atol=1e-10), name
    assert (client.loss_at_truth("csdlg")[0] < 1e-12).all()


def test_batch_statistics_are_those_of_the_training_state_and_the_network_stays_as_it_is():
    network = broadcast(RESNET)
    before = {name: value.clone() for name, value in network.state_dict().items()}
    images = stream(0, "images").uniform(5, 1, 8, 8)
    ours = with_batch_statistics(network)(images)
    assert all(torch.equal(value, network.state_dict()[name]) for name, value in before.items())
    assert torch.allclose(ours, network.train()(images), rtol=0, atol=1e-12)
    assert not torch.allclose(ours, network.eval()(images), rtol=0, atol=1e-2)


@pytest.mark.parametrize("name", ["delta-dlg", "csdlg"])
@pytest.mark.parametrize("case", CLIENTS)
def test_derivatives_equal_finite_differences_away_from_the_truth(sent, case, name):
    """At the truth all derivatives vanish; torch's own batch normalisation fails here in training state."""
    client, draws, step = sent(case), stream(0, "direction"), 1e-6
    inversion = client.inversion(name)
    rows = torch.arange(TRIALS)
    points, direction = draws.uniform(TRIALS, inversion.unknowns), draws.normal(TRIALS, inversion.unknowns)
    slope = (inversion(points, rows)[1] * direction).sum(1)
    ahead, behind = (inversion(points + sign * step * direction, rows)[0] for sign in (1, -1))
    assert torch.allclose(slope, (ahead - behind) / (2 * step), rtol=1e-4)


def test_one_plain_step_is_the_gradient_attack(sent):
    client = sent("one step")
    gradient = client.observation.as_gradient(client.knowledge)
    for name, other, settings, iterations in (
        ("delta-dlg", "dlg", {}, 5),
        ("csdlg", "ig", {"optimizer": "signed-adam", "total_variation": 1e-3}, 20),
    ):
        found, _ = client.run(name, iterations, **settings)
        plain = plugins.load("attacks", other, {k: v for k, v in settings.items() if k != "optimizer"})
        theirs = plain.reconstruct(Case(gradient, client.knowledge, Budget(iterations, 1), STREAMS))
        assert torch.equal(found.images, theirs.images)
        assert torch.equal(found.candidate_losses, theirs.candidate_losses)


@pytest.mark.parametrize("case", ["one step", "two steps on an image each"])
@pytest.mark.parametrize("name", ["delta-dlg", "csdlg"])
def test_lbfgs_recovers_the_images_of_the_undefended_client(sent, case, name):
    found, errors = sent(case).run(name, 150, restarts=3)
    assert errors.max() < 1e-3
    if name == "delta-dlg":
        assert torch.equal(found.labels, sent(case).labels)


def test_the_loss_is_the_cosines_own_whatever_the_optimizer(sent):
    client = sent("one step")
    for optimizer in ("lbfgs", "signed-adam"):
        found, _ = client.run("csdlg", 3, optimizer=optimizer)
        value, _ = client.inversion("csdlg")(found.images.flatten(1), torch.arange(TRIALS))
        assert torch.allclose(found.candidate_losses[:, 0], value, rtol=1e-9)
        records = torch.tensor([start.matching_loss for start in found.starts]).double()
        assert torch.allclose(records, value, rtol=1e-9)


def test_signed_adam_searches_residual_networks_in_training_state_within_the_box(sent):
    client = sent("residual network, training, own batches")
    few, _ = client.run("csdlg", 2, optimizer="signed-adam", total_variation=1e-3)
    more, _ = client.run("csdlg", 60, optimizer="signed-adam", total_variation=1e-3)
    assert (more.candidate_losses < few.candidate_losses).all()
    assert more.images.min() >= 0
    assert more.images.max() <= 1


def test_f20_a_trial_does_not_depend_on_the_others(sent):
    client = sent("two steps on an image each")
    whole, _ = client.run("csdlg", 3)
    alone = client.attack("csdlg").reconstruct(
        Case(client.observation.select([1]), client.knowledge, Budget(3, 1), STREAMS)
    )
    assert torch.allclose(alone.images[0], whole.images[1], rtol=0, atol=1e-9)
    assert [start.trial for start in alone.starts] == [1]


def test_samples_fill_one_batch_or_one_for_each_step():
    assert batch_order(4, 4, 3) is None
    assert batch_order(6, 2, 3).tolist() == [[0, 1], [2, 3], [4, 5]]
    with pytest.raises(UserError, match="set samples to 2 or 6"):
        batch_order(4, 2, 3)


def test_what_does_not_fit_is_one_clear_line(sent):
    client = sent("two steps on an image each")
    with pytest.raises(UserError, match="told of 2 labels and searches 1 samples: set samples: 2"):
        client.run("csdlg", 1, samples=0)
    adam = {**client.knowledge.facts, "optimizer": {"name": "adam", "settings": {}}}
    with pytest.raises(UserError, match="simulates clients with sgd, not with adam"):
        steps_of(replace(client.knowledge, facts=adam), None, "csdlg")
    update = {name: value * torch.nan for name, value in client.observation.update.items()}
    client.observation = replace(client.observation, update=update)
    with pytest.raises(UserError, match="not finite"):
        client.run("delta-dlg", 1)
    assert steps_of(client.knowledge, None, "csdlg") == LocalSteps()


class Nearby(OnlyWidened):
    """A normal likelihood, as if the defense added noise of the error that is asked for."""

    def widened(self, error, weights):
        return Differentiated(
            lambda ours, observed: (
                squared_norm([g - o for g, o in zip(ours, observed, strict=True)])
                / (2 * (error**2 * squared_norm(observed) / sum(o[0].numel() for o in observed)))
            )
        )


class TestSearchesOfAPrior:
    """Annealed MAP and likelihood on a client whose two steps have an image each."""

    @pytest.fixture(scope="class")
    def generator(self, digits):
        return ClassGaussian().fitted(digits[0][400:], digits[1][400:], CLASSES)

    @pytest.fixture
    def client(self, sent):
        return sent("two steps on an image each")

    def test_the_truth_is_a_zero_of_the_distance_and_a_batch_of_both_images_is_not(self, client, generator):
        gradient = client.observation.as_gradient(client.knowledge)
        scene = scene_of("the test", generator, gradient, client.knowledge, squared_l2)
        points, rows = client.images.flatten(1), torch.arange(TRIALS)
        nothing = posterior_of(scene, client.labels, 0.0).inversion.loss_of_nothing()
        assert (posterior_of(scene, client.labels, 0.0).inversion(points, rows)[0] < 1e-20 * nothing).all()
        together = replace(client.knowledge, facts={**client.knowledge.facts, "batch_size": 2})
        batch = posterior_of(replace(scene, knowledge=together), client.labels, 0.0)
        assert (batch.inversion(points, rows)[0] > 1e-6 * nothing).all()

    @pytest.mark.parametrize(
        ("attack", "distance"),
        [
            (AnnealedMap(label_rule="known", samples=2), None),
            (AnnealedMap(label_rule="known", samples=2, matching="unrolled"), None),
            (AnnealedLikelihood(label_rule="known", samples=2), Nearby()),
        ],
        ids=["map", "hidden rates", "likelihood"],
    )
    def test_it_reads_both_images(self, client, generator, attack, distance):
        gradient = client.observation.as_gradient(client.knowledge)
        found = attack.reconstruct(
            Case(gradient, client.knowledge, Budget(60, 1), STREAMS, distance, generator=generator)
        )
        errors, means = (
            ((images - client.images) ** 2).flatten(2).mean(2)
            for images in (found.images, generator.mean.double()[client.labels].view_as(client.images))
        )
        assert (errors < means / 8).all()

    def test_what_does_not_fit_is_one_clear_line(self, client, generator):
        gradient = client.observation.as_gradient(client.knowledge)

        def run(**settings):
            attack = AnnealedMap(**settings)
            attack.reconstruct(Case(gradient, client.knowledge, Budget(1, 1), STREAMS, generator=generator))

        with pytest.raises(UserError, match="told of 2 labels and searches 1 samples: set samples: 2"):
            run(label_rule="known")
        with pytest.raises(UserError, match="reads one batch, not 2 samples: use label_rule: known"):
            run(label_rule="likelihood", samples=2)
        with pytest.raises(UserError, match="batches of their own from the weights sent: set place: sent"):
            AnnealedLikelihood(samples=2, place="mean")
