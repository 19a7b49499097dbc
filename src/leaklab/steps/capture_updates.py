"""Capture what clients send in one round: the observation for the attacker, the truth for the judge."""

from leaklab.data.dataset import Dataset
from leaklab.observations.artefacts import save_observation, save_truth
from leaklab.observations.capture import capture
from leaklab.records.capture_spec import CaptureSpec
from leaklab.steps.base import Job, main


def run(job: Job) -> None:
    """Write outputs ``observation``, ``facts``, ``truth``, ``truth_facts`` from inputs ``dataset`` and ``card``."""
    spec = CaptureSpec.model_validate(job.spec)
    dataset = Dataset.load(job.input("dataset"))
    observation, knowledge, truth = capture(spec, dataset)
    save_observation(job.outputs["observation"], job.outputs["facts"], observation, knowledge)
    save_truth(job.outputs["truth"], job.outputs["truth_facts"], truth)
    job.note(
        trials=len(observation.trials),
        local_steps_done=truth.rates.shape[1],
        granted=sorted(knowledge.facts),
        substitute=dataset.substitute,
    )


if __name__ == "__main__":
    main("capture_updates", run)
