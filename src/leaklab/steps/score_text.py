"""Compare what was read with the private sentences: the first step that sees both."""

from dataclasses import asdict

import pandas as pd

from leaklab.captures.truth import load_text_truth
from leaklab.data.text.corpus import Corpus
from leaklab.metrics.base import LABEL_CARD
from leaklab.metrics.silence import cards_of, counted, silent_trials
from leaklab.metrics.text.scoring import SELECTIONS, score_trials, text_cards
from leaklab.records.files import read_json, read_table, write_json, write_table
from leaklab.specs.text import TextScoreSpec
from leaklab.steps.base import Job, main


def run(job: Job) -> None:
    """Write the score table, the sentences that were read, and the cards that say how numbers were computed."""
    spec = TextScoreSpec.model_validate(job.spec)
    corpus = Corpus.load(job.input("corpus"))
    trials = load_text_truth(job.input("truth"))
    starts = read_table(job.input("trials"))
    silent = silent_trials(starts)
    lines, texts = score_trials(spec, corpus, trials, read_json(job.input("reconstruction"))["trials"], silent)
    write_table(job.outputs["scores"], pd.DataFrame(lines))
    write_json(job.outputs["texts"], {"trials": texts})
    facts = {
        "trials": len(trials),
        "diverged_trials": int((starts["diverged"] & starts["chosen"]).sum()),
        "not_available": {},
        "substitute": corpus.substitute,
        **counted(silent),
    }
    cards = {card.name: asdict(card) for card in (*text_cards(spec.metrics), LABEL_CARD, *cards_of(silent))}
    write_json(job.outputs["cards"], {"metrics": cards, "selections": SELECTIONS, **facts})
    job.note(**facts)


if __name__ == "__main__":
    main("score_text", run)
