"""Attack a capture's observation; the truth is not among the inputs."""

from collections import Counter
from dataclasses import replace
from functools import partial

from leaklab.attacks.adaptive.base import Transform
from leaklab.attacks.base import Attack, Budget, Reconstruction
from leaklab.attacks.generative import GenerativeAttack
from leaklab.attacks.parts import Checkpoint, chunks, joined, starts_table, tensors_of
from leaklab.models.generators.base import Generator
from leaklab.models.generators.files import load_generator
from leaklab.observations.artefacts import load_observation
from leaklab.observations.base import Knowledge, Observation
from leaklab.observations.requirements import check_generator, check_transform
from leaklab.records import plugins
from leaklab.records.attack_spec import AttackSpec
from leaklab.records.files import sha256, write_table, write_tensors
from leaklab.records.streams import stream
from leaklab.steps.base import Job, main


def run(job: Job) -> None:
    """Write outputs ``reconstruction`` and ``trials`` from inputs ``observation`` and ``facts``.

    A generative attack also has the inputs ``generator`` and ``description``.
    """
    spec = AttackSpec.model_validate(job.spec)
    observation, knowledge = load_observation(job.input("observation"), job.input("facts"))
    check_transform(spec.transform.name, spec.capture.defense.name, spec.capture.batch_size)
    check_generator(spec)
    generator = load_generator(job.input("generator")) if spec.generator else None
    seen = [sha256(path) for paths in job.inputs.values() for path in paths]
    identity = "\n".join([spec.model_dump_json(), *seen, job.recorder.code, job.device])
    checkpoint = Checkpoint(job.outputs["reconstruction"].with_name("checkpoint.safetensors"), identity)
    parts, resumed, rows = [], 0, chunks(len(observation.trials))
    for number, chunk in job.track(enumerate(rows), total=len(rows), label="chunks of trials"):
        part = checkpoint.part(number)
        resumed += part is not None
        if part is None:
            part = _attacked(spec, observation.select(chunk), knowledge, job.device, generator)
            checkpoint.keep(number, part)
        parts.append(part)
    found = joined(parts)
    write_tensors(job.outputs["reconstruction"], tensors_of(found))
    write_table(job.outputs["trials"], starts_table(found))
    checkpoint.remove()
    stopped = dict(Counter(start.stopped for start in found.starts))
    job.note(trials=len(found.images), evaluations=found.evaluations(), starts=len(found.starts), stopped=stopped,
             chunks_resumed=resumed)  # fmt: skip


def _attacked(
    spec: AttackSpec, observation: Observation, knowledge: Knowledge, device: str, generator: Generator | None
) -> Reconstruction:
    transform: Transform = plugins.load("attacks/adaptive", spec.transform.name, spec.transform.settings)
    attack = _attack(spec, generator)
    prepared, scale = transform.prepare(observation.to(device), knowledge)
    budget = Budget(spec.iterations, spec.restarts)
    streams = partial(stream, spec.seed, "attack")
    found = attack.reconstruct(prepared, knowledge, budget, streams, transform.distance)
    unit = spec.capture.on_unit_range
    return replace(found, images=unit(found.images), candidates=unit(found.candidates), scale=scale.cpu()).cpu()


def _attack(spec: AttackSpec, generator: Generator | None) -> Attack:
    if generator is None:
        plain: Attack = plugins.load("attacks", spec.attack.name, spec.attack.settings)
        return plain
    generative: GenerativeAttack = plugins.load("attacks", spec.attack.name, spec.attack.settings)
    return generative.using(generator)


if __name__ == "__main__":
    main("run_attack", run)
