"""Capture what clients with one sentence each send: the observation for the attacker, the truth for the judge."""

from leaklab.captures.capture_text import capture_text, defense_changes
from leaklab.captures.truth import save_text_truth
from leaklab.data.text.corpus import Corpus
from leaklab.observations.files import save_observation
from leaklab.specs.text import TextCaptureSpec
from leaklab.steps.base import Job, main


def run(job: Job) -> None:
    """Write outputs ``observation``, ``facts`` and ``truth`` from input ``corpus``."""
    spec = TextCaptureSpec.model_validate(job.spec)
    corpus = Corpus.load(job.input("corpus"))
    observation, knowledge, trials = capture_text(spec, corpus)
    save_observation(job.outputs["observation"], job.outputs["facts"], observation, knowledge)
    save_text_truth(job.outputs["truth"], trials)
    job.note(
        trials=len(trials),
        local_steps_done=len(trials[0].rates),
        granted=sorted(knowledge.facts),
        vocabulary=len(corpus.vocabulary),
        substitute=corpus.substitute,
    )
    job.note_effect(spec.defense.name, defense_changes(spec, observation.update, corpus))


if __name__ == "__main__":
    main("capture_text", run)
