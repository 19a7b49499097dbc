"""Attack a capture's observation; neither the truth nor the capture's spec is given to it."""

from collections import Counter
from math import inf

from leaklab.attacks.parts import chunks, joined, packed, tensors_of, unpacked
from leaklab.attacks.planned import attacked
from leaklab.attacks.savepoints import Savepoints, keeping
from leaklab.attacks.starts import starts_table
from leaklab.models.generators.files import load_generator
from leaklab.observations.artefacts import load_observation
from leaklab.observations.base import Knowledge
from leaklab.observations.requirements import TRANSFORMS, check, check_prior, check_transform, needs
from leaklab.records.attack_spec import AttackerSpec
from leaklab.records.environment import checkpoint_seconds
from leaklab.records.files import sha256, write_table, write_tensors
from leaklab.records.kept import KeptParts, KeptTensors
from leaklab.steps.base import Job, main


def run(job: Job, until: float = inf) -> None:
    """Write outputs ``reconstruction`` and ``trials`` from inputs ``observation`` and ``facts``.

    A generative attack also has the inputs ``generator`` and ``description``. Finished chunks of trials are kept beside
    the output, and now and then the state of the running search.

    Args:
        job: what to do.
        until: when to leave the running search, by ``time.monotonic``.

    Raises:
        OutOfTime: it was left.
    """
    spec = AttackerSpec.model_validate(job.spec)
    observation, knowledge = load_observation(job.input("observation"), job.input("facts"))
    check_prior(spec.attack.name, spec.generator)
    _check_granted(spec, observation.kind, knowledge)
    generator = load_generator(job.input("generator")) if spec.generator else None
    seen = [sha256(path) for paths in job.inputs.values() for path in paths]
    identity = "\n".join([spec.model_dump_json(), *seen, job.recorder.code, job.device])
    checkpoint = KeptParts(job.outputs["reconstruction"].with_name("checkpoint.safetensors"), identity)
    searches = job.outputs["reconstruction"].with_name("search.safetensors")
    parts, resumed, rows = [], 0, chunks(len(observation.trials))
    for number, chunk in job.track(enumerate(rows), total=len(rows), label="chunks of trials"):
        part = checkpoint.part(number)
        resumed += part is not None
        if part is None:
            kept = KeptTensors(searches, f"{identity}\nchunk {number}", checkpoint_seconds())
            with keeping(Savepoints(kept, until)):
                part = packed(attacked(spec, observation.select(chunk), knowledge, job.device, generator))
            checkpoint.keep(number, part)
            kept.remove()
        parts.append(unpacked(part))
    found = joined(parts)
    write_tensors(job.outputs["reconstruction"], tensors_of(found))
    write_table(job.outputs["trials"], starts_table(found.starts))
    checkpoint.remove()
    stopped = dict(Counter(start.stopped for start in found.starts))
    job.note(trials=len(found.images), evaluations=found.evaluations(), starts=len(found.starts), stopped=stopped,
             chunks_resumed=resumed)  # fmt: skip


def _check_granted(spec: AttackerSpec, kind: str, knowledge: Knowledge) -> None:
    """Refuse an attack on a file whose threat model withholds what it uses, or whose defense its transform misses."""
    attack, transform = spec.attack, spec.transform
    check(
        attack.name, attack.settings, knowledge.threat_model, transform.name, transform.settings, kind, spec.generator
    )
    made_for = "defense" in needs(transform.name, transform.settings, TRANSFORMS) or knowledge.knows("defense")
    defense = knowledge.require("defense", transform.name)["name"] if made_for else None
    check_transform(transform.name, defense, knowledge.require("batch_size", transform.name))


if __name__ == "__main__":
    main("run_attack", run)
