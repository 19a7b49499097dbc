"""What a job asks for and what it is expected to cost: memory, minutes, optimiser steps, attack evaluations."""

from dataclasses import dataclass
from functools import singledispatch

from leaklab.observations.client_requirements import samples_seen
from leaklab.observations.declared import declared
from leaklab.records.record import Component
from leaklab.records.traits import algorithm_traits, attack_traits, chosen, evaluations_an_iteration, model_traits
from leaklab.specs.attack import ATTACKS, AttackSpec, CheckSpec, LandscapeSpec, ProjectionSpec
from leaklab.specs.base import Spec
from leaklab.specs.capture import CaptureSpec
from leaklab.specs.generator import GeneratorSpec
from leaklab.specs.law import LawSpec
from leaklab.specs.text import TEXT_ATTACKS, TextAttackSpec, TextCaptureSpec
from leaklab.specs.training import PartitionSpec, TrainSpec

SAFETY = 3.0
SMALLEST_MINUTES = 10


@dataclass(frozen=True)
class Cost:
    """What one job does and an estimate of its time on one CPU core.

    Attributes:
        steps: client steps of a training job (one step of one client on one batch), or steps of a generator's.
        evaluations: matching-loss evaluations of an attack job, at most.
        seconds: estimated CPU seconds, at most.
    """

    steps: int = 0
    evaluations: int = 0
    seconds: float = 0.0


# batch of a client's step that models were measured on
MEASURED_BATCH = 32
# so many more pixels than 32x32 have images of 224x224
LARGE_PIXELS = 49.0
# one evaluation of a matching loss on text: 4 layers of width 128, a sentence of 12 tokens
TEXT_EVALUATION_MILLISECONDS = 20.0
# the generator's own time: a candidate takes no less, however narrow the network
LEAST_GENERATIVE_MILLISECONDS = 0.5
# those are in float32; measured with the small generator and dlg-lenet
FLOAT64_FACTOR = 3.0
# one image of a GAN inversion and its derivatives, LPIPS included: with a small generator, and with BigGAN (not
# measured: from its operations)
PROJECTION_MILLISECONDS = 4.0
PUBLISHED_PROJECTION_MILLISECONDS = 1000.0
# per real image of a step, for images of 28x28; then the classifier that judges the generator
GAN_MICROSECONDS = 2900.0
GENERATOR_SECONDS = 60.0
# what a process takes that imports torch; a training of scale small was seen to hold 3000 at most, a deal has no images
MEMORY_MB = 2000
TRAINING_MB = 4000
LABELS_MB = 1000
# images that are read as a whole, and a published generator beside a large victim
LARGE_DATASETS = {"imagenet-validation": 24_000}
PUBLISHED_GENERATOR_MB = 8000
LARGE_GENERATORS = {"biggan-deep"}
# measured: one update of the default classifier with CoLA's words, its copies while it is made and written
TEXT_MEMORY_MB = 20
# the longest check known, 10 000 steps of a convergence theorem, takes 20 s
CHECK_SECONDS = 60.0
OTHER_SECONDS = 10.0
# that are tried on a defense at most, and the stages of each trial
LAWS, STAGES_OF_TRIAL = 4, 5
# that take part in a round of a deal that does not say how many there are
CLIENTS = 2


@singledispatch
def cost(spec: Spec) -> Cost:
    """Return the largest cost of a job: some seconds, unless its stage says more."""
    return Cost(seconds=OTHER_SECONDS)


@cost.register
def _of_check(spec: CheckSpec) -> Cost:
    return Cost(seconds=CHECK_SECONDS)


@cost.register
def _of_training(spec: TrainSpec) -> Cost:
    taking_part = spec.clients_per_round or int(spec.partition.settings.get("clients") or CLIENTS)
    steps = spec.replicates * spec.rounds_done * spec.local_steps * taking_part
    step = model_traits(spec.model.name).step_microseconds / 1e6
    return Cost(steps=steps, seconds=steps * step * max(1.0, spec.batch_size / MEASURED_BATCH))


@cost.register
def _of_generator(spec: GeneratorSpec) -> Cost:
    seconds = spec.steps * spec.batch_size * GAN_MICROSECONDS / 1e6
    return Cost(steps=spec.steps, seconds=seconds + GENERATOR_SECONDS)


@cost.register
def _of_attack(spec: AttackSpec) -> Cost:
    evaluations = _evaluations(spec)
    return Cost(evaluations=evaluations, seconds=evaluations * _milliseconds(spec) / 1e3)


