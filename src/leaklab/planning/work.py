"""What a unit of work takes on one processor thread: a client's step, an evaluation of an attack, what is around them.

All times are those of a machine without a compiler: with one, steps and evaluations of plain convolutional networks
take about half (``models/lanes``), and nobody is promised time at a scheduler that a node without one needs.

The constants are of the curves of ``benchmarks/growth.md`` and of the records of scale ``small``; what differs from
plug-in to plug-in they declare themselves (``records/traits.py``), or stands in a table here where the class that
would declare it is part of what jobs execute.
"""

from collections.abc import Mapping
from math import prod
from pathlib import Path

from leaklab.observations.client_requirements import samples_seen
from leaklab.records.record import Component
from leaklab.records.traits import (
    algorithm_traits,
    attack_traits,
    chosen,
    defense_traits,
    evaluations_an_iteration,
    model_traits,
)
from leaklab.specs.attack import ATTACKS, TRIALS_TOGETHER, AttackSpec, ScoreSpec
from leaklab.specs.capture import CaptureSpec
from leaklab.specs.generator import GeneratorSpec
from leaklab.specs.training import OWN_TEST, TrainSpec

SOURCE = Path(__file__)
"""What costs are made from, besides what plug-ins declare."""
Shape = tuple[int, int, int]
GRAY: Shape = (1, 28, 28)
SHAPES: Mapping[str, Shape] = {
    **dict.fromkeys(("cifar10", "cifar100", "cifar100-pretraining", "cinic10", "lfw"), (3, 32, 32)),
    **dict.fromkeys(("faces", "photographs"), (3, 32, 32)),
    **dict.fromkeys(("tiny-imagenet", "imagenet-sample"), (3, 64, 64)),
    **dict.fromkeys(("imagenet", "imagenet-full", "imagenet-validation"), (3, 224, 224)),
}
"""Of data sets whose images are not gray and 28x28."""
COLOURS = 0.3
"""Power by which channels count: they enter the first layer alone."""
FEW_IMAGES = {"digits": (1437, 360), "faces": (160, 40), "photographs": (160, 40)}
MANY_IMAGES = (60_000, 10_000)
"""Training and test images of a data set; those that come with the packages have few."""
GROWS: Mapping[str, Mapping[str, tuple[float, float]]] = {
    "mlp": {"hidden": (64, 1)},
    "resnet-small": {"blocks": (1, 0.8), "width": (16, 2)},
    "cnn-leaky": {"convolutions": (2, 0.5)},
}
"""Model -> setting -> its value in the network that was measured, and the power by which its time grows."""

# a step's fork, what it reads and writes; the images of a data set, which a training reads as a whole
START_SECONDS = 0.3
NUMBERS_READ_A_SECOND = 1.5e8
# launches of one step, whatever its batch; what a client receives and sends in a round
MEASURED_BATCH = 32
STEP_SECONDS = 1e-4
VISIT_SECONDS = 5e-4
# of a step: one forward pass, as in a test
FORWARD = 1 / 3
REACHED = 0.08
"""Share of its rounds after which a training usually has its goal, where it has one."""


def size_of(model: Component) -> float:
    """Return how many times as long a network takes as the one of its kind that was measured, by its settings."""
    grows = GROWS.get(model.name, {})
    values = {name: float(chosen("models", model.name, model.settings, name)) for name in grows}
    return prod(float((values[name] / one) ** power) for name, (one, power) in grows.items())


def pixels_of(dataset: str, model: str) -> float:
    """Return how many times as long an image takes as a gray one of 28x28."""
    channels, height, width = GRAY if model_traits(model).own_side else SHAPES.get(dataset, GRAY)
    return height * width / (GRAY[1] * GRAY[2]) * float(channels**COLOURS)


