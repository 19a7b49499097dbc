"""Capture what clients send in one round: the observation for the attacker, the truth for the judge."""

from collections import Counter

import torch

from leaklab.captures.capture import capture, defense_changes, sent_again
from leaklab.captures.truth import save_truth
from leaklab.data.dataset import Dataset
from leaklab.models.generators.base import load_generator
from leaklab.observations.files import save_observation
from leaklab.records.files import read_json, read_tensors
from leaklab.specs.capture import CaptureSpec
from leaklab.steps.base import Job, main


def run(job: Job) -> None:
    """Write outputs ``observation``, ``facts``, ``truth``, ``truth_facts`` from inputs ``dataset`` and ``card``.

    Clients of a deal also have the input ``partition``, a state of a training the input ``weights``, sent updates
    those of the training that kept them besides, planted images the inputs ``generator`` and ``description``.
    """
    spec = CaptureSpec.model_validate(job.spec)
    dataset = Dataset.load(job.input("dataset"))
    deal = [torch.tensor(held) for path in job.inputs.get("partition", []) for held in read_json(path)["clients"]]
    weights = [read_tensors(path) for path in job.inputs.get("weights", [])]
    trained, sent = weights[0] if weights else {}, weights[1] if spec.sent else None
    generator = next((load_generator(path) for path in job.inputs.get("generator", [])), None)
    observation, knowledge, truth = capture(spec, dataset, deal, trained, generator, sent)
    save_observation(job.outputs["observation"], job.outputs["facts"], observation, knowledge)
    save_truth(job.outputs["truth"], job.outputs["truth_facts"], truth)
    job.note(
        trials=len(observation.trials),
        local_steps_done=truth.rates.shape[1],
        granted=sorted(knowledge.facts),
        substitute=dataset.substitute,
        **({"silent_updates": dict(Counter(observation.silent.values()))} if observation.silent else {}),
    )
    if sent is not None:
        job.note(as_the_state_gives=sent_again(spec, observation.update, dataset, deal, trained))
    changes = defense_changes(spec, observation.update, dataset, deal, trained, generator)
    job.note_effect(spec.defense.name, changes)


if __name__ == "__main__":
    main("capture_updates", run)
