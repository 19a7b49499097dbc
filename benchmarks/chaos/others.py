"""Two calls at once, and a mirror that is cut."""

import random
import shutil
import time
from pathlib import Path

from chaos.bench import Bench, Harm
from chaos.calls import SNAKEMAKE
from chaos.damage import CUTS, FLIP, harm_file
from chaos.jobs import Job

GONE, EMPTY, ONE_MISSING = "its folder is gone", "its folder is empty", "one of its files is gone"
MIRRORS = (GONE, EMPTY, ONE_MISSING, FLIP, *CUTS)


def run_twice(bench: Bench, job: Job, after: float) -> Harm:
    """Run the same command twice, the second some seconds after the first."""
    command = (*SNAKEMAKE, job.target)
    first = bench.calls.start(*command)
    time.sleep(after)
    second = bench.calls.start(*command)
    said = [bench.calls.ended(first), bench.calls.ended(second)]
    bench.calls.wait_for_steps()
    return Harm({job: f"the same call again {after:.1f} s later"}, said)


def cut_mirror(bench: Bench, job: Job, how: str, chance: random.Random) -> Harm:
    """Fetch a data set from a mirror that is cut."""
    whole = bench.calls.workspace.mirror
    broken = whole.with_name("broken")
    shutil.rmtree(broken, ignore_errors=True)
    if how == EMPTY:
        broken.mkdir()
    elif how != GONE:
        shutil.copytree(whole, broken)
        chosen: Path = chance.choice(sorted(path for path in broken.rglob("*") if path.is_file()))
        if how == ONE_MISSING:
            chosen.unlink()
        else:
            harm_file(chosen, how, chance)
    said = bench.calls.run(*SNAKEMAKE, job.target, LEAKLAB_MIRROR=str(broken))
    return Harm({job: f"the mirror: {how}"} if said.status else {}, [said])
