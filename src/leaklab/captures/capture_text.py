"""Capture of clients with one private sentence each: what they send in one round, and the secret behind it."""

from collections.abc import Mapping
from functools import partial
from typing import Any

import torch
from torch import Tensor

from leaklab.captures.client_round import Steps, client_round
from leaklab.captures.observe import NO_DEFENSE, Held, changes_update, observe
from leaklab.captures.truth import TextTrial
from leaklab.data.text.corpus import END, PADDING, PRINTED, START, UNKNOWN, Corpus, TokenBatch, encode_batch
from leaklab.defenses.base import ClientContext, Defense, overrides
from leaklab.federated.batches import Batch
from leaklab.federated.forms.one_by_one import TextNetwork
from leaklab.models.text.base import TextArchitecture
from leaklab.observations.base import Knowledge, Observation
from leaklab.records import plugins
from leaklab.records.errors import UserError
from leaklab.records.streams import stream
from leaklab.specs.text import SentenceChoice, TextCaptureSpec

TOGETHER = 8
"""Clients that train together; every one needs several copies of the weights. It decides memory, not results."""


def capture_text(spec: TextCaptureSpec, corpus: Corpus) -> tuple[Observation, Knowledge, tuple[TextTrial, ...]]:
    """Return what the server sees of every trial, what it is granted to know, and the truth.

    Trials are the chosen sentences times ``draws``, the draws of a sentence side by side.

    Raises:
        UserError: sentences that are not there or too long for the model, a defense that keeps weights back, or a
            gradient where the threat model withholds the rate.
    """
    return observe(spec, hold_sentences(spec, corpus))


def defense_changes(spec: TextCaptureSpec, update: Mapping[str, Tensor], corpus: Corpus) -> bool | None:
    """Tell whether the defense of a capture changed an update by more than roundings; None if it is not meant to."""
    if plugins.load("defenses", spec.defense.name, spec.defense.settings).neutral():
        return None
    plain = spec.model_copy(update={"defense": NO_DEFENSE})
    return changes_update(update, capture_text(plain, corpus)[0].update)


def hold_sentences(spec: TextCaptureSpec, corpus: Corpus) -> Held[tuple[TextTrial, ...]]:
    """Return what the clients of a capture hold; see ``capture_text``."""
    architecture: TextArchitecture = plugins.load("models/text", spec.model.name, spec.model.settings)
    chosen = choose_sentences(spec.sentences, corpus)
    tokens = encode_batch(corpus.vocabulary, [corpus.sentences.texts[place] for place in chosen])
    _refuse_long(tokens, architecture.positions, spec.model.name)
    labels = torch.tensor([corpus.sentences.labels[place] for place in chosen])
    network = architecture.initialised(
        len(corpus.vocabulary), corpus.num_classes, spec.seed, getattr(torch, spec.dtype)
    )
    weights = {name: parameter.detach() for name, parameter in network.named_parameters()}
    defense: Defense = plugins.load("defenses", spec.defense.name, spec.defense.settings)
    if overrides(defense, "hidden"):
        raise UserError(f"defense '{spec.defense.name}' keeps weights back: capture a defense that shares all")
    rate, steps = spec.client_weight * spec.rate, Steps(spec.local_steps, spec.rate, spec.step_factors)
    return Held(
        state=weights,
        parameters=list(weights),
        mode="eval",
        batches=[Batch(tokens.ids[:, None], labels[:, None], {})] * spec.local_steps,
        contexts=[
            ClientContext(scaled_rate=rate, seed=spec.seed, client=place, draw=draw)
            for place in chosen
            for draw in range(spec.draws)
        ],
        steps=steps,
        round=partial(client_round, steps, TextNetwork(network), weights, defense, None),
        facts=_facts(spec, corpus),
        secret=partial(_truth, spec, corpus, chosen, tokens),
        together=TOGETHER,
    )


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


def _truth(
    spec: TextCaptureSpec, corpus: Corpus, chosen: tuple[int, ...], tokens: TokenBatch, rates: Tensor
) -> tuple[TextTrial, ...]:
    return tuple(
        TextTrial(
            example=group + 1,
            sentence=place,
            draw=draw,
            text=corpus.sentences.texts[place],
            ids=tuple(tokens.ids[group, : int(tokens.lengths[group])].tolist()),
            label=corpus.sentences.labels[place],
            rates=tuple(rates[group * spec.draws + draw].tolist()),
        )
        for group, place in enumerate(chosen)
        for draw in range(spec.draws)
    )


def _refuse_long(batch: TokenBatch, positions: int, model: str) -> None:
    longest = int(batch.lengths.max())
    if longest > positions:
        raise UserError(
            f"a sentence has {longest} tokens with start and end, model '{model}' has {positions} positions: set "
            f"positions: {longest} in the model or lower sentences.longest"
        )


def _facts(spec: TextCaptureSpec, corpus: Corpus) -> dict[str, Any]:
    # how the model numbers words is part of the model: the server made the table
    vocabulary = {"size": len(corpus.vocabulary), "padding": PADDING, "start": START, "end": END}
    architecture = {"name": spec.model.name, "settings": dict(spec.model.settings), "vocabulary": vocabulary}
    return {"architecture": architecture, "batch_size": 1, "num_classes": corpus.num_classes}
