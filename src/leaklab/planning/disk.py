"""How much disk the runs of a plan take, roughly: weights, updates and reconstructions are nearly all of it."""

from functools import singledispatch

from leaklab.planning.resources import CLIENTS, LARGE_DATASETS, LARGE_PIXELS
from leaklab.records.attack_spec import AttackSpec
from leaklab.records.capture_spec import CaptureSpec
from leaklab.records.generator_spec import GeneratorSpec
from leaklab.records.record import Component
from leaklab.records.specs import Spec
from leaklab.records.train_spec import TrainSpec

# MB of a network's weights in float32, for the inputs with which items use it
WEIGHTS_MB = {
    "logistic-regression": 0.03,
    "mlp": 0.3,
    "cnn-small": 0.2,
    "cnn-mnist": 2.3,
    "dlg-lenet": 0.1,
    "cnn-leaky": 0.48,
    "resnet-small": 2.2,
    "resnet-small-adapted": 0.1,
    "vit-adapted": 0.2,
    "resnet-18": 45.0,
    "resnet-18-adapted": 1.0,
    "resnet-152": 233.0,
    "rexnet": 20.0,
    "vit": 22.0,
}
UNKNOWN_MB = 1.0
# a hypernetwork's heads, one for each of its hidden units and a bias, beside the network that they make
HYPERNETWORKS_HIDDEN = {"hyperfl": 128, "pfedhn": 0}
# how many networks a training keeps for each of its clients; a classifier is a small part of one
KEPT_BY_CLIENTS = {"local-only": 1.0, "pfedhn": 1.0, "ppsgd": 0.02, "centaur": 0.02, "hyperfl": 0.1}
# one colour image of 32x32 in float32
IMAGE_MB = 0.012
GENERATOR_MB = 100.0
SMALL_MB = 0.1


@singledispatch
def disk_mb(spec: Spec) -> float:
    """Return the MB that a run leaves on disk: a single run within a factor of some, their sum nearer."""
    return SMALL_MB


@disk_mb.register
def _of_training(spec: TrainSpec) -> float:
    clients = int(spec.partition.settings.get("clients") or CLIENTS)
    kept = clients * KEPT_BY_CLIENTS.get(spec.algorithm_plugin.name, 0.0) * _weights_mb(spec.model)
    return spec.replicates * (_message_mb(spec.model, spec.algorithm_plugin) + kept) + SMALL_MB


@disk_mb.register
def _of_generator(spec: GeneratorSpec) -> float:
    return GENERATOR_MB


@disk_mb.register
def _of_capture(spec: CaptureSpec) -> float:
    # weights and statistics once, an update for each trial
    return (1 + spec.trials) * _message_mb(spec.model, spec.algorithm_plugin) + 2 * _images_mb(spec)


@disk_mb.register
def _of_attack(spec: AttackSpec) -> float:
    return (1 + spec.restarts) * _images_mb(spec.capture) + SMALL_MB


def _weights_mb(model: Component) -> float:
    return WEIGHTS_MB.get(model.name, UNKNOWN_MB)


def _message_mb(model: Component, algorithm: Component) -> float:
    hidden = HYPERNETWORKS_HIDDEN.get(algorithm.name, 0)
    return _weights_mb(model) * (1 + int(algorithm.settings.get("hidden") or hidden))


def _images_mb(capture: CaptureSpec) -> float:
    pixels = LARGE_PIXELS if capture.dataset in LARGE_DATASETS else 1.0
    return capture.image_count * capture.draws * IMAGE_MB * pixels
