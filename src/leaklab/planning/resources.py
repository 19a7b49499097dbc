"""What a job asks for and what it is expected to cost: memory, minutes, optimiser steps, attack evaluations."""

from dataclasses import dataclass

from leaklab.observations.text_requirements import READ_OUT
from leaklab.records.attack_spec import AttackSpec, ScoreSpec
from leaklab.records.capture_spec import CaptureSpec
from leaklab.records.check_spec import CheckSpec
from leaklab.records.specs import Spec, TextSpec
from leaklab.records.text_specs import TextAttackSpec, TextCaptureSpec
from leaklab.records.train_spec import TrainSpec

# largest L-BFGS work per outer iteration (max_iter of the attack's optimiser)
INNER_ITERATIONS = 20
SAFETY = 3.0
SMALLEST_MINUTES = 10


@dataclass(frozen=True)
class Cost:
    """What one job does and an estimate of its time on one CPU core.

    Attributes:
        steps: client steps of a training job (one step of one client on one batch).
        evaluations: matching-loss evaluations of an attack job, at most.
        seconds: estimated CPU seconds, at most.
    """

    steps: int = 0
    evaluations: int = 0
    seconds: float = 0.0


# measured on one core of a 2-core CPU machine (benchmarks/); microseconds per client step of batch 32
STEP_MICROSECONDS = {
    "logistic-regression": 80.0,
    "mlp": 200.0,
    "cnn-small": 2500.0,
    "cnn-mnist": 13_000.0,
    "resnet-small": 60_000.0,
    "resnet-18": 1_400_000.0,
    "rexnet": 1_400_000.0,
}
EVALUATION_MILLISECONDS = 2.0
# one evaluation of a matching loss on text: 4 layers of width 128, a sentence of 12 tokens
TEXT_EVALUATION_MILLISECONDS = 20.0
UNKNOWN_STEP_MICROSECONDS = 10_000.0
# measured: one update of the default classifier with CoLA's words, its copies while it is made and written
TEXT_MEMORY_MB = 20
# the longest check known, 10 000 steps of a convergence theorem, takes 20 s
CHECK_SECONDS = 60.0


def cost(spec: Spec, clients: int = 2) -> Cost:
    """Return the largest cost of a job; ``clients`` take part in each round of a training job."""
    if isinstance(spec, TrainSpec):
        taking_part = spec.clients_per_round or clients
        steps = len(spec.seeds) * len(spec.rates) * spec.rounds * spec.local_steps * taking_part
        return Cost(
            steps=steps, seconds=steps * STEP_MICROSECONDS.get(spec.model.name, UNKNOWN_STEP_MICROSECONDS) / 1e6
        )
    if isinstance(spec, AttackSpec):
        trials = spec.capture.images.count * spec.capture.draws
        evaluations = trials * spec.restarts * spec.iterations * INNER_ITERATIONS
        return Cost(evaluations=evaluations, seconds=evaluations * EVALUATION_MILLISECONDS / 1e3)
    if isinstance(spec, TextAttackSpec):
        trials = spec.capture.sentences.count * spec.capture.draws
        evaluations = 0 if spec.attack.name == READ_OUT else trials * spec.restarts * spec.iterations
        return Cost(evaluations=evaluations, seconds=evaluations * TEXT_EVALUATION_MILLISECONDS / 1e3)
    return Cost(seconds=CHECK_SECONDS if isinstance(spec, CheckSpec) else 10.0)


def minutes(spec: Spec) -> int:
    """Return the run time to ask a scheduler for, in minutes."""
    return max(SMALLEST_MINUTES, int(SAFETY * cost(spec).seconds / 60))


def memory_mb(spec: Spec) -> int:
    """Return the memory to ask for, in MB."""
    if isinstance(spec, TextCaptureSpec | TextAttackSpec):
        capture = spec.capture if isinstance(spec, TextAttackSpec) else spec
        return max(2000, 1000 + TEXT_MEMORY_MB * capture.sentences.count * capture.draws)
    if isinstance(spec, TrainSpec | CaptureSpec | AttackSpec | ScoreSpec | CheckSpec | TextSpec):
        return 2000
    return 1000
