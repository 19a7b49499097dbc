"""Compare what was read with the private sentences: the first step that sees both."""

from dataclasses import asdict
from typing import Any

import pandas as pd

from leaklab.data.text.corpus import Corpus
from leaklab.metrics.labels import LABEL_CARD
from leaklab.metrics.text.scoring import OWN_CHOICE, SELECTIONS, reference_sentences, sentence_scores, text_cards
from leaklab.observations.text_artefacts import TextTrial, load_text_truth
from leaklab.records.files import read_json, read_table, write_json, write_table
from leaklab.records.text_specs import TextScoreSpec
from leaklab.steps.base import Job, main


def run(job: Job) -> None:
    """Write the score table, the sentences that were read, and the cards that say how numbers were computed."""
    spec = TextScoreSpec.model_validate(job.spec)
    corpus = Corpus.load(job.input("corpus"))
    trials = load_text_truth(job.input("truth"))
    found: list[dict[str, Any]] = read_json(job.input("reconstruction"))["trials"]
    lines: list[dict[str, Any]] = []
    texts: list[dict[str, Any]] = []
    for number, (trial, guess) in enumerate(zip(trials, found, strict=True)):
        truth, read = (corpus.vocabulary.decode(ids) for ids in (trial.ids, guess["tokens"]))
        place = {"trial": number, "example": trial.example, "draw": trial.draw}
        answers = {OWN_CHOICE: read, **_references(spec, corpus, trial, len(truth))}
        for selection, answer in answers.items():
            scores = sentence_scores(answer, truth, spec.metrics)
            lines += [{**place, "selection": selection, "metric": m, "value": v} for m, v in scores.items()]
        correct = float(guess["label"] == trial.label)
        lines.append({**place, "selection": OWN_CHOICE, "metric": LABEL_CARD.name, "value": correct})
        texts.append({**place, "text": trial.text, "private": truth, "read": read, "factor": _factor(spec, trial)})
    write_table(job.outputs["scores"], pd.DataFrame(lines))
    write_json(job.outputs["texts"], {"trials": texts})
    starts = read_table(job.input("trials"))
    facts = {
        "trials": len(trials),
        "diverged_trials": int((starts["diverged"] & starts["chosen"]).sum()),
        "not_available": {},
        "substitute": corpus.substitute,
    }
    cards = {card.name: asdict(card) for card in (*text_cards(spec.metrics), LABEL_CARD)}
    write_json(job.outputs["cards"], {"metrics": cards, "selections": SELECTIONS, **facts})
    job.note(**facts)


def _references(spec: TextScoreSpec, corpus: Corpus, trial: TextTrial, length: int) -> dict[str, tuple[str, ...]]:
    seed = spec.attack.capture.sentences.seed
    return dict(reference_sentences(corpus.vocabulary, corpus.sentences, trial.sentence, length, seed))


def _factor(spec: TextScoreSpec, trial: TextTrial) -> float:
    """Return the rate really used over the rate that the server assumed: what LRP hides."""
    capture = spec.attack.capture
    return sum(trial.rates) / (capture.rate * capture.local_steps)


if __name__ == "__main__":
    main("score_text", run)
