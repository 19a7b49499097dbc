"""The plug-in: observations of sentences in, sentences in order out, and a ranking where nothing is exact."""

import pytest
import torch

from leaklab.attacks.base import Budget
from leaklab.attacks.text.base import TextCase
from leaklab.attacks.text.span_reading import length_of
from leaklab.models.text.decoders import gradients_of
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
