"""How much disk the runs of a plan take, roughly: weights, updates and reconstructions are nearly all of it."""

from functools import singledispatch
from math import prod

from leaklab.planning.resources import CLIENTS
from leaklab.planning.work import GRAY, SHAPES, size_of
from leaklab.records.record import Component
from leaklab.records.traits import algorithm_traits, chosen, model_traits
from leaklab.specs.attack import AttackSpec
from leaklab.specs.base import Spec
from leaklab.specs.capture import CaptureSpec
from leaklab.specs.generator import GeneratorSpec
from leaklab.specs.training import TrainSpec

ALGORITHMS = "federated/algorithms"
NUMBER_MB = 4e-6
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
    return spec.replicates * (message_mb(spec.model, spec.algorithm_plugin) + kept) + SMALL_MB


@disk_mb.register
def _disk_of_generator(spec: GeneratorSpec) -> float:
    return GENERATOR_MB


@disk_mb.register
def _of_capture(spec: CaptureSpec) -> float:
    # weights and statistics once, an update for each trial
    return (1 + spec.trials) * message_mb(spec.model, spec.algorithm_plugin) + 2 * _images_mb(spec)


@disk_mb.register
def _disk_of_attack(spec: AttackSpec) -> float:
    return (1 + spec.restarts) * _images_mb(spec.capture) + SMALL_MB


def _weights_mb(model: Component) -> float:
    return model_traits(model.name).weights_mb * size_of(model)


def message_mb(model: Component, algorithm: Component | None = None) -> float:
    """Return the size of what is sent in float32: a network, or the heads that make it."""
    if algorithm is None:
        return _weights_mb(model)
    # a hypernetwork's heads, one for each of its hidden units and a bias
    setting = algorithm_traits(algorithm.name).heads
    heads = int(chosen(ALGORITHMS, algorithm.name, algorithm.settings, setting)) if setting else 0
    return _weights_mb(model) * (1 + heads)


def _images_mb(capture: CaptureSpec) -> float:
    return capture.image_count * capture.draws * prod(SHAPES.get(capture.dataset, GRAY)) * NUMBER_MB
