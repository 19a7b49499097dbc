"""What a job is expected to cost: optimiser steps, attack evaluations, seconds, and the minutes to ask for."""

from dataclasses import dataclass
from functools import singledispatch

from leaklab.observations.client_requirements import samples_seen
from leaklab.observations.declared import declared
from leaklab.planning import work
from leaklab.records.record import Component
from leaklab.records.traits import check_traits, evaluations_an_iteration
from leaklab.specs.attack import ATTACKS, AttackSpec, CheckSpec, LandscapeSpec, ProjectionSpec, ScoreSpec
from leaklab.specs.base import Spec
from leaklab.specs.capture import CaptureSpec
from leaklab.specs.generator import GeneratorSpec
from leaklab.specs.law import LawSpec
from leaklab.specs.text import TEXT_ATTACKS, TextAttackSpec, TextCaptureSpec
from leaklab.specs.training import TrainSpec

SAFETY = 3.0
SMALLEST_MINUTES = 10


@dataclass(frozen=True)
class Cost:
    """What one job does and an estimate of its time on one CPU core.

    Attributes:
        steps: client steps of a training job (one step of one client on one batch), or steps of a generator's.
        evaluations: matching-loss evaluations of an attack job, at most; an update of B images counts B times.
        seconds: estimated CPU seconds, at most: as if its searches made all evaluations that they may.
        likely: estimated CPU seconds, as its searches usually end.
        unit: estimated CPU seconds of one step, or of one evaluation of one update; 0 for other jobs.
    """

    steps: int = 0
    evaluations: int = 0
    seconds: float = 0.0
    likely: float = 0.0
    unit: float = 0.0

    @classmethod
    def of(cls, seconds: float, most: float = 0.0) -> "Cost":
        """Return the cost of a job that takes such seconds, and at most others, where there may be more."""
        return cls(seconds=max(seconds, most), likely=seconds)


# one evaluation of a matching loss on text: 4 layers of width 128, a sentence of 12 tokens
TEXT_EVALUATION_SECONDS = 0.027
# of a sentence: tokens put together from the spans of its layers, and the gradients of a transformer
SPANS_SECONDS, SENTENCE_SECONDS = 1.6, 0.4
MOST_SPANS = 10.0
# one image of a GAN inversion and its derivatives, LPIPS included: with a small generator, and with BigGAN (not
# measured: from its operations)
PROJECTION_SECONDS = 4e-3
PUBLISHED_PROJECTION_SECONDS = 1.0
LARGE_GENERATORS = {"biggan-deep"}
# most checks of scale small end sooner, whatever they usually take
CHECK_SECONDS = 60.0
OTHER_SECONDS = 10.0
# that are tried on a defense at most, and the stages of each trial
LAWS, STAGES_OF_TRIAL = 4, 5
# that take part in a round of a deal that does not say how many there are
CLIENTS = 2


@singledispatch
def cost(spec: Spec) -> Cost:
    """Return the largest and the likely cost of a job: some seconds, unless its stage says more."""
    return Cost.of(work.START_SECONDS, OTHER_SECONDS)


@cost.register
def _of_check(spec: CheckSpec) -> Cost:
    said = check_traits(spec.check.name).seconds
    return Cost.of(work.START_SECONDS + said, CHECK_SECONDS)


@cost.register
def _of_training(spec: TrainSpec) -> Cost:
    taking_part = spec.clients_per_round or int(spec.partition.settings.get("clients") or CLIENTS)
    visits = spec.replicates * spec.rounds_done * taking_part
    steps = visits * spec.local_steps
    unit = work.factor_of(spec) * work.step_seconds(spec.model, spec.dataset, spec.batch_size)
    start = work.START_SECONDS + work.reading_seconds(spec.dataset)
    rounds = work.testing_seconds(spec) + visits * work.VISIT_SECONDS + steps * unit
    likely = start + rounds * (work.REACHED if spec.goal else 1.0)
    return Cost(steps=steps, seconds=start + rounds, likely=likely, unit=unit)


@cost.register
def _of_generator(spec: GeneratorSpec) -> Cost:
    seconds = work.START_SECONDS + work.generator_seconds(spec)
    return Cost(steps=spec.steps, seconds=seconds, likely=seconds)


