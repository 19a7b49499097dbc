"""A plan that is complete, and so need find nothing twice: names of runs, the jobs of an item, the items that stayed.

The id of a run is a hash of its whole text. A plan of scale ``paper`` is asked for tens of thousands of them, which
takes longer than to make it.
"""

from collections.abc import Mapping, Sequence
from functools import cached_property

from leaklab.planning.plan import Job, Plan, build_plan
from leaklab.records.config import SCALES, Scale
from leaklab.records.ids import RUNS, run_id
from leaklab.records.items import Item
from leaklab.records.specs import Spec

Key = tuple[str, str]
"""Stage and id of a run."""


class KnownPlan(Plan):
    """A plan to which nothing is added any more."""

    @classmethod
    def of(cls, plan: Plan) -> "KnownPlan":
        """Return the same plan; its jobs are told their names, by which it has them."""
        found = cls(plan.items, plan.jobs, plan.datasets, plan.runs)
        for stage, jobs in plan.jobs.items():
            for name, job in jobs.items():
                # as if each had been asked: these are cached properties
                vars(job).update(name=name, folder=RUNS / stage / name)
        for job in (job for jobs in plan.jobs.values() for job in jobs.values()):
            if "read_runs" not in vars(job):
                vars(job)["read_runs"] = tuple(map(found.key_of, job.needs))
        return found

    def key_of(self, spec: Spec) -> Key:
        """Return stage and id of a run of this plan."""
        # by identity, as specs are not hashable; the plan holds them all, so no other can take the place of one
        known = self._keys.get(id(spec))
        return (spec.stage, run_id(spec)) if known is None else known

    def jobs_of(self, scale: Scale, item: Item) -> list[Job]:
        """Return every job that the item needs at this scale, each once, in the order of the road."""
        if (scale, item.key) not in self._jobs_of_items:
            found: dict[Key, Job] = {}
            for run in self.runs[scale, item.key]:
                if run.spec is not None:
                    self._keys[id(run.spec)] = self.key_of(run.spec)
                    self._follow(self._keys[id(run.spec)], found)
            self._jobs_of_items[scale, item.key] = list(found.values())
        return self._jobs_of_items[scale, item.key]

    def with_items(self, items: Mapping[str, Item], scales: Sequence[Scale] = SCALES) -> "KnownPlan":
        """Return the plan of the same items, of which some have changed: only these are planned anew.

        Raises:
            UserError: see ``build_plan``.
        """
        found = Plan(items)
        for key, item in items.items():
            stayed = item is self.items.get(key)
            part = self if stayed else KnownPlan.of(build_plan({key: item}, scales))
            for scale in scales:
                if (scale, key) in part.runs:
                    found.runs[scale, key] = part.runs[scale, key]
                    _add(found, part.jobs_of(scale, item))
        return KnownPlan.of(found)

    def _follow(self, key: Key, found: dict[Key, Job]) -> None:
        if key not in found:
            job = self.job(*key)
            for needed in job.read_runs:
                self._follow(needed, found)
            found[key] = job

    @cached_property
    def _keys(self) -> dict[int, Key]:
        return {id(job.spec): (stage, name) for stage, jobs in self.jobs.items() for name, job in jobs.items()}

    @cached_property
    def _jobs_of_items(self) -> dict[tuple[Scale, str], list[Job]]:
        return {}


def _add(plan: Plan, jobs: Sequence[Job]) -> None:
    for job in jobs:
        plan.jobs.setdefault(job.spec.stage, {}).setdefault(job.name, job)
        plan.datasets.update(filter(None, [job.dataset]))
