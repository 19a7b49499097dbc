"""How much disk the runs of a plan take, roughly: weights, updates and reconstructions are nearly all of it."""

from functools import singledispatch

from leaklab.planning.resources import CLIENTS, LARGE_DATASETS, LARGE_PIXELS
from leaklab.records.attack_spec import AttackSpec
from leaklab.records.capture_spec import CaptureSpec
from leaklab.records.declarations import chosen
from leaklab.records.generator_spec import GeneratorSpec
from leaklab.records.record import Component
from leaklab.records.specs import Spec
from leaklab.records.train_spec import TrainSpec
from leaklab.records.traits import algorithm_traits, model_traits

ALGORITHMS = "federated/algorithms"
# one colour image of 32x32 in float32
IMAGE_MB = 0.012
GENERATOR_MB = 100.0
SMALL_MB = 0.1


@singledispatch
def disk_mb(spec: Spec) -> float:
    """Return the MB that a run leaves on disk: a single run within a factor of some, their sum nearer."""
    return SMALL_MB


@disk_mb.register
def _disk_of_training(spec: TrainSpec) -> float:
    clients = int(spec.partition.settings.get("clients") or CLIENTS)
    kept = clients * algorithm_traits(spec.algorithm_plugin.name).networks_kept * _weights_mb(spec.model)
    return spec.replicates * (_message_mb(spec.model, spec.algorithm_plugin) + kept) + SMALL_MB


@disk_mb.register
def _disk_of_generator(spec: GeneratorSpec) -> float:
    return GENERATOR_MB


@disk_mb.register
def _of_capture(spec: CaptureSpec) -> float:
    # weights and statistics once, an update for each trial
    return (1 + spec.trials) * _message_mb(spec.model, spec.algorithm_plugin) + 2 * _images_mb(spec)


@disk_mb.register
def _disk_of_attack(spec: AttackSpec) -> float:
    return (1 + spec.restarts) * _images_mb(spec.capture) + SMALL_MB


def _weights_mb(model: Component) -> float:
    return model_traits(model.name).weights_mb


def _message_mb(model: Component, algorithm: Component) -> float:
    # a hypernetwork's heads, one for each of its hidden units and a bias
    setting = algorithm_traits(algorithm.name).heads
    heads = int(chosen(ALGORITHMS, algorithm.name, algorithm.settings, setting)) if setting else 0
    return _weights_mb(model) * (1 + heads)


def _images_mb(capture: CaptureSpec) -> float:
    pixels = LARGE_PIXELS if capture.dataset in LARGE_DATASETS else 1.0
    return capture.image_count * capture.draws * IMAGE_MB * pixels