@cost.register
def _of_capture_job(spec: CaptureSpec) -> Cost:
    return Cost.of(work.START_SECONDS + work.capture_seconds(spec), OTHER_SECONDS)


@cost.register
def _of_score(spec: ScoreSpec) -> Cost:
    return Cost.of(work.START_SECONDS + work.score_seconds(spec), OTHER_SECONDS)


@cost.register
def _of_attack(spec: AttackSpec) -> Cost:
    start = work.START_SECONDS + work.ATTACK_SECONDS
    if not declared(ATTACKS, spec.attack.name).searches:
        return Cost.of(start + work.reading_update_seconds(spec))
    evaluations = _evaluations(spec)
    return _searching(evaluations, work.evaluation_seconds(spec), samples_seen(spec.capture), work.used_of(spec), start)


def _searching(evaluations: int, unit: float, images: int, used: float, start: float) -> Cost:
    """Return the cost of a search that evaluates so many images at most, and so many with each update."""
    most = evaluations / images * unit
    return Cost(evaluations=evaluations, seconds=start + most, likely=start + used * most, unit=unit)


@cost.register
def _of_law(spec: LawSpec) -> Cost:
    trial = AttackSpec(
        attack=Component(name="annealed-likelihood", settings={"stages": STAGES_OF_TRIAL}),
        capture=spec.capture,
        generator=spec.generator,
        iterations=spec.iterations,
    )
    images = samples_seen(spec.capture)
    gate = 2 * spec.gate * spec.evaluations * STAGES_OF_TRIAL
    chosen = bool(spec.images) * spec.choosing * spec.capture.batch_size * LAWS * STAGES_OF_TRIAL * spec.iterations
    unit = work.evaluation_seconds(trial) / images
    return _searching(gate + chosen, unit, 1, 1.0, OTHER_SECONDS / 2)


@cost.register
def _of_projection(spec: ProjectionSpec) -> Cost:
    steps = spec.generations * spec.population * spec.inner_steps + spec.final_steps
    evaluations = 0 if spec.images.planted else spec.images.count * steps
    large = spec.generator.model.name in LARGE_GENERATORS
    one = PUBLISHED_PROJECTION_SECONDS if large else PROJECTION_SECONDS
    return _searching(evaluations, one, 1, 1.0, work.START_SECONDS)


@cost.register
def _of_landscape(spec: LandscapeSpec) -> Cost:
    # a line shows two losses
    evaluations = spec.attack.capture.image_count * spec.alpha[2] * (spec.beta[2] if spec.beta else 2)
    one = work.evaluation_seconds(spec.attack)
    return _searching(evaluations, one, samples_seen(spec.attack.capture), 1.0, work.START_SECONDS)


@cost.register
def _of_captured_text(spec: TextCaptureSpec) -> Cost:
    return Cost.of(work.START_SECONDS + SENTENCE_SECONDS * spec.trials, OTHER_SECONDS)


@cost.register
def _of_attack_on_text(spec: TextAttackSpec) -> Cost:
    searched = declared(TEXT_ATTACKS, spec.attack.name).searches
    each = evaluations_an_iteration(spec.attack.name, spec.attack.settings, TEXT_ATTACKS)
    if not searched:
        seconds = SPANS_SECONDS * spec.capture.trials
        return Cost.of(work.START_SECONDS + seconds, MOST_SPANS * seconds)
    evaluations = spec.capture.trials * spec.restarts * spec.iterations * each
    return _searching(evaluations, TEXT_EVALUATION_SECONDS, 1, 1.0, work.START_SECONDS)


def _evaluations(spec: AttackSpec) -> int:
    """Return the largest number of evaluations of an attack's loss."""
    searches = spec.capture.trials * samples_seen(spec.capture) * spec.restarts * spec.iterations
    return searches * evaluations_an_iteration(spec.attack.name, spec.attack.settings)


def minutes_of(seconds: float) -> int:
    """Return the run time to ask a scheduler for, in minutes, of what is expected to take so many seconds."""
    return max(SMALLEST_MINUTES, int(SAFETY * seconds / 60))
