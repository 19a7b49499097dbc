"""One step of what neither trains a client nor attacks an update of images."""

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from speed.compiler import without_compiler
from torch.nn import functional as F

from leaklab.attacks.text.distances import Tag
from leaklab.attacks.text.inversion import SentenceFrame, TextInversion
from leaklab.models.generators.training import Duel
from leaklab.planning.resources import STAGES_OF_TRIAL
from leaklab.records import plugins
from leaklab.records.record import Component
from leaklab.records.streams import stream
from leaklab.specs.attack import AttackSpec, LandscapeSpec, ProjectionSpec
from leaklab.specs.generator import GeneratorSpec
from leaklab.specs.law import LawSpec
from leaklab.specs.text import TextAttackSpec
from paper_hours.attacks import dtype_of, emptied, evaluation_of, generator_of
from paper_hours.counting import Count, counted, fake
from paper_hours.shapes import classes_of, shape_of

TOKENS, WORDS, CLASSES = 12, 1000, 2
"""Of the sentence that stands for all, as in the plan's own costs; its length counts, not how many words exist."""


def projection_step(spec: ProjectionSpec) -> tuple[Count, int]:
    """Return what a step of GAN inversion asks for: image, distances and their derivative for one latent."""
    generator, distance = generator_of(spec.generator), _perceptual(spec.perceptual)
    side_by_side = spec.images.count * spec.population
    with fake():
        emptied(generator, torch.float32)
        if distance is not None:
            emptied(distance, torch.float32)
        classes = torch.empty(side_by_side, generator.num_classes)
        targets = torch.empty(side_by_side, *generator.image_shape)

        def step() -> None:
            latents = torch.empty(side_by_side, generator.latent_size, requires_grad=True)
            images = generator.generate(latents, classes)
            loss = ((images - targets) ** 2).sum()
            if distance is not None:
                loss = loss + distance(2 * images - 1, 2 * targets - 1).sum()
            torch.autograd.grad(loss, latents)

        whole = counted(step)
    return whole * (1 / side_by_side), side_by_side


def _perceptual(name: str) -> Any:
    """Return the network of LPIPS with numbers that nobody reads; None for an empty name."""
    if not name:
        return None
    import lpips  # slow to import

    net = plugins.load("metrics", name).net
    return lpips.LPIPS(net=net, pretrained=False, pnet_rand=True, verbose=False).eval().requires_grad_(False)


@without_compiler()
def landscape_point(spec: LandscapeSpec) -> tuple[Count, int]:
    """Return what a point of a landscape asks for: a candidate of the attack, one after the other."""
    count, together = evaluation_of(spec.attack)
    return count, together


@without_compiler()
def law_trial(spec: LawSpec) -> tuple[Count, int]:
    """Return what an evaluation of a trial of a law asks for, as the plan has it."""
    trial = AttackSpec(
        attack=Component(name="annealed-likelihood", settings={"stages": STAGES_OF_TRIAL}),
        capture=spec.capture, generator=spec.generator, iterations=spec.iterations,
    )  # fmt: skip
    return evaluation_of(trial)


def generator_step(spec: GeneratorSpec) -> tuple[Count, int]:
    """Return what a step of a GAN asks for, counted once on real tensors, as the step looks at its losses."""
    shape, classes = shape_of(spec.dataset), classes_of(spec.dataset)
    made = plugins.load("models/generators", spec.model.name, spec.model.settings)
    generator, judge = (
        made.generator(shape, classes, stream(0, "g")),
        made.discriminator(shape, classes, stream(0, "d")),
    )
    duel = Duel(generator, judge, (spec.rate, spec.rate), 0.0, spec.average)
    named = F.one_hot(torch.zeros(spec.batch_size, dtype=torch.long), classes).float()
    real, drawn = (torch.rand(spec.batch_size, *shape), named), (torch.randn(spec.batch_size, made.latent_size), named)
    step: Callable[[], object] = partial(duel.step, 1, real, drawn)
    step()
    return counted(step), 1


def text_evaluation(spec: TextAttackSpec) -> tuple[Count, int]:
    """Return what an evaluation of one sentence asks for, counted once on real tensors of a small network."""
    model = plugins.load("models/text", spec.capture.model.name, spec.capture.model.settings)
    network = model.initialised(WORDS, CLASSES, 0).requires_grad_(False).eval()
    observed = {name: torch.ones(1, *value.shape) for name, value in network.named_parameters()}
    objective = TextInversion(network, observed, [SentenceFrame(TOKENS, 1, 2)], CLASSES, Tag())
    point, rows = torch.randn(1, objective.unknowns(0)), torch.zeros(1, dtype=torch.long)
    return counted(lambda: objective(point, rows)), 1


def precision_of(spec: Any) -> str:
    """Return in what numbers a job reckons."""
    match spec:
        case LandscapeSpec():
            return precision_of(spec.attack)
        case AttackSpec():
            return str(dtype_of(spec)).removeprefix("torch.")
        case LawSpec():
            return "float64"
        case ProjectionSpec() | GeneratorSpec() | TextAttackSpec():
            return "float32"
    return str(spec.dtype)
