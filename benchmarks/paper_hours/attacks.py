"""One evaluation of an attack's loss: the attack's own objective, on tensors without numbers."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any
from unittest.mock import patch

import torch
from speed.compiler import without_compiler
from torch import Tensor, nn
from torch._subclasses.fake_tensor import unset_fake_temporarily

from leaklab.attacks.adaptive.base import OfOneTrial
from leaklab.attacks.latents.landscape import GRADIENT_NUMBERS, LatentMatching
from leaklab.attacks.matching import steps as steps_of_clients
from leaklab.attacks.matching.cosine import CosineInversion, cosine_distance
from leaklab.attacks.matching.delta import DeltaMatching, JointRates, Samples, Surrogate
from leaklab.attacks.matching.distances import Distance, squared_l2
from leaklab.attacks.matching.gradients import layered_gradients, trial_gradients
from leaklab.attacks.matching.inversion import Inversion, UpdateInversion
from leaklab.attacks.matching.module_gradients import reason_against
from leaklab.attacks.matching.steps import LocalSteps, batch_order
from leaklab.attacks.rog_lite import Enlarged
from leaklab.attacks.search.priors import WithPrior, total_variation
from leaklab.models.generators.base import Generator
from leaklab.observations.client_requirements import samples_seen
from leaklab.records import plugins
from leaklab.records.errors import UserError
from leaklab.records.record import Component
from leaklab.records.traits import chosen
from leaklab.specs.attack import ATTACKS, TRANSFORMS, TRIALS_TOGETHER, AttackSpec
from paper_hours.counting import Count, counted, fake, without_numbers
from paper_hours.searches import adam_step, lbfgs_step
from paper_hours.shapes import classes_of, shape_of

GENERATIVE = "ggl"
COSINE = ("ig", "csdlg", "rog-lite")
DELTA = ("csdlg", "delta-dlg")
PRINTED = (*COSINE, *DELTA, "dlg", "idlg", "delta-ig", GENERATIVE)
"""Attacks whose own objective is counted; of the others, which take next to no time, a gradient matching in float64."""
Objective = Callable[[Tensor, Tensor], Any]


@dataclass(frozen=True)
class Victim:
    """What an attack's objective is made of.

    Attributes:
        network: without numbers, in evaluation state.
        observed: one [T, ...] a parameter.
        labels: [T, n].
        rows: [T].
        shape: of the samples of one trial, (n, C, H, W).
        classes: their number.
    """

    network: nn.Sequential
    observed: list[Tensor]
    labels: Tensor
    rows: Tensor
    shape: tuple[int, ...]
    classes: int

    @property
    def like(self) -> Tensor:
        """A tensor of the search's type."""
        return self.observed[0]


@without_compiler()
def evaluation_of(spec: AttackSpec) -> tuple[Count, int]:
    """Return what an evaluation of one image asks for, and how many trials share a launch.

    The step of the search that follows is counted with it.
    """
    trials = trials_together(spec)
    if spec.attack.name == GENERATIVE:
        return _candidate(spec, trials)
    samples = int(spec.attack.settings.get("samples") or samples_seen(spec.capture))
    rows, labels = torch.arange(trials), torch.zeros(trials, samples, dtype=torch.long)
    network = network_of(spec)
    with fake(), patch.object(steps_of_clients, "_check"):  # which looks at the order of samples
        victim = _victim(spec, network, rows, labels)
        objective = _objective(spec, victim)
        points = torch.empty(trials, objective.unknowns, dtype=victim.like.dtype)
        whole = counted(partial(_with_prior(spec, objective, victim), points, rows))
        unknowns, dtype = int(objective.unknowns), victim.like.dtype
    step = lbfgs_step if searches_by_lbfgs(spec) else adam_step
    return (whole + step(unknowns, dtype, trials)) * (1 / (trials * samples_seen(spec.capture))), trials


def trials_together(spec: AttackSpec) -> int:
    """Return how many trials an attack works on side by side."""
    alone = isinstance(plugins.load(TRANSFORMS, spec.transform.name, spec.transform.settings), OfOneTrial)
    return 1 if alone else min(TRIALS_TOGETHER, spec.capture.trials)


def dtype_of(spec: AttackSpec) -> torch.dtype:
    """Return in what an attack reckons."""
    name = spec.attack.settings.get("dtype")
    if name == "float64" or spec.attack.name not in PRINTED:
        return torch.float64
    found: torch.dtype = getattr(torch, spec.capture.dtype)
    return found


def searches_by_lbfgs(spec: AttackSpec) -> bool:
    """Tell whether the search steps by L-BFGS, else by Adam."""
    name = spec.attack.name
    if name in ("ig", "rog-lite"):
        return False
    return name not in ("csdlg", "delta-ig") or chosen(ATTACKS, name, spec.attack.settings, "optimizer") == "lbfgs"


def network_of(spec: AttackSpec) -> nn.Sequential:
    """Return the attacked network, with numbers that nobody reads."""
    capture = spec.capture
    model = plugins.load("models", capture.model.name, capture.model.settings)
    network: nn.Sequential = model.build(shape_of(capture.dataset), classes_of(capture.dataset))
    return network.eval().requires_grad_(False)


def emptied(network: nn.Module, dtype: torch.dtype) -> None:
    """Let the tensors of a network have no numbers; inside ``fake``."""
    for module in network.modules():
        for name, value in list(module._parameters.items()):
            if value is not None:
                module._parameters[name] = nn.Parameter(torch.rand(value.shape, dtype=dtype), requires_grad=False)
        for name, value in list(module._buffers.items()):
            if value is not None and value.is_floating_point():
                module._buffers[name] = torch.rand(value.shape, dtype=dtype)


