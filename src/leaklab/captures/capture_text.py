"""Capture of clients with private sentences: what they send in one round, and the secret behind it."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from leaklab.captures.client_round import Steps, client_round, filled
from leaklab.captures.observe import NO_DEFENSE, Held, changes_update, observe
from leaklab.captures.truth import PrivateSentence, TextTrial
from leaklab.data.text.corpus import END, PADDING, PRINTED, START, UNKNOWN, Corpus, TokenBatch, encode_batch
from leaklab.defenses.base import ClientContext, Defense, overrides
from leaklab.federated.batches import Batch
from leaklab.federated.forms.one_by_one import TextNetwork
from leaklab.federated.local import LocalResult
from leaklab.models.text.base import TextArchitecture
from leaklab.models.text.low_rank import freeze, frozen_of
from leaklab.observations.base import Knowledge, Observation
from leaklab.records import plugins
from leaklab.records.errors import UserError
from leaklab.records.record import Component
from leaklab.records.streams import stream
from leaklab.specs.text import SentenceChoice, TextCaptureSpec

TOGETHER = 8
"""Clients that train together; every one needs several copies of the weights. It decides memory, not results."""
PLAIN = Component(name="sgd")


def capture_text(spec: TextCaptureSpec, corpus: Corpus) -> tuple[Observation, Knowledge, tuple[TextTrial, ...]]:
    """Return what the server sees of every trial, what it is granted to know, and the truth.

    Trials are the chosen sentences, ``batch_size`` of them an update, times ``draws``, the draws of an update side by
    side.

    Raises:
        UserError: sentences that are not there or too long for the model, a defense that keeps weights back or draws
            its batches, or a gradient where the threat model withholds the rate.
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
    network = _network(spec, architecture, corpus)
    weights = {name: parameter.detach() for name, parameter in network.named_parameters()}
    frozen = frozen_of(network)
    defense = _defense(spec)
    rate, optimizer = spec.client_weight * spec.rate, plugins.load("federated/optimizers", *_named(spec.optimizer))
    steps = Steps(spec.local_steps, spec.rate, spec.step_factors, optimizer)
    form = TextNetwork(network, next_token=getattr(architecture, "loss", "classes") == "next-token")
    one_round = partial(client_round, steps, form, weights, defense, None)
    ids = tokens.ids.to(getattr(torch, spec.dtype))  # exact, and what clips by norms takes its type from them
    batch = Batch(ids.view(-1, spec.together, ids.shape[1]), labels.view(-1, spec.together), {})
    return Held(
        state=weights | frozen,
        parameters=list(weights),
        mode="eval",
        batches=[batch] * spec.local_steps,
        contexts=[
            ClientContext(scaled_rate=rate, seed=spec.seed, client=place, draw=draw)
            for place in chosen[:: spec.together]
            for draw in range(spec.draws)
        ],
        steps=steps,
        round=one_round if spec.clients == 1 else partial(_mean_round, one_round, _members(spec, chosen)),
        facts=_facts(spec, corpus),
        secret=partial(_truth, spec, corpus, chosen, tokens),
        statistics=frozenset(frozen),
        together=TOGETHER,
    )


def _named(one: Component) -> tuple[str, Mapping[str, Any]]:
    return one.name, one.settings


def _network(spec: TextCaptureSpec, architecture: TextArchitecture, corpus: Corpus) -> nn.Module:
    network = architecture.initialised(
        len(corpus.vocabulary), corpus.num_classes, spec.seed, getattr(torch, spec.dtype)
    )
    if spec.frozen == "embeddings":
        freeze(network, lambda layer: isinstance(layer, nn.Embedding))
    return network


def _defense(spec: TextCaptureSpec) -> Defense:
    defense: Defense = plugins.load("defenses", *_named(spec.defense))
    if overrides(defense, "hidden"):
        raise UserError(f"defense '{spec.defense.name}' keeps weights back: capture a defense that shares all")
    if defense.poisson_batches():
        raise UserError(
            f"defense '{spec.defense.name}': batches of a capture have one size: set sampling: shuffled, which clips "
            "and adds noise alike"
        )
    return defense


# Several clients behind one update, as behind a sum that hides each of them: the server sees their mean.

Round = Callable[[Sequence[Batch], Sequence[ClientContext]], LocalResult]


def _members(spec: TextCaptureSpec, chosen: Sequence[int]) -> dict[int, tuple[int, ...]]:
    """Return the clients behind each update: all by their own first sentences, under that of the first."""
    firsts = chosen[:: spec.batch_size]
    return {firsts[at]: tuple(firsts[at : at + spec.clients]) for at in range(0, len(firsts), spec.clients)}


def _mean_round(
    one_round: Round,
    members: Mapping[int, tuple[int, ...]],
    batches: Sequence[Batch],
    contexts: Sequence[ClientContext],
) -> LocalResult:
    """Let every member of each update do its round, and return the mean of all; equal clients weigh the same."""
    clients = len(next(iter(members.values())))
    done = []
    for number in range(clients):
        own = [
            Batch(batch.images.chunk(clients, 1)[number], batch.labels.chunk(clients, 1)[number], {})
            for batch in batches
        ]
        who = [replace(context, client=members[context.client][number], _streams={}) for context in contexts]
        done.append(one_round(own, who))
    longest = max(result.rates.shape[1] for result in done)
    return LocalResult(
        {name: torch.stack([result.weights[name] for result in done]).mean(0) for name in done[0].weights},
        torch.stack([filled(result.rates, longest) for result in done]).mean(0),
        torch.stack([filled(result.losses, longest) for result in done]).mean(0),
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
    held = [
        PrivateSentence(
            sentence=place,
            text=corpus.sentences.texts[place],
            ids=tuple(tokens.ids[row, : int(tokens.lengths[row])].tolist()),
            label=corpus.sentences.labels[place],
        )
        for row, place in enumerate(chosen)
    ]
    return tuple(
        TextTrial.of(
            held[group * spec.together : (group + 1) * spec.together],
            example=group + 1,
            draw=draw,
            rates=tuple(rates[group * spec.draws + draw].tolist()),
        )
        for group in range(len(chosen) // spec.together)
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
    # a mean of equal clients is one update of all their samples, each client's with a factor of its own
    facts = {"architecture": architecture, "batch_size": spec.together, "num_classes": corpus.num_classes}
    if spec.optimizer != PLAIN:  # plain gradient descent is what everyone assumes
        facts["optimizer"] = {"name": spec.optimizer.name, "settings": dict(spec.optimizer.settings)}
    return facts
