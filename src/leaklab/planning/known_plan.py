"""A plan that is complete, and so need find nothing twice: names of runs, jobs of an item, items that stayed."""

from collections.abc import Mapping, Sequence
from functools import cached_property

from leaklab.items.items import Item
from leaklab.planning.plan import Job, Keeper, Plan, asked_for, build_plan
from leaklab.records.config import SCALES, Scale
from leaklab.specs.base import Spec, run_id

Key = tuple[str, str]
"""Stage and id of a run."""


class KnownPlan(Plan):
    """A plan to which nothing is added any more."""

    @classmethod
    def of(cls, plan: Plan) -> "KnownPlan":
        """Return the same plan; its jobs are told their names, by which it has them."""
        found = cls(plan.items, plan.jobs, plan.datasets, plan.runs, plan._added)
        for jobs in plan.jobs.values():
            for name, job in jobs.items():
                vars(job)["name"] = name  # as if it had been asked: it is a cached property
        for job in (job for jobs in plan.jobs.values() for job in jobs.values()):
            if "read_runs" not in vars(job):
                vars(job)["read_runs"] = tuple(map(found.key_of, job.needs))
        return found

    def key_of(self, spec: Spec) -> Key:
        """Return stage and id of a run of this plan."""
        # by identity, as specs are not hashable; the plan holds them all, so no other can take the place of one
        if id(spec) not in self._keys:
            known = self._added.get(id(spec))
            return spec.stage, run_id(spec) if known is None else known[1]
        return self._keys[id(spec)]

    def jobs_of(self, scale: Scale, item: Item) -> list[Job]:
        """Return every job that the item needs at this scale, each once, in the order of the road."""
        if (scale, item.key) not in self._jobs_of_items:
            found: dict[Key, Job] = {}
            for spec in asked_for(self.runs[scale, item.key]):
                self._keys[id(spec)] = self.key_of(spec)
                self._follow(self._keys[id(spec)], found)
            self._jobs_of_items[scale, item.key] = list(found.values())
        return self._jobs_of_items[scale, item.key]

    def with_items(
        self, items: Mapping[str, Item], scales: Sequence[Scale] = SCALES, keeper: Keeper | None = None
    ) -> "KnownPlan":
        """Return the plan of the same items, of which some have changed: only these are planned anew.

        Raises:
            UserError: see ``build_plan``.
        """
        found = Plan(items)
        for key, item in items.items():
            stayed = item is self.items.get(key)
            part = self if stayed else KnownPlan.of(build_plan({key: item}, scales, keeper))
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
