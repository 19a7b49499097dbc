"""Check a theorem, algorithm, protocol or drawing by numbers."""

import torch  # noqa: F401 - a check may not need it, but the step limits the threads of what is imported first

from leaklab.records import plugins
from leaklab.records.files import read_json
from leaklab.records.purity import watched
from leaklab.specs.attack import CheckSpec
from leaklab.steps.base import Job, main
from leaklab.theory.base import Check, Clients, write_numbers


def run(job: Job) -> None:
    """Write output ``numbers``; input ``partition`` tells the check who holds how much, if its spec names a deal."""
    spec = CheckSpec.model_validate(job.spec)
    check: Check = plugins.load("theory", spec.check.name, spec.check.settings)
    with watched(check, call="run", draws="streams of the seed that it is given"):
        count = write_numbers(job.outputs["numbers"], check.run(spec.seed, _clients(job), job.track))
    job.note(numbers=count)


def _clients(job: Job) -> Clients | None:
    if not job.inputs.get("partition"):
        return None
    deal = read_json(job.input("partition"))
    return Clients(sizes=tuple(map(len, deal["clients"])), class_counts=tuple(deal["num_classes"]))


if __name__ == "__main__":
    main("check_theory", run)