@cost.register
def _of_law(spec: LawSpec) -> Cost:
    trial = AttackSpec(
        attack=Component(name="annealed-likelihood", settings={"stages": STAGES_OF_TRIAL}),
        capture=spec.capture,
        generator=spec.generator,
        iterations=spec.iterations,
    )
    gate = 2 * spec.gate * spec.evaluations * STAGES_OF_TRIAL
    evaluations = (
        gate + bool(spec.images) * spec.choosing * spec.capture.batch_size * LAWS * STAGES_OF_TRIAL * spec.iterations
    )
    return Cost(evaluations=evaluations, seconds=OTHER_SECONDS + evaluations * _milliseconds(trial) / 1e3)


@cost.register
def _of_projection(spec: ProjectionSpec) -> Cost:
    steps = spec.generations * spec.population * spec.inner_steps + spec.final_steps
    evaluations = 0 if spec.images.planted else spec.images.count * steps
    large = spec.generator.model.name in LARGE_GENERATORS
    one = PUBLISHED_PROJECTION_MILLISECONDS if large else PROJECTION_MILLISECONDS
    return Cost(evaluations=evaluations, seconds=evaluations * one / 1e3)


@cost.register
def _of_landscape(spec: LandscapeSpec) -> Cost:
    # a line shows two losses
    evaluations = spec.attack.capture.image_count * spec.alpha[2] * (spec.beta[2] if spec.beta else 2)
    return Cost(evaluations=evaluations, seconds=evaluations * _milliseconds(spec.attack) / 1e3)


@cost.register
def _of_attack_on_text(spec: TextAttackSpec) -> Cost:
    searched = declared(TEXT_ATTACKS, spec.attack.name).searches
    each = evaluations_an_iteration(spec.attack.name, spec.attack.settings, TEXT_ATTACKS)
    evaluations = spec.capture.trials * spec.restarts * spec.iterations * each if searched else 0
    return Cost(evaluations=evaluations, seconds=evaluations * TEXT_EVALUATION_MILLISECONDS / 1e3)


def _evaluations(spec: AttackSpec) -> int:
    """Return the largest number of evaluations of an attack's loss."""
    if not declared(ATTACKS, spec.attack.name).searches:
        return 0
    searches = spec.capture.trials * samples_seen(spec.capture) * spec.restarts * spec.iterations
    return searches * evaluations_an_iteration(spec.attack.name, spec.attack.settings)


def _milliseconds(spec: AttackSpec) -> float:
    model = spec.capture.model
    said = model_traits(model.name)
    if spec.generator is None:
        if said.matching_milliseconds is None:  # two derivatives of one image: about a step on a batch
            return said.step_microseconds / 1e3 * spec.capture.local_steps
        pixels = LARGE_PIXELS if spec.capture.dataset in LARGE_DATASETS and not said.own_side else 1.0
        return said.matching_milliseconds * pixels * spec.capture.local_steps
    single = said.generative_milliseconds
    if said.measured_width and "width" in model.settings:
        share = float(model.settings["width"] or 0) / said.measured_width
        single = max(LEAST_GENERATIVE_MILLISECONDS, single * share**2)
    return single * (FLOAT64_FACTOR if spec.capture.dtype == "float64" else 1)


def minutes_of(seconds: float) -> int:
    """Return the run time to ask a scheduler for, in minutes, of what is expected to take so many seconds."""
    return max(SMALLEST_MINUTES, int(SAFETY * seconds / 60))


@singledispatch
def memory_mb(spec: Spec) -> int:
    """Return the memory to ask for, in MB: what its data set takes, unless its stage says more."""
    return LARGE_DATASETS.get(spec.read_dataset, MEMORY_MB)


@memory_mb.register
def _mb_of_deal(spec: PartitionSpec) -> int:
    return LABELS_MB


@memory_mb.register
def _mb_of_training(spec: TrainSpec) -> int:
    return TRAINING_MB


@memory_mb.register
def _mb_of_attack(spec: AttackSpec) -> int:
    large = spec.generator is not None and spec.generator.model.name in LARGE_GENERATORS
    usual = PUBLISHED_GENERATOR_MB if large else MEMORY_MB
    return max(usual, attack_traits(spec.attack.name).memory_mb)


@memory_mb.register
def _mb_of_landscape(spec: LandscapeSpec) -> int:
    return memory_mb(spec.attack)


@memory_mb.register
def _mb_of_sentences(spec: TextCaptureSpec) -> int:
    return max(MEMORY_MB, 1000 + TEXT_MEMORY_MB * spec.trials)


@memory_mb.register
def _mb_of_attack_on_text(spec: TextAttackSpec) -> int:
    return memory_mb(spec.capture)


# How much disk the runs of a plan take, roughly: weights, updates and reconstructions are nearly all of it.

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
