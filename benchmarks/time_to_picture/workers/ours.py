"""This project's attacks as plug-ins, as a user has them; what they evaluate is watched from outside."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from leaklab.attacks.base import Attack, Budget
from leaklab.attacks.base import Case as Given
from leaklab.attacks.matching.distances import profiled_scale
from leaklab.models.generators.on_demand import GaussiansOnDemand
from leaklab.observations.base import Knowledge, Observation
from leaklab.records import plugins
from leaklab.records.files import read_tensors
from leaklab.records.streams import stream
from time_to_picture.cases import PUBLIC, Case
from time_to_picture.workers.measuring import Job, Outcome, labels_of, measure
from time_to_picture.workers.meter import Meter, Spent
from time_to_picture.workers.watching import watching

KNOWN = {"label_rule": "known"}
CLASSES = 10
NARROW, WIDE = (Budget(600, 3),), (Budget(100, 1), Budget(300, 1))
DLG_BUDGETS = (Budget(300, 100),)
IG_BUDGETS = tuple(Budget(steps, 1) for steps in (300, 1000, 3000, 24_000))
ONCE = Budget(1, 1)
WARM_UP = Budget(1, 1)
IG_SMOOTHING = 1e-4
"""Default of ``ig``; ``csdlg`` has none of its own."""


@dataclass(frozen=True)
class Plan:
    """How one attack is run.

    Attributes:
        searches: plug-ins and their budgets, one after another until all updates are read.
        prior: whether it takes the Gaussians of public images.
        reads: what it finds is one answer at its end, not a search that can be asked on the way.
    """

    searches: tuple[tuple[Attack, Budget], ...]
    prior: bool = False
    reads: bool = False


def plan_of(attack: str, case: Case) -> Plan:
    """Return how an attack is run on a case that it is made for."""
    several = case.steps > 1
    if attack == "exact":
        return _reading(case)
    if attack == "map":
        narrow = _plugin("narrow-map", **KNOWN, matching="prescribed" if several else "gradient")
        wide = _plugin("annealed-map", **KNOWN, matching="unrolled" if several else "gradient")
        return Plan((*_each(narrow, NARROW), *_each(wide, WIDE)), prior=True)
    if attack == "dlg":
        return Plan(_each(_plugin("delta-dlg" if several else "dlg"), DLG_BUDGETS))
    if attack == "idlg":
        return Plan(_each(_plugin("csdlg" if several else "idlg", **KNOWN), DLG_BUDGETS))
    if several:
        signed = {"optimizer": "signed-adam", "total_variation": IG_SMOOTHING}
        return Plan(_each(_plugin("csdlg", **KNOWN, **signed), IG_BUDGETS))
    return Plan(_each(_plugin("ig", **KNOWN), IG_BUDGETS))


def _each(attack: Attack, budgets: tuple[Budget, ...]) -> tuple[tuple[Attack, Budget], ...]:
    return tuple((attack, budget) for budget in budgets)


def _reading(case: Case) -> Plan:
    if case.name == "cnn-1":
        return Plan(((_plugin("pool-peel", **KNOWN), Budget(40, 8)),), prior=True, reads=True)
    if case.name == "resnet-1":
        return Plan(((_plugin("residual-peel", **KNOWN), Budget(40, 1)),), prior=True, reads=True)
    attack = _plugin("exact-batch") if case.batch > 1 else _plugin("analytic", **KNOWN)
    return Plan(((attack, ONCE),), reads=True)


def _plugin(name: str, **settings: object) -> Attack:
    attack: Attack = plugins.load("attacks", name, settings)
    return attack


def prior_of(plan: Plan, public: Path, labels: Sequence[int]) -> tuple[GaussiansOnDemand | None, float]:
    """Return the prior of a plan and the processor seconds of reading public images and fitting the classes in use.

    Args:
        plan: that may have none.
        public: what ``cases.save_public`` wrote.
        labels: of the images, granted.
    """
    if not plan.prior:
        return None, 0.0
    start = time.process_time()
    data = read_tensors(public)
    prior = GaussiansOnDemand(data["images"], data["labels"], CLASSES)
    for label in sorted(set(labels)):
        prior.mean_of(label), prior.factor_of(label)
    return prior, time.process_time() - start


def attacked(job: Job, observation: Observation, knowledge: Knowledge, meter_of: Callable[[], Meter]) -> Outcome:
    """Attack; see ``measuring.measure``."""
    plan = plan_of(job.attack, job.case)
    labels = [label for row in range(len(job.updates)) for label in labels_of(observation.select([row]), knowledge)]
    prior, seconds = prior_of(plan, Path(job.folder).parent / PUBLIC, labels)
    # analytic readings say nothing of a distance; the scale that LRP hides is none of theirs
    distance = profiled_scale if job.case.hides_scale and job.attack != "ig" else None
    given = Given(observation, knowledge, WARM_UP, partial(stream, 0, "attack"), distance, prior)
    if not (plan.reads and plan.prior):  # those take many seconds even for a tiny budget
        plan.searches[0][0].reconstruct(given)
    meter = meter_of()
    searched(plan, given, meter)
    return Outcome(meter, seconds / len(observation.trials))


def searched(plan: Plan, given: Given, meter: Meter) -> None:
    """Run the searches of a plan one after another, each on the updates that are not read yet."""
    try:
        for number, (attack, budget) in enumerate(plan.searches):
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
                found = attack.reconstruct(left)
                images = found.images
                meter.offer(range(len(images)), [0.0] * len(images), lambda places, all=images: all[places])
            else:
                with watching(meter):
                    attack.reconstruct(left)
    except Spent:
        return


if __name__ == "__main__":
    measure(attacked)
