"""This project's attacks as plug-ins, as a user has them; what they evaluate is watched from outside."""

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

from pool_peel.cases import FASHION, dataset, generator

from leaklab.attacks.base import Attack, Budget
from leaklab.attacks.base import Case as Given
from leaklab.attacks.matching.distances import profiled_scale
from leaklab.models.generators.class_gaussian import ClassGaussianGenerator
from leaklab.observations.base import Knowledge, Observation
from leaklab.records import plugins
from leaklab.records.streams import stream
from time_to_picture.cases import Case
from time_to_picture.workers.measuring import Job, Outcome, measure
from time_to_picture.workers.meter import Meter, Spent
from time_to_picture.workers.watching import watching

KNOWN = {"label_rule": "known"}
MAP_BUDGETS = tuple(Budget(evaluations, 1) for evaluations in (40, 100, 300))
DLG_BUDGETS = (Budget(300, 100),)
IG_BUDGETS = tuple(Budget(steps, 1) for steps in (300, 1000, 3000, 24_000))
ONCE = (Budget(1, 1),)
WARM_UP = Budget(1, 1)
IG_SMOOTHING = 1e-4
"""Default of ``ig``; ``csdlg`` has none of its own."""


@dataclass(frozen=True)
class Plan:
    """How one attack is run.

    Attributes:
        attack: the plug-in.
        budgets: of the searches one after another, until all updates are read.
        prior: whether it takes the Gaussians of public images.
        reads: what it finds is one answer at its end, not a search that can be asked on the way.
    """

    attack: Attack
    budgets: tuple[Budget, ...]
    prior: bool = False
    reads: bool = False


def plan_of(attack: str, case: Case) -> Plan:
    """Return how an attack is run on a case that it is made for."""
    several = case.steps > 1
    if attack == "exact":
        return _reading(case)
    if attack == "map":
        settings = KNOWN | ({"matching": "unrolled"} if several else {})
        return Plan(_plugin("annealed-map", **settings), MAP_BUDGETS, prior=True)
    if attack == "dlg":
        return Plan(_plugin("delta-dlg" if several else "dlg"), DLG_BUDGETS)
    if attack == "idlg":
        return Plan(_plugin("csdlg" if several else "idlg", **KNOWN), DLG_BUDGETS)
    if several:
        signed = {"optimizer": "signed-adam", "total_variation": IG_SMOOTHING}
        return Plan(_plugin("csdlg", **KNOWN, **signed), IG_BUDGETS)
    return Plan(_plugin("ig", **KNOWN), IG_BUDGETS)


def _reading(case: Case) -> Plan:
    if case.name == "cnn-1":
        return Plan(_plugin("pool-peel", **KNOWN), (Budget(40, 8),), prior=True, reads=True)
    if case.name == "resnet-1":
        return Plan(_plugin("residual-peel", **KNOWN), (Budget(40, 1),), prior=True, reads=True)
    name, settings = ("exact-batch", {}) if case.batch > 1 else ("analytic", KNOWN)
    return Plan(_plugin(name, **settings), ONCE, reads=True)


def _plugin(name: str, **settings: object) -> Attack:
    attack: Attack = plugins.load("attacks", name, settings)
    return attack


def prior_of(plan: Plan) -> tuple[ClassGaussianGenerator | None, float]:
    """Return the prior of a plan and the processor seconds of reading the public images and of fitting it."""
    if not plan.prior:
        return None, 0.0
    start = time.process_time()
    dataset(FASHION)
    fitted = generator(FASHION)
    return fitted, time.process_time() - start


def attacked(job: Job, observation: Observation, knowledge: Knowledge, meter_of: Callable[[], Meter]) -> Outcome:
    """Attack; see ``measuring.measure``."""
    plan = plan_of(job.attack, job.case)
    prior, seconds = prior_of(plan)
    # analytic readings say nothing of a distance; the scale that LRP hides is none of theirs
    distance = profiled_scale if job.case.hides_scale and job.attack != "ig" else None
    given = Given(observation, knowledge, WARM_UP, partial(stream, 0, "attack"), distance, prior)
    if not (plan.reads and plan.prior):  # those take many seconds even for a tiny budget
        plan.attack.reconstruct(given)
    meter = meter_of()
    searched(plan, given, meter)
    return Outcome(meter, seconds / len(observation.trials))


def searched(plan: Plan, given: Given, meter: Meter) -> None:
    """Run the searches of a plan one after another, each on the updates that are not read yet."""
    try:
        for number, budget in enumerate(plan.budgets):
            with meter.aside():
                meter.rows = meter.missing()
                left = replace(
                    given,
                    observation=given.observation.select(meter.rows),
                    budget=budget,
                    streams=partial(stream, number, "attack"),
                )
            if not meter.rows:
                return
            meter.searches += 1
            if plan.reads:
                found = plan.attack.reconstruct(left)
                images = found.images
                meter.offer(range(len(images)), [0.0] * len(images), lambda places, all=images: all[places])
            else:
                with watching(meter):
                    plan.attack.reconstruct(left)
    except Spent:
        return


if __name__ == "__main__":
    measure(attacked)
