"""The plug-in: observations of sentences in, sentences in order out, and a ranking where nothing is exact."""

import pytest
import torch

from leaklab.attacks.base import Budget
from leaklab.attacks.text.base import TextCase, packed, unpacked, written
from leaklab.attacks.text.observed import victim
from leaklab.attacks.text.span_reading import ended, length_of
from leaklab.models.text.decoders import gradients_of
from leaklab.models.text.low_rank import freeze, frozen_of
from leaklab.observations.base import Knowledge, Observation
from leaklab.observations.threat_models import granted
from leaklab.records import plugins
from leaklab.records.errors import UserError
from leaklab.records.streams import stream

VOCABULARY, START, END = 120, 2, 3
MODELS = {
    "gpt2-classifier": {"layers": 2, "width": 32, "heads": 4, "positions": 12},
    "llama-classifier": {"layers": 2, "width": 32, "heads": 4, "positions": 12},
    "bert-classifier": {"layers": 2, "width": 32, "heads": 4, "positions": 12, "spread": 0.1},
}


def sentences():
    words = [stream(n, "words").permutation(VOCABULARY - 4)[:length] + 4 for n, length in enumerate((6, 4, 8))]
    return [torch.cat([torch.tensor([START]), middle, torch.tensor([END])]) for middle in words]


def captured(model, factors=(1.0, 1.0, 1.0), noise=0.0, dtype=torch.float32):
    network = plugins.load("models/text", model, MODELS[model]).initialised(VOCABULARY, 2, 5, dtype)
    rows = [gradients_of(network, ids[None], torch.tensor([1])) for ids in sentences()]
    draws = stream(9, "noise")
    update = {name: torch.stack([f * row[name] for f, row in zip(factors, rows, strict=True)]) for name in rows[0]}
    update = {n: v + noise * v.abs().mean() * draws.normal(*v.shape).to(v) for n, v in update.items()}
    choice = {"name": model, "settings": MODELS[model]}
    weights = {name: value.detach() for name, value in network.named_parameters()}
    observation = Observation(weights, update, "gradient", "eval", choice, (0, 1, 2))
    vocabulary = {"size": VOCABULARY, "padding": 0, "start": START, "end": END}
    facts = {"architecture": choice | {"vocabulary": vocabulary}, "num_classes": 2, "batch_size": 1}
    known = Knowledge("honest-but-curious", {k: v for k, v in facts.items() if k in granted("honest-but-curious")})
    return observation, known


def run(observation, knowledge, **settings):
    attack = plugins.load("attacks/text", "span-reading", settings)
    return attack.reconstruct(TextCase(observation, knowledge, Budget(1, 1), lambda *name: stream(0, *name)))


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("factors", [(1.0, 1.0, 1.0), (1e-3, 7.0, 0.4)])
def test_sentences_are_read_in_order_whatever_the_factor(model, factors):
    found = run(*captured(model, factors))
    assert [one.tolist() for one in found.tokens] == [one.tolist() for one in sentences()]
    assert [start.stopped for start in found.starts] == ["read"] * 3
    assert not any(start.evaluations for start in found.starts)


def test_a_delta_needs_no_rate():
    observation, knowledge = captured("gpt2-classifier")
    turned = observation.scaled(-0.01)
    delta = Observation(turned.weights, turned.update, "delta", "eval", turned.model, turned.trials)
    assert [one.tolist() for one in run(delta, knowledge).tokens] == [one.tolist() for one in sentences()]


def test_noise_is_ranked_or_refused():
    observation, knowledge = captured("gpt2-classifier", noise=1e-2)
    found = run(observation, knowledge)
    assert [start.stopped for start in found.starts] == ["diverged"] * 3
    right = [
        float((a == b).double().mean()) for a, b in zip(found.tokens, sentences(), strict=True) if len(a) == len(b)
    ]
    assert sum(right) / 3 > 0.8
    with pytest.raises(UserError, match="noise hides their number"):
        run(observation, knowledge, ranks=False)


def test_the_length_is_seen_under_noise_too():
    rows = torch.cat([torch.ones(5, 3), 1e-3 * torch.ones(4, 3)])
    assert length_of("places", {"places": rows}) == 5
    with pytest.raises(UserError, match="nothing says how long"):
        length_of("", {"places": rows})


# Batches: several sentences behind one update.

NEXT = {"layers": 2, "width": 64, "heads": 4, "positions": 12, "loss": "next-token"}