def area_of(capture: CaptureSpec) -> float:
    """Return the area of an image as a multiple of 28x28, by which second derivatives grow: colours hardly count."""
    _, height, width = GRAY if model_traits(capture.model.name).own_side else SHAPES.get(capture.dataset, GRAY)
    return height * width / (GRAY[1] * GRAY[2])


# Of trainings: steps, what clients receive and send, tests.


def step_seconds(model: Component, dataset: str, batch: int = MEASURED_BATCH) -> float:
    """Return what a client's step on one batch takes, without a defense."""
    measured = max(0.0, model_traits(model.name).step_microseconds / 1e6 - STEP_SECONDS)
    return STEP_SECONDS + measured * size_of(model) * pixels_of(dataset, model.name) * batch / MEASURED_BATCH


def factor_of(spec: TrainSpec) -> float:
    """Return how many times as long a step takes as one of FedAvg without defense."""
    algorithm = algorithm_traits(spec.algorithm_plugin.name).step_factor
    return algorithm * defense_traits(spec.defense.name).step_factor


def reading_seconds(dataset: str) -> float:
    """Return what it takes to read all images of a data set."""
    images = sum(FEW_IMAGES.get(dataset, MANY_IMAGES))
    return images * prod(SHAPES.get(dataset, GRAY)) / NUMBERS_READ_A_SECOND


