"""Which faults are tried, on which jobs, in which order: drawn once from a seed."""

import random
import signal
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import zip_longest

from chaos.bench import Bench, Fault, trial
from chaos.damage import DAMAGES, YEARS, damage_metadata, damage_outputs, touch_files
from chaos.disks import FULL, fill, forbid, why_not
from chaos.jobs import LAST, Job, levels
from chaos.kills import kill_before_steps, kill_call, kill_steps
from chaos.others import MIRRORS, cut_mirror, run_twice
from chaos.workspace import TINY

TOGETHER = 12
SIGNALS = (signal.SIGKILL, signal.SIGKILL, signal.SIGKILL, signal.SIGTERM, signal.SIGINT)
CALLS = tuple((number, group) for number in (signal.SIGKILL, signal.SIGTERM, signal.SIGINT) for group in (True, False))
Wave = Callable[[], list[Fault]]


def waves_of(bench: Bench, chance: random.Random) -> dict[str, list[Wave]]:
    """Return kind -> its waves; each hits jobs of one rank, so that none waits for another that is harmed."""
    jobs = bench.jobs
    parts = levels([job for job in jobs if TINY not in job.target], TOGETHER)
    single = _one_of_each_stage(jobs, chance)
    found = {
        "kill": [_kills(bench, part, chance) for _ in SIGNALS for part in parts],
        "damaged output": [_damage(bench, part, chance) for _ in range(2) for part in parts],
        "kill of the call": [_call(bench, job, *how, chance) for how in CALLS for job in single[::2]],
        "damaged note": [partial(_notes, bench, part, chance) for part in parts],
        "clock": [partial(touch_files, bench, part, [chance.choice(list(YEARS)) for _ in part]) for part in parts],
        "two calls": [partial(trial, bench, "two calls", [job], _twice(bench, job, chance)) for job in single[::2]],
        "mirror cut": [_mirror(bench, job, how, chance) for job in jobs if TINY in job.target for how in MIRRORS],
    }  # fmt: skip
    found["kill of the call"] += [_locked(bench, job) for job in single[1::3]]
    if not why_not(bench.folder.parent):
        found["disk full"] = [_full(bench, part, chance) for part in parts]
        found["permissions"] = [partial(trial, bench, "permissions", [job], _ro(bench, job)) for job in single]
    for one in found.values():
        chance.shuffle(one)
    return found


def last_waves(bench: Bench, chance: random.Random) -> Iterator[tuple[Sequence[Job], list[Wave]]]:
    """Yield the faults of the jobs that read all of a scale, the last job first, with the jobs after it.

    What these write tells of the records before them, so each is tried before anything that it reads is made again,
    and what comes after it has to be away, as it was when the reference was made.
    """
    by_rule = {job.rule: job for job in bench.jobs}
    last = [by_rule[rule] for rule in reversed(LAST)]
    for number, job in enumerate(last):
        waves = [_kills(bench, [job], chance), _kills(bench, [job], chance), _damage(bench, [job], chance)]
        yield last[:number], waves


def in_turn(waves: dict[str, list[Wave]]) -> Iterator[Wave]:
    """Yield the waves of all kinds in turn, so that a part of them has some of each kind."""
    for row in zip_longest(*waves.values()):
        yield from filter(None, row)


def _one_of_each_stage(jobs: Sequence[Job], chance: random.Random) -> list[Job]:
    stages = sorted({job.stage for job in jobs})
    return [chance.choice([job for job in jobs if job.stage == stage]) for stage in stages]


def _kills(bench: Bench, part: Sequence[Job], chance: random.Random) -> Wave:
    plan = {job: (chance.choice(SIGNALS), chance.uniform(0.02, 0.95)) for job in part}
    return partial(trial, bench, "kill", part, lambda jobs: kill_steps(bench, jobs, plan))


def _call(bench: Bench, job: Job, number: signal.Signals, group: bool, chance: random.Random) -> Wave:
    share = chance.uniform(0.02, 0.9)
    return partial(trial, bench, "kill of the call", [job], lambda _: kill_call(bench, job, number, group, share))


def _locked(bench: Bench, job: Job) -> Wave:
    return partial(trial, bench, "kill of the call", [job], lambda _: kill_before_steps(bench, job, signal.SIGKILL))


def _full(bench: Bench, part: Sequence[Job], chance: random.Random) -> Wave:
    left = {job: chance.choice(list(FULL)) for job in part}
    return partial(trial, bench, "disk full", part, lambda jobs: fill(bench, jobs, left))


def _ro(bench: Bench, job: Job) -> Callable[[Sequence[Job]], object]:
    return lambda _: forbid(bench, job)


def _twice(bench: Bench, job: Job, chance: random.Random) -> Callable[[Sequence[Job]], object]:
    after = chance.uniform(0.0, 3.0)
    return lambda _: run_twice(bench, job, after)


def _mirror(bench: Bench, job: Job, how: str, chance: random.Random) -> Wave:
    return partial(trial, bench, "mirror cut", [job], lambda _: cut_mirror(bench, job, how, chance))


def _damage(bench: Bench, part: Sequence[Job], chance: random.Random) -> Wave:
    how = [chance.choice(DAMAGES) for _ in part]
    return lambda: damage_outputs(bench, part, how, chance)


def _notes(bench: Bench, part: Sequence[Job], chance: random.Random) -> list[Fault]:
    return damage_metadata(bench, part, [chance.choice(DAMAGES) for _ in part], chance)