def together(model, settings, frozen=False, dtype=torch.float32, noise=0.0, batch=3):
    """Return what is seen of one update of all sentences, and the names of what does not move."""
    network = plugins.load("models/text", model, settings).initialised(VOCABULARY, 2, 5, dtype)
    if frozen:
        freeze(network, lambda layer: isinstance(layer, torch.nn.Embedding))
    ids = torch.nn.utils.rnn.pad_sequence(sentences(), batch_first=True)
    labels = None if settings.get("loss") == "next-token" else torch.tensor([1, 0, 1])
    update = {name: value[None] for name, value in gradients_of(network, ids, labels).items()}
    draws = stream(9, "noise")
    update = {n: v + noise * v.abs().mean() * draws.normal(*v.shape).to(v) for n, v in update.items()}
    choice = {"name": model, "settings": settings}
    weights = {name: value.detach() for name, value in network.named_parameters()}
    observation = Observation(weights, update, "gradient", "eval", choice, (0,), buffers=frozen_of(network))
    vocabulary = {"size": VOCABULARY, "padding": 0, "start": START, "end": END}
    facts = {"architecture": choice | {"vocabulary": vocabulary}, "num_classes": 2, "batch_size": batch}
    return observation, Knowledge("honest-but-curious", facts)


def read_of(found):
    return {tuple(one) for one in written(found)["sentences"]}


WHOLE = {tuple(one.tolist()) for one in sentences()}


@pytest.mark.parametrize(
    ("model", "settings", "frozen"),
    [
        ("gpt2", NEXT, False),
        ("gpt2", NEXT, True),
        ("gpt2", NEXT | {"tied": False}, True),
        ("llama", NEXT, False),
        ("gpt2-classifier", MODELS["gpt2-classifier"], True),
        ("gpt2", NEXT | {"rank": 16, "lora": "trained"}, False),
        ("gpt2", NEXT | {"rank": 32}, False),
    ],
    ids=["next token", "frozen", "frozen, untied", "rotary", "classes, frozen", "LoRA", "LoRA, first step"],
)
def test_a_batch_is_read_sentence_by_sentence_with_its_certificate(model, settings, frozen):
    found = run(*together(model, settings, frozen))
    assert read_of(found) == WHOLE
    assert found.certified[0].tolist() == [True] * 3
    assert found.starts[0].stopped == "read"
    kept = unpacked(packed(found))
    assert written(kept) == written(found)
    assert torch.equal(kept.certified[0], found.certified[0])


def test_the_frozen_network_is_the_clients():
    for settings in (NEXT, NEXT | {"rank": 4, "lora": "trained"}):
        observation, knowledge = together("gpt2", settings, frozen="rank" not in settings, dtype=torch.float64)
        own = victim(observation, knowledge)
        theirs = plugins.load("models/text", "gpt2", settings).initialised(VOCABULARY, 2, 5, torch.float64)
        for name, value in theirs.state_dict().items():
            assert torch.equal(own.state_dict()[name], value), name


def test_a_frozen_table_that_was_not_sent_along_is_refused():
    observation, knowledge = together("gpt2", NEXT, frozen=True)
    without = Observation(observation.weights, observation.update, "gradient", "eval", observation.model, (0,))
    with pytest.raises(UserError, match="not those of model 'gpt2': capture again"):
        victim(without, knowledge)


def test_a_thin_matrix_without_its_twin_is_refused_and_not_answered_by_nothing():
    observation, knowledge = together("gpt2", NEXT | {"rank": 8, "lora": "trained"})
    (lost, *_) = [name for name in observation.update if ".0." in name and ".B_" in name]
    update = {name: value for name, value in observation.update.items() if name != lost}
    torn = Observation(observation.weights, update, "gradient", "eval", observation.model, (0,), observation.buffers)
    with pytest.raises(UserError, match="came without its twin"):
        run(torn, knowledge)


def test_what_is_told_by_nobody_is_answered_by_nothing():
    found = run(*together("gpt2", NEXT | {"rank": 4}))
    assert written(found) == {"tokens": [], "label": -1, "sentences": [], "certified": []}
    assert found.starts[0].stopped == "diverged"
    with pytest.raises(UserError, match="they cannot be told from other tokens"):
        run(*together("gpt2", NEXT | {"rank": 4}), ranks=False)


def test_noise_leaves_the_sentences_of_a_batch_without_certificates_and_then_words_alone():
    found = run(*together("gpt2", NEXT, noise=0.1))
    assert {tuple(one.tolist()) for one in found.tokens[0].split(found.lengths[0].tolist())} == WHOLE
    assert not bool(found.certified[0].any())
    found = run(*together("gpt2", NEXT, noise=0.7))
    assert found.lengths[0].tolist() == found.certified[0].tolist() == []
    true = {token for one in WHOLE for token in one}
    assert len(set(found.tokens[0].tolist()) & true) > 0.4 * len(true)


def test_the_token_that_ends_all_sentences_is_known_where_it_is_hidden():
    hides, shows = (
        plugins.load("models/text", "gpt2", NEXT | {"loss": loss}).build(9, 2) for loss in ("next-token", "classes")
    )
    assert ended(hides, [(2, 5), (2, 5, 3)], 3) == [(2, 5, 3), (2, 5, 3)]
    assert ended(shows, [(2, 5)], 3) == [(2, 5)]
