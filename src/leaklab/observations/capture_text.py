"""Capture of clients with one private sentence each: what they send in one round, and the secret behind it.

The update comes from ``federated.local_training``, the code that trains, as for images.
"""

from typing import Any

import torch
from torch import Tensor

from leaklab.data.text.corpus import Corpus
from leaklab.data.text.encoding import TokenBatch, encode_batch
from leaklab.data.text.printed import PRINTED
from leaklab.data.text.vocabulary import END, PADDING, START, UNKNOWN
from leaklab.defenses.base import ClientContext, Defense, overrides
from leaklab.federated.batches import Batch
from leaklab.federated.local import local_training
from leaklab.federated.text_network import TextNetwork
from leaklab.models.text.base import TextArchitecture
from leaklab.observations.base import Knowledge, Observation
from leaklab.observations.requirements import check_kind
from leaklab.observations.text_artefacts import TextTrial
from leaklab.observations.threat_models import granted
from leaklab.records import plugins
from leaklab.records.errors import UserError
from leaklab.records.streams import stream
from leaklab.records.text_specs import SentenceChoice, TextCaptureSpec

TOGETHER = 8
"""Clients that train together; every one needs several copies of the weights. It decides memory, not results."""


def capture_text(spec: TextCaptureSpec, corpus: Corpus) -> tuple[Observation, Knowledge, tuple[TextTrial, ...]]:
    """Return what the server sees of every trial, what it is granted to know, and the truth.

    Trials are the chosen sentences times ``draws``, the draws of a sentence side by side. The defense draws from
    streams named by seed, sentence and draw, so a trial does not depend on how many there are.

    Raises:
        UserError: sentences that are not there or too long for the model, a defense that keeps weights back, or a
            gradient where the threat model withholds the rate.
    """
    check_kind(spec.kind, spec.threat_model)
    architecture: TextArchitecture = plugins.load("models/text", spec.model.name, spec.model.settings)
    chosen = choose_sentences(spec.sentences, corpus)
    batch = encode_batch(corpus.vocabulary, [corpus.sentences.texts[place] for place in chosen])
    _refuse_long(batch, architecture.positions, spec.model.name)
    labels = torch.tensor([corpus.sentences.labels[place] for place in chosen])
    updates, weights, rates = _sent(spec, corpus, architecture, chosen, batch.ids, labels)
    count = len(chosen) * spec.draws
    observation = Observation(
        weights=weights,
        update=updates,
        kind=spec.kind,
        mode="eval",
        model={"name": spec.model.name, "settings": dict(spec.model.settings)},
        trials=tuple(range(count)),
    )
    trials = tuple(
        TextTrial(
            example=row // spec.draws + 1,
            sentence=chosen[row // spec.draws],
            draw=row % spec.draws,
            text=corpus.sentences.texts[chosen[row // spec.draws]],
            ids=tuple(batch.ids[row // spec.draws, : int(batch.lengths[row // spec.draws])].tolist()),
            label=int(labels[row // spec.draws]),
            rates=tuple(rates[row].tolist()),
        )
        for row in range(count)
    )
    return observation, _knowledge(spec, corpus, trials), trials


def choose_sentences(choice: SentenceChoice, corpus: Corpus) -> tuple[int, ...]:
    """Return the places of the chosen sentences in the corpus: the printed ones, then those of a random order.

    Drawn are sentences of known words that are not too long and hold at least one token.

    Raises:
        UserError: the corpus does not hold the printed sentences, or too few others.
    """
    texts = corpus.sentences.texts
    chosen: list[int] = []
    if choice.printed:
        absent = [text for text in PRINTED.texts if text not in texts]
        if absent:
            raise UserError(f"text data set '{corpus.name}' lacks '{absent[0]}': set sentences.printed: false")
        chosen = [texts.index(text) for text in PRINTED.texts]
    for place in stream(choice.seed, "private sentences").permutation(len(texts)).tolist():
        if len(chosen) == choice.count:
            break
        ids = corpus.vocabulary.encode(texts[place])
        # a sentence that differs from a chosen one in nothing but its place would count twice
        if 2 < len(ids) <= choice.longest and UNKNOWN not in ids and texts[place] not in [texts[c] for c in chosen]:
            chosen.append(place)
    if len(chosen) < choice.count or not chosen:
        raise UserError(
            f"text data set '{corpus.name}' has {len(chosen)} sentences of at most {choice.longest} tokens, not "
            f"{max(choice.count, 1)}: ask for fewer others or raise sentences.longest"
        )
    return tuple(chosen)


def _sent(
    spec: TextCaptureSpec,
    corpus: Corpus,
    architecture: TextArchitecture,
    chosen: tuple[int, ...],
    ids: Tensor,
    labels: Tensor,
) -> tuple[dict[str, Tensor], dict[str, Tensor], Tensor]:
    """Return the updates [T, ...] and the weights by name, and the rates [T, E]."""
    network = architecture.initialised(
        len(corpus.vocabulary), corpus.num_classes, spec.seed, getattr(torch, spec.dtype)
    )
    weights = {name: parameter.detach() for name, parameter in network.named_parameters()}
    defense: Defense = plugins.load("defenses", spec.defense.name, spec.defense.settings)
    if overrides(defense, "hidden"):
        raise UserError(f"defense '{spec.defense.name}' keeps weights back: capture a defense that shares all")
    divisor = -(spec.rate * spec.local_steps) if spec.kind == "gradient" else 1.0
    rows = [row for row in range(len(chosen)) for _ in range(spec.draws)]
    # filled in place: joined parts would need the memory twice
    updates = {name: value.new_empty((len(rows), *value.shape)) for name, value in weights.items()}
    rates = []
    for first in range(0, len(rows), TOGETHER):
        own = rows[first : first + TOGETHER]
        contexts = [
            ClientContext(
                scaled_rate=spec.client_weight * spec.rate,
                seed=spec.seed,
                client=chosen[row],
                draw=(first + place) % spec.draws,
            )
            for place, row in enumerate(own)
        ]
        batch = Batch(ids[own][:, None], labels[own][:, None], {})
        stacked = {name: value.expand(len(own), *value.shape) for name, value in weights.items()}
        result = local_training(TextNetwork(network), stacked, [batch] * spec.local_steps, contexts, defense)
        for name, value in result.weights.items():
            updates[name][first : first + len(own)] = (value - weights[name]) / divisor
        rates.append(result.rates)
    return updates, weights, torch.cat(rates)


def _refuse_long(batch: TokenBatch, positions: int, model: str) -> None:
    longest = int(batch.lengths.max())
    if longest > positions:
        raise UserError(
            f"a sentence has {longest} tokens with start and end, model '{model}' has {positions} positions: set "
            f"positions: {longest} in the model or lower sentences.longest"
        )


def _knowledge(spec: TextCaptureSpec, corpus: Corpus, trials: tuple[TextTrial, ...]) -> Knowledge:
    # how the model numbers words is part of the model: the server made the table
    vocabulary = {"size": len(corpus.vocabulary), "padding": PADDING, "start": START, "end": END}
    facts: dict[str, Any] = {
        "architecture": {"name": spec.model.name, "settings": dict(spec.model.settings), "vocabulary": vocabulary},
        "weights": "in the observation",
        "nominal_rate": spec.rate,
        "local_steps": spec.local_steps,
        "batch_size": 1,
        "num_classes": corpus.num_classes,
        "defense": {"name": spec.defense.name, "settings": dict(spec.defense.settings)},
        "labels": [[trial.label] for trial in trials],
    }
    allowed = granted(spec.threat_model)
    return Knowledge(spec.threat_model, {fact: value for fact, value in facts.items() if fact in allowed})