def testing_seconds(spec: TrainSpec) -> float:
    """Return what all tests of a training take."""
    training, tests = FEW_IMAGES.get(spec.dataset, MANY_IMAGES)
    times = 1 + (spec.rounds_done // spec.evaluate_every if spec.evaluate_every else 0)
    images = sum(training if part == "train" else 2 * tests if part == OWN_TEST else tests for part in spec.evaluate)
    one = (step_seconds(spec.model, spec.dataset) - STEP_SECONDS) / MEASURED_BATCH * FORWARD
    return times * spec.replicates * images * one


# Of captures and of attacks: an update, an evaluation of one.

# of an update, and by the MB of its tensors; large ones do not fit into a cache
UPDATE_SECONDS, UPDATE_SECONDS_A_MB, UPDATE_POWER = 1e-3, 4.2e-3, 1.2
# of an evaluation of all updates of a chunk: whatever the network, and of a step on a batch of 32 whatever the images;
# then of each update, by the MB of its tensors, and of each image
EVALUATION_SECONDS = 1e-3
OF_LAYERS = 0.5
OF_WEIGHTS_A_MB, OF_WEIGHTS_POWER = 2.8e-3, 1.25
OF_IMAGE = 0.11
DOUBLE = 1.3
"""What float64 takes, as a multiple of float32, of an evaluation with second derivatives."""
ATTACK_SECONDS = 0.9
"""Plug-ins and solvers that an attack imports before its first evaluation."""
TRANSFORMS: Mapping[str, tuple[float, float]] = {
    "drawn-embedding": (5.0, 1.0),
    "learnt": (2.0, 1.0),
    "matched-dp-sgd": (2.0, 0.05),
    "matched-dp-sgd-extractor": (2.0, 0.1),
    "matched-laplace": (1.6, 0.6),
    "matched-noise": (1.7, 0.1),
    "ranked-mixture": (4.0, 1.0),
    "sliced-mixture": (1.6, 1.0),
    "two-level": (12.0, 1.0),
}
"""What an evaluation takes under a transform, as a multiple, and which share of the stages its noise leaves."""
AS_WITHOUT = (1.0, 1.0)
OF_BATCH = 3.0
"""So many times as often a search for a batch goes on to its last evaluation as one for a single image."""
# a candidate takes no less, however narrow the network; those are in float32
LEAST_GENERATIVE_SECONDS = 0.5e-3
GENERATIVE_DOUBLE = 3.0


def capture_seconds(spec: CaptureSpec) -> float:
    """Return what the updates of a capture take."""
    step = step_seconds(spec.model, spec.dataset, spec.batch_size) * spec.local_steps
    weights = model_traits(spec.model.name).weights_mb * size_of(spec.model)
    each = UPDATE_SECONDS + UPDATE_SECONDS_A_MB * float(weights**UPDATE_POWER)
    return spec.trials * (each + step) + (reading_seconds(spec.dataset) if spec.state else 0.0)


def evaluation_seconds(spec: AttackSpec) -> float:
    """Return what one evaluation of the matching loss of one update takes."""
    capture, said = spec.capture, attack_traits(spec.attack.name)
    if said.drawn:
        return samples_seen(capture) * _candidate_seconds(spec)
    model, size = model_traits(capture.model.name), size_of(capture.model)
    step = size * (model.step_microseconds / 1e6 - STEP_SECONDS)
    measured = model.matching_milliseconds
    image = size * measured / 1e3 if measured is not None else OF_IMAGE * step
    unrolled = said.unrolls or chosen(ATTACKS, spec.attack.name, spec.attack.settings, "matching") == "unrolled"
    steps = capture.local_steps if unrolled else 1
    shared = (EVALUATION_SECONDS + OF_LAYERS * step) / min(TRIALS_TOGETHER, capture.trials)
    weights = OF_WEIGHTS_A_MB * float((model.weights_mb * size) ** OF_WEIGHTS_POWER)
    each = weights + image * samples_seen(capture) * area_of(capture)
    factor = TRANSFORMS.get(spec.transform.name, AS_WITHOUT)[0] * said.evaluation_factor
    return factor * (DOUBLE if capture.dtype == "float64" else 1.0) * steps * (shared + each)


def used_of(spec: AttackSpec) -> float:
    """Return which share of the evaluations that it may make an attack usually makes: without a line search, all."""
    several = evaluations_an_iteration(spec.attack.name, spec.attack.settings) > 1
    alone = samples_seen(spec.capture) == 1
    used = min(1.0, attack_traits(spec.attack.name).used * (1.0 if alone else OF_BATCH)) if several else 1.0
    return used * TRANSFORMS.get(spec.transform.name, AS_WITHOUT)[1]


def reading_update_seconds(spec: AttackSpec) -> float:
    """Return what an attack without a search takes for all updates."""
    said = attack_traits(spec.attack.name)
    return spec.capture.trials * said.update_seconds * float(samples_seen(spec.capture) ** said.batch_power)


def _candidate_seconds(spec: AttackSpec) -> float:
    model = spec.capture.model
    single = model_traits(model.name).generative_milliseconds / 1e3
    if model_traits(model.name).measured_width:
        single = max(LEAST_GENERATIVE_SECONDS, single * size_of(model))
    return single * (GENERATIVE_DOUBLE if spec.capture.dtype == "float64" else 1.0)


# Of generators and scores.

GAN_SECONDS = 1.5e-3
"""Of a real image of a step, for images of 28x28."""
CLASSIFIER_BATCH = 64
SCORE_SECONDS = 1.3
"""Of the libraries of metrics."""
METRICS: Mapping[str, float] = {
    **dict.fromkeys(("lpips-alex", "lpips-vgg", "lpips-squeeze"), 2.0),
    "linear-posterior": 12.0,
    "named-image": 5.0,
}
"""What some metrics take besides."""


def generator_seconds(spec: GeneratorSpec) -> float:
    """Return what a generator takes that is trained or fitted, and judged; published ones take nothing."""
    if not spec.steps:
        return 0.0
    pixels = pixels_of(spec.dataset, spec.classifier.name)
    judge = spec.classifier_steps * step_seconds(spec.classifier, spec.dataset, CLASSIFIER_BATCH)
    return judge + spec.steps * spec.batch_size * GAN_SECONDS * pixels + reading_seconds(spec.dataset)


def score_seconds(spec: ScoreSpec) -> float:
    """Return what the metrics of a score take."""
    return SCORE_SECONDS + sum(METRICS.get(name, 0.0) for name in spec.metrics)
