"""Read sentences from a capture's observation; neither the private ones nor the capture's spec is given to it."""

from collections import Counter
from functools import partial

from leaklab.attacks.base import Budget
from leaklab.attacks.starts import starts_table
from leaklab.attacks.text.base import TextAttack, TextCase, packed, read, unpacked, written
from leaklab.observations.files import load_observation
from leaklab.records import plugins
from leaklab.records.files import sha256, write_json, write_table
from leaklab.records.kept import KeptParts
from leaklab.records.purity import watched
from leaklab.records.streams import repeat_on_gpu, stream
from leaklab.specs.text import TextAttackerSpec
from leaklab.steps.base import Job, main


def run(job: Job) -> None:
    """Write outputs ``reconstruction`` and ``trials`` from inputs ``observation`` and ``facts``."""
    repeat_on_gpu(job.device)
    spec = TextAttackerSpec.model_validate(job.spec)
    observation, knowledge = load_observation(job.input("observation"), job.input("facts"))
    attack: TextAttack = plugins.load("attacks/text", spec.attack.name, spec.attack.settings)
    budget = Budget(spec.iterations, spec.restarts)
    streams = partial(stream, spec.seed, "attack")
    seen = [sha256(job.input(name)) for name in ("observation", "facts")]
    identity = "\n".join([spec.model_dump_json(), *seen, job.recorder.code, job.device])
    checkpoint = KeptParts(job.outputs["reconstruction"].with_name("checkpoint.safetensors"), identity)
    sentences, resumed = [], 0
    for row in job.track(range(len(observation.trials)), total=len(observation.trials), label="sentences"):
        part = checkpoint.part(row)
        resumed += part is not None
        if part is None:
            one = observation.select([row]).to(job.device)
            case = TextCase(one, knowledge, budget, streams, spec.labels)
            given = {"case.observation": one, "case.knowledge": knowledge}
            with watched(attack, call="reconstruct", given=given, draws="case.streams(name)"):
                part = packed(read(attack, case))
            checkpoint.keep(row, part)
        sentences.append(unpacked(part))
    found = [written(one) for one in sentences]
    write_json(job.outputs["reconstruction"], {"trials": found})
    starts = [start for sentence in sentences for start in sentence.starts]
    write_table(job.outputs["trials"], starts_table(starts))
    checkpoint.remove()
    job.note(
        trials=len(found),
        evaluations=sum(start.evaluations for start in starts),
        starts=len(starts),
        stopped=dict(Counter(start.stopped for start in starts)),
        sentences_resumed=resumed,
    )


if __name__ == "__main__":
    main("attack_text", run)
