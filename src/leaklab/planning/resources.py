"""What a job asks for and what it is expected to cost: memory, minutes, optimiser steps, attack evaluations."""

from dataclasses import dataclass
from functools import singledispatch

from leaklab.observations.client_requirements import samples_seen
from leaklab.observations.declared import chosen, declared
from leaklab.records.attack_spec import ATTACKS, AttackSpec
from leaklab.records.check_spec import CheckSpec
from leaklab.records.generator_spec import GeneratorSpec
from leaklab.records.landscape_spec import LandscapeSpec, ProjectionSpec
from leaklab.records.partition_spec import PartitionSpec
from leaklab.records.specs import Spec
from leaklab.records.text_specs import TEXT_ATTACKS, TextAttackSpec, TextCaptureSpec
from leaklab.records.train_spec import TrainSpec

# largest L-BFGS work per outer iteration (max_iter of the attack's optimiser)
INNER_ITERATIONS = 20
# attacks that take one step of first order per iteration: always, or where a setting (here its default) says so
FIRST_ORDER = ("ig", "rog-lite")
OPTIMIZERS = {"csdlg": "lbfgs", "delta-ig": "signed-adam"}
STAGES = ("stages", "refinements")
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


# measured on one core of a 2-core CPU machine (benchmarks/, and of LeNet and transformer the records of trainings);
# microseconds per client step of batch 32, which smaller batches take too; the transformer has four blocks of width 128
MEASURED_BATCH = 32
STEP_MICROSECONDS = {
    "logistic-regression": 80.0,
    "mlp": 200.0,
    "cnn-small": 2500.0,
    "cnn-mnist": 13_000.0,
    "dlg-lenet": 4000.0,
    "cnn-leaky": 17_000.0,
    "resnet-small": 60_000.0,
    "resnet-18": 1_400_000.0,
    "resnet-152": 4_000_000.0,
    "rexnet": 4_000_000.0,
    # in batches of 16, frozen backbones of three blocks and of width 64; at 224 pixels (not measured)
    "resnet-small-adapted": 25_000.0,
    "vit-adapted": 25_000.0,
    "resnet-18-adapted": 2_000_000.0,
    "vit": 220_000.0,
}
EVALUATION_MILLISECONDS = 2.0
# of these networks: one image in one local step, at 32x32 (a vit at its own size); measured by `leaklab calibrate`
MATCHING_MILLISECONDS = {"cnn-leaky": 5.5, "resnet-18": 37.0, "resnet-152": 285.0, "vit": 6600.0}
# the same of images of 224x224: so many more pixels
LARGE_PIXELS = 49.0
# one evaluation of a matching loss on text: 4 layers of width 128, a sentence of 12 tokens
TEXT_EVALUATION_MILLISECONDS = 20.0
UNKNOWN_STEP_MICROSECONDS = 10_000.0
# one candidate of a generative attack: an image drawn, and one gradient of the victim without derivatives of it; at
# 28x28 with a small generator, and for ResNet-18 at 224x224 with BigGAN (not measured: from their operations)
POPULATION = 50
GENERATIVE_MILLISECONDS = {
    "dlg-lenet": 0.5,
    "cnn-small": 0.5,
    "cnn-mnist": 5.0,
    "resnet-small": 15.0,
    "resnet-18": 300.0,
}
UNKNOWN_GENERATIVE_MILLISECONDS = 15.0
# a network of its width; narrower ones take less, down to the generator's own time
MEASURED_WIDTH = {"resnet-small": 16}
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
# measured: one update of the default classifier with CoLA's words, its copies while it is made and written
TEXT_MEMORY_MB = 20
# the longest check known, 10 000 steps of a convergence theorem, takes 20 s
CHECK_SECONDS = 60.0
OTHER_SECONDS = 10.0
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
    step = STEP_MICROSECONDS.get(spec.model.name, UNKNOWN_STEP_MICROSECONDS) / 1e6
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
def _of_projection(spec: ProjectionSpec) -> Cost:
    steps = spec.generations * spec.population * spec.inner_steps + spec.final_steps
    evaluations = 0 if spec.images.planted else spec.images.count * steps
    one = PUBLISHED_PROJECTION_MILLISECONDS if not spec.generator.steps else PROJECTION_MILLISECONDS
    return Cost(evaluations=evaluations, seconds=evaluations * one / 1e3)


@cost.register
def _of_landscape(spec: LandscapeSpec) -> Cost:
    # a line shows two losses
    evaluations = spec.attack.capture.image_count * spec.alpha[2] * (spec.beta[2] if spec.beta else 2)
    return Cost(evaluations=evaluations, seconds=evaluations * _milliseconds(spec.attack) / 1e3)


@cost.register
def _of_attack_on_text(spec: TextAttackSpec) -> Cost:
    searched = declared(TEXT_ATTACKS, spec.attack.name).searches
    evaluations = spec.capture.trials * spec.restarts * spec.iterations if searched else 0
    return Cost(evaluations=evaluations, seconds=evaluations * TEXT_EVALUATION_MILLISECONDS / 1e3)


def _evaluations(spec: AttackSpec) -> int:
    """Return the largest number of evaluations of an attack's loss."""
    if not declared(ATTACKS, spec.attack.name).searches:
        return 0
    searches = spec.capture.trials * samples_seen(spec.capture) * spec.restarts * spec.iterations
    return searches * _evaluations_an_iteration(spec)


def _evaluations_an_iteration(spec: AttackSpec) -> int:
    """Return the most: one at a step of first order, else those of an L-BFGS step, or of a population a generation.

    Annealed attacks count evaluations, so many a stage.
    """
    if spec.attack.name in FIRST_ORDER or _optimizer(spec) == "signed-adam":
        return 1
    stages, refinements = (chosen(ATTACKS, spec.attack.name, spec.attack.settings, key) for key in STAGES)
    if stages:
        return int(stages) * (1 + int(refinements or 0))
    return int(spec.attack.settings.get("population") or POPULATION) if spec.generator else INNER_ITERATIONS


def _optimizer(spec: AttackSpec) -> str:
    default = OPTIMIZERS.get(spec.attack.name, "")
    return str(spec.attack.settings.get("optimizer", default)) if default else ""


def _milliseconds(spec: AttackSpec) -> float:
    model = spec.capture.model
    if spec.generator is None:
        if model.name not in MATCHING_MILLISECONDS:
            return EVALUATION_MILLISECONDS
        pixels = LARGE_PIXELS if spec.capture.dataset in LARGE_DATASETS and model.name != "vit" else 1.0
        return MATCHING_MILLISECONDS[model.name] * pixels * spec.capture.local_steps
    single = GENERATIVE_MILLISECONDS.get(model.name, UNKNOWN_GENERATIVE_MILLISECONDS)
    if model.name in MEASURED_WIDTH and "width" in model.settings:
        share = float(model.settings["width"] or 0) / MEASURED_WIDTH[model.name]
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
    return PUBLISHED_GENERATOR_MB if spec.generator and not spec.generator.steps else MEMORY_MB


@memory_mb.register
def _mb_of_landscape(spec: LandscapeSpec) -> int:
    return memory_mb(spec.attack)


@memory_mb.register
def _mb_of_sentences(spec: TextCaptureSpec) -> int:
    return max(MEMORY_MB, 1000 + TEXT_MEMORY_MB * spec.trials)


@memory_mb.register
def _mb_of_attack_on_text(spec: TextAttackSpec) -> int:
    return memory_mb(spec.capture)