def _victim(spec: AttackSpec, network: nn.Sequential, rows: Tensor, labels: Tensor) -> Victim:
    emptied(network, dtype_of(spec))
    observed = [torch.empty(len(rows), *value.shape, dtype=value.dtype) for value in network.parameters()]
    dataset = spec.capture.dataset
    return Victim(network, observed, labels, rows, (labels.shape[1], *shape_of(dataset)), classes_of(dataset))


def _objective(spec: AttackSpec, victim: Victim) -> Any:
    """Return the objective of an attack, as the attack would make it."""
    name, steps = spec.attack.name, spec.capture.local_steps
    if name == "delta-ig":
        return _of_delta(spec, victim)
    distance = _distance(spec.transform)
    unknown = name in ("dlg", "delta-dlg")
    labels = None if unknown else victim.labels
    base: Any
    if name in DELTA and (steps > 1 or spec.capture.weight_decay):
        with unset_fake_temporarily():  # it looks at the rates
            rates = torch.full((steps,), 0.1, dtype=torch.float64)
            order = batch_order(victim.shape[0], samples_seen(spec.capture), steps)
            own = distance or (cosine_distance if name == "csdlg" else squared_l2)
            base = _bare(UpdateInversion, victim, own, labels, rates, LocalSteps(order=order))
    elif name in COSINE and distance is None:
        base = _cosine(victim)
    else:
        base = _bare(Inversion, victim, distance or squared_l2, labels)
    return Enlarged(base, 4, "bicubic") if name == "rog-lite" else base


def _bare(kind: Any, victim: Victim, distance: Distance, labels: Tensor | None, *more: Any) -> Any:
    return kind(victim.network, victim.observed, victim.shape, victim.classes, distance, labels, *more)


class _Cosine(CosineInversion):
    """The same without a look at numbers: all observed gradients are finite, and all trials in order."""

    def _observed(self, rows: Tensor) -> list[Tensor]:
        return self.observed


def _cosine(victim: Victim) -> CosineInversion:
    made = _Cosine.__new__(_Cosine)
    Inversion.__init__(
        made, victim.network, victim.observed, victim.shape, victim.classes, cosine_distance, victim.labels
    )
    made._by_products = made._gradients is not layered_gradients and reason_against(victim.network) is None
    return made


def _of_delta(spec: AttackSpec, victim: Victim) -> Any:
    matching = chosen(ATTACKS, "delta-ig", spec.attack.settings, "matching")
    samples = Samples(victim.shape, victim.classes, victim.labels)
    kind = {"joint-rates": JointRates, "surrogate": Surrogate}.get(str(matching), DeltaMatching)
    made = kind.__new__(kind)
    made.network, made.samples, made._observed = victim.network, samples, victim.observed
    if kind is Surrogate:
        made.penalty = 1.0
    else:
        rates = torch.full((spec.capture.local_steps,), 0.1, dtype=victim.like.dtype)
        made.rates, made.distance, made.steps, made._unit = rates, squared_l2, LocalSteps(), -0.1
    return made


def _distance(transform: Component) -> Distance | None:
    """Return the distance that a transform puts in place of the attack's; squared L2 for one that needs numbers."""
    try:
        found: Distance | None = plugins.load(TRANSFORMS, transform.name, transform.settings).distance
    except (AttributeError, UserError):
        return squared_l2
    return None if found is None else squared_l2


def _with_prior(spec: AttackSpec, objective: Any, victim: Victim) -> Objective:
    """Return the objective with the total variation that IG adds to it."""
    if spec.attack.name != "ig":
        return objective  # type: ignore[no-any-return]
    return WithPrior(objective, total_variation, 1e-4, victim.shape, torch.ones(len(victim.rows)))


# A candidate of a generative attack: the generator's image, and the victim's gradient for it.


def generator_of(spec: Any) -> Generator:
    """Return the generator of a spec, with numbers that nobody reads."""
    model = plugins.load("models/generators", spec.model.name, spec.model.settings)
    shape = shape_of(spec.dataset)
    found: Generator = model.generator(shape, classes_of(spec.dataset))
    return found.frozen()


def _candidate(spec: AttackSpec, trials: int) -> tuple[Count, int]:
    assert spec.generator is not None
    network, generator = network_of(spec), generator_of(spec.generator)
    population = int(chosen(ATTACKS, GENERATIVE, spec.attack.settings, "population"))
    most = trials * samples_seen(spec.capture) * population
    rows, own = torch.zeros(most, dtype=torch.long), torch.zeros(1, dtype=torch.long)

    def candidates() -> tuple[Count, int]:
        emptied(generator, dtype_of(spec))
        matching = _latent(_victim(spec, network, own, own.view(1, 1)), generator)
        held = min(most, matching._together)
        latents = torch.rand(held, generator.latent_size, dtype=dtype_of(spec))
        return counted(lambda: matching.evaluate(latents, rows[:held])), held

    whole, held = without_numbers(candidates)
    return whole * (1 / held), held


def _latent(victim: Victim, generator: Generator) -> LatentMatching:
    made = LatentMatching.__new__(LatentMatching)
    made.generator, made.network, made.observed = generator, victim.network, victim.observed
    made.distance, made.penalty, made.input_range, made.batch = squared_l2, 0.0, (0.0, 1.0), 1
    made.classes = torch.rand(1, 1, generator.num_classes, dtype=victim.like.dtype)
    made._gradients = trial_gradients(victim.network)
    made._together = max(1, GRADIENT_NUMBERS // sum(value[0].numel() for value in victim.observed))
    return made
