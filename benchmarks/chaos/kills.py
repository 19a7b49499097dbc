"""Kills: of single steps, and of the call itself, at chosen moments."""

import os
import signal
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from chaos.bench import Bench, Harm
from chaos.calls import SNAKEMAKE, Running
from chaos.jobs import Job

TICKS = os.sysconf("SC_CLK_TCK")


def kill_steps(bench: Bench, jobs: Sequence[Job], plan: Mapping[Job, tuple[signal.Signals, float]]) -> Harm:
    """Run the command and kill each step once.

    Args:
        bench: the workspace.
        jobs: whose steps are killed.
        plan: job -> the signal, and the share of its usual processor time after which it comes.
    """
    harm, killed = Harm(), dict[int, Job]()
    running = bench.calls.start(*SNAKEMAKE, *[job.target for job in jobs])

    def all_killed() -> bool:
        for pid, job in _steps(bench, jobs).items():
            number, share = plan[job]
            if pid not in killed and job not in killed.values() and used(pid) >= share * bench.seconds[job.record]:
                killed[pid] = job
                _send(pid, number)
        return False

    bench.calls.wait_until(all_killed, running)
    harm.said.append(bench.calls.ended(running))
    status = {end["pid"]: end["status"] for end in bench.calls.ends()}
    for pid, job in killed.items():
        number, share = plan[job]
        if status.get(pid):  # a step that had just ended was not hit
            harm.hits[job] = f"{number.name} to the step after {share:.0%} of its time"
    return harm


def kill_call(bench: Bench, job: Job, number: signal.Signals, group: bool, share: float) -> Harm:
    """Run the command for one job and kill Snakemake, alone or with all that it has started, while the step works."""
    running = bench.calls.start(*SNAKEMAKE, job.target)

    def now() -> bool:
        return any(used(pid) >= share * bench.seconds[job.record] for pid in _steps(bench, [job]))

    hit = bench.calls.wait_until(now, running)
    if hit:
        running.kill(number, group)
    said = bench.calls.ended(running)
    bench.calls.wait_for_steps()
    whom = "the whole group" if group else "Snakemake alone"
    what = f"{number.name} to {whom}, {share:.0%} into the step"
    return Harm({job: what} if hit and said.status else {}, [said])


def kill_before_steps(bench: Bench, job: Job, number: signal.Signals) -> Harm:
    """Kill Snakemake when it has taken its lock, before or as the step starts."""
    running: Running = bench.calls.start(*SNAKEMAKE, job.target)
    locks = bench.folder / ".snakemake/locks"
    hit = bench.calls.wait_until(lambda: locks.is_dir() and any(locks.iterdir()), running)
    if hit:
        running.kill(number, True)
    said = bench.calls.ended(running)
    bench.calls.wait_for_steps()
    what = f"{number.name} to the whole group when the lock was taken"
    return Harm({job: what} if hit and said.status else {}, [said])


def used(pid: int) -> float:
    """Return the processor seconds of a process; 0 where it has ended."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / TICKS


def _steps(bench: Bench, jobs: Sequence[Job]) -> dict[int, Job]:
    """Return the processes that work on these jobs."""
    wanted = {f"run={job.record}": job for job in jobs}
    return {pid: wanted[word] for pid, words in bench.calls.living().items() for word in words if word in wanted}


def _send(pid: int, number: signal.Signals) -> None:
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        time.sleep(0)  # it has just ended: its status will tell
