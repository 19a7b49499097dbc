"""The most memory that a job is expected to hold, and what it asks a scheduler for.

The constants are of the curves of ``benchmarks/growth.md`` and of the records of scale ``small``.
"""

from functools import singledispatch
from math import ceil, prod

from leaklab.observations.client_requirements import samples_seen
from leaklab.observations.declared import declared
from leaklab.planning.disk import message_mb
from leaklab.planning.resources import CLIENTS, LARGE_GENERATORS
from leaklab.planning.work import FEW_IMAGES, GRAY, MANY_IMAGES, SHAPES, area_of
from leaklab.records.traits import algorithm_traits, attack_traits
from leaklab.specs.attack import ATTACKS, TRIALS_TOGETHER, AttackSpec, LandscapeSpec, ScoreSpec
from leaklab.specs.base import Spec
from leaklab.specs.capture import CaptureSpec
from leaklab.specs.generator import GeneratorSpec
from leaklab.specs.law import LawSpec
from leaklab.specs.text import TextAttackSpec, TextCaptureSpec
from leaklab.specs.training import PartitionSpec, TrainSpec

SPARE = 1.5
"""What is asked for, as a multiple of what is expected."""
# a process that has imported torch, and its convolutions
LIBRARIES_MB = 540.0
# so many copies of all images, as numbers of the training's type, while they are read and normalised
COPIES = 2.6
# of a message: while a client makes it, while updates are made, written and read; of a network whose gradients an
# attack differentiates
OF_TRAINING, OF_CAPTURE, OF_ATTACK = 8.0, 3.0, 8.0
# a client's place in a round, besides its weights
CLIENT_MB = 0.03
# of an image of 28x28 in a matching loss of second order, in float32
IMAGE_MB = 1.3
# pairs of an L-BFGS, as many as attacks keep
HISTORY = 100
# one update of the default classifier with CoLA's words, its copies while it is made and written
TEXT_MEMORY_MB = 20
# networks of perceptual distances
METRICS_MB = {"lpips-vgg": 400.0, "lpips-alex": 300.0, "lpips-squeeze": 250.0}
# what jobs ask for at least; a deal has no images
MEMORY_MB = 2500
TRAINING_MB = 4000
LABELS_MB = 1000
# images that are read as a whole, and a published generator beside a large victim
LARGE_DATASETS = {"imagenet-validation": 24_000}
PUBLISHED_GENERATOR_MB = 8000


@singledispatch
def peak_mb(spec: Spec) -> float:
    """Return the most memory that a job is expected to hold, in MB: its libraries, unless its stage says more."""
    return LIBRARIES_MB


@peak_mb.register
def _peak_of_training(spec: TrainSpec) -> float:
    clients = int(spec.partition.settings.get("clients") or CLIENTS)
    said, message = algorithm_traits(spec.algorithm_plugin.name), message_mb(spec.model, spec.algorithm_plugin)
    kept = clients * (CLIENT_MB + said.networks_kept * message_mb(spec.model))
    data = COPIES * images_mb(spec.dataset) * width_of(spec.dtype)
    return LIBRARIES_MB + data + spec.replicates * (OF_TRAINING * message + kept)


@peak_mb.register
def _peak_of_capture(spec: CaptureSpec) -> float:
    message = message_mb(spec.model, spec.algorithm_plugin) * width_of(spec.dtype)
    # whole numbers of a byte, and those of the part that is taken
    data = images_mb(spec.dataset) / 2
    return LIBRARIES_MB + data + OF_CAPTURE * (1 + spec.trials) * message


@peak_mb.register
def _peak_of_attack(spec: AttackSpec) -> float:
    capture, width = spec.capture, width_of(spec.capture.dtype)
    together = min(TRIALS_TOGETHER, capture.trials)
    messages = OF_CAPTURE * capture.trials * message_mb(capture.model, capture.algorithm_plugin)
    messages = width * (messages + OF_ATTACK * together * message_mb(capture.model))
    if not declared(ATTACKS, spec.attack.name).searches:
        return LIBRARIES_MB + messages
    numbers = prod(SHAPES.get(capture.dataset, GRAY)) * samples_seen(capture)
    pairs = 2 * HISTORY * numbers * 4e-6 * width
    images = IMAGE_MB * samples_seen(capture) * area_of(capture) * width
    prior = prod(SHAPES.get(capture.dataset, GRAY)) ** 2 * 10 * 4e-6 if spec.generator else 0.0
    return LIBRARIES_MB + messages + together * (images + pairs) + prior


@peak_mb.register
def _peak_of_law(spec: LawSpec) -> float:
    return LIBRARIES_MB + 2 * images_mb(spec.capture.dataset)


@peak_mb.register
def _peak_of_landscape(spec: LandscapeSpec) -> float:
    return peak_mb(spec.attack)


@peak_mb.register
def _peak_of_generator(spec: GeneratorSpec) -> float:
    if not spec.steps:
        return LIBRARIES_MB
    # covariances are taken in float64, of one class after the other, or of all at once
    pooled = bool(spec.model.settings.get("pooled")) and not spec.model.settings.get("per_class")
    return LIBRARIES_MB + images_mb(spec.dataset) * (8.0 if pooled else COPIES)


@peak_mb.register
def _peak_of_score(spec: ScoreSpec) -> float:
    return LIBRARIES_MB + sum(METRICS_MB.get(name, 0.0) for name in spec.metrics)


@peak_mb.register
def _peak_of_sentences(spec: TextCaptureSpec) -> float:
    return LIBRARIES_MB + TEXT_MEMORY_MB * spec.trials


@peak_mb.register
def _peak_of_attack_on_text(spec: TextAttackSpec) -> float:
    return peak_mb(spec.capture)


def images_mb(dataset: str) -> float:
    """Return the size of all images of a data set in float32."""
    return sum(FEW_IMAGES.get(dataset, MANY_IMAGES)) * prod(SHAPES.get(dataset, GRAY)) * 4e-6


def width_of(dtype: str) -> float:
    """Return the bytes of a number as a multiple of those of float32."""
    return 2.0 if dtype == "float64" else 1.0


def memory_mb(spec: Spec) -> int:
    """Return the memory to ask for, in MB: what is expected and some to spare, and no less than its stage asks for."""
    return max(_least(spec), ceil(SPARE * peak_mb(spec)))


@singledispatch
def _least(spec: Spec) -> int:
    return LARGE_DATASETS.get(spec.read_dataset, MEMORY_MB)


@_least.register
def _of_deal(spec: PartitionSpec) -> int:
    return LABELS_MB


@_least.register
def _of_training(spec: TrainSpec) -> int:
    return TRAINING_MB


@_least.register
def _of_attack(spec: AttackSpec) -> int:
    large = spec.generator is not None and spec.generator.model.name in LARGE_GENERATORS
    usual = PUBLISHED_GENERATOR_MB if large else MEMORY_MB
    return max(usual, attack_traits(spec.attack.name).memory_mb)


@_least.register
def _of_landscape(spec: LandscapeSpec) -> int:
    return _least(spec.attack)
