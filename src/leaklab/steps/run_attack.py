"""Attack a capture's observation; neither the truth nor the capture's spec is given to it."""

from collections import Counter
from functools import partial
from math import inf

from leaklab.attacks.adaptive.base import LearntLaw
from leaklab.attacks.base import Reconstruction
from leaklab.attacks.latents.splitting import without_splits
from leaklab.attacks.reconstructions import chunks, joined, tensors_of
from leaklab.attacks.run import attacked, check_granted
from leaklab.attacks.starts import starts_table
from leaklab.models.generators.base import load_generator
from leaklab.observations.files import load_observation
from leaklab.records.files import read_json, read_tensors, sha256, write_table, write_tensors
from leaklab.records.streams import repeat_on_gpu
from leaklab.specs.attack import AttackerSpec
from leaklab.steps.base import Job, main
from leaklab.steps.kept_attack import KeptAttack


def run(job: Job, until: float = inf) -> None:
    """Write outputs ``reconstruction`` and ``trials`` from inputs ``observation`` and ``facts``.

    A generative attack also has the inputs ``generator`` and ``description``, one with a learnt law ``law`` and
    ``laws``. See ``KeptAttack`` for ``until``.
    """
    repeat_on_gpu(job.device)
    spec = AttackerSpec.model_validate(job.spec)
    observation, knowledge = load_observation(job.input("observation"), job.input("facts"))
    check_granted(spec, observation.kind, knowledge)
    generator = load_generator(job.input("generator")) if spec.generator else None
    law = law_of(job) if job.inputs.get("law") else None
    if law and not law[0].get("splits", True):  # a rehearsal found that they lead to wrong images here
        spec = spec.model_copy(update={"attack": without_splits(spec.attack)})
    seen = [sha256(path) for paths in job.inputs.values() for path in paths]
    identity = "\n".join([spec.model_dump_json(), *seen, job.recorder.code, job.device])
    kept, rows = KeptAttack(job.outputs["reconstruction"].parent, identity, until), chunks(len(observation.trials))

    def attack(chunk: list[int]) -> Reconstruction:
        return attacked(spec, observation.select(chunk), knowledge, job.device, generator, law)

    track = job.track(enumerate(rows), total=len(rows), label="chunks of trials")
    found = joined([kept.chunk(number, partial(attack, chunk)) for number, chunk in track])
    write_tensors(job.outputs["reconstruction"], tensors_of(found))
    write_table(job.outputs["trials"], starts_table(found.starts))
    kept.remove()
    stopped = dict(Counter(start.stopped for start in found.starts))
    job.note(trials=len(found.images), evaluations=found.evaluations(), starts=len(found.starts), stopped=stopped,
             chunks_resumed=kept.resumed)  # fmt: skip


def law_of(job: Job) -> LearntLaw:
    """Return the learnt law among a job's inputs, on its device."""
    tensors = {name: value.to(job.device) for name, value in read_tensors(job.input("law")).items()}
    return read_json(job.input("laws")), tensors


if __name__ == "__main__":
    main("run_attack", run)
