"""From what an attack read to the long score table and to the texts behind it, trial by trial."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from leaklab.data.text.corpus import Corpus
from leaklab.metrics.labels import LABEL_CARD
from leaklab.metrics.silence import silence_line
from leaklab.metrics.text.scoring import OWN_CHOICE, reference_sentences, sentence_scores
from leaklab.observations.text_truth import TextTrial
from leaklab.records.text_specs import TextScoreSpec

Line = dict[str, Any]


def score_trials(
    spec: TextScoreSpec,
    corpus: Corpus,
    trials: Sequence[TextTrial],
    found: Sequence[Mapping[str, Any]],
    silent: Collection[int] = (),
) -> tuple[list[Line], list[Line]]:
    """Return the lines of ``scores.csv`` and those of ``texts.json``.

    Args:
        spec: which metrics.
        corpus: gives tokens their texts, and the references.
        trials: the private side.
        found: for each trial ``tokens`` (ids) and ``label``.
        silent: trials whose update says nothing; they have a text without anything read, and no line but their count.
    """
    lines: list[Line] = []
    texts: list[Line] = []
    for number, (trial, guess) in enumerate(zip(trials, found, strict=True)):
        truth, read = (corpus.vocabulary.decode(ids) for ids in (trial.ids, guess["tokens"]))
        place = {"trial": number, "example": trial.example, "draw": trial.draw}
        texts.append({**place, "text": trial.text, "private": truth, "read": read, "factor": _factor(spec, trial)})
        if number in silent:
            continue
        seed = spec.attack.capture.sentences.seed
        references = reference_sentences(corpus.vocabulary, corpus.sentences, trial.sentence, len(truth), seed)
        for selection, answer in {OWN_CHOICE: read, **references}.items():
            scores = sentence_scores(answer, truth, spec.metrics)
            lines += [{**place, "selection": selection, "metric": m, "value": v} for m, v in scores.items()]
        correct = float(guess["label"] == trial.label)
        lines.append({**place, "selection": OWN_CHOICE, "metric": LABEL_CARD.name, "value": correct})
    if silent:
        line = silence_line(silent, [trial.draw for trial in trials])
        lines.append({"trial": line["trial"], "example": line.pop("image"), **line})
    return lines, texts


def _factor(spec: TextScoreSpec, trial: TextTrial) -> float:
    """Return the rate really used over the rate that the server assumed: what LRP hides."""
    capture = spec.attack.capture
    return sum(trial.rates) / (capture.rate * capture.local_steps)
