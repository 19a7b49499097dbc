"""Linear heads under secure aggregation and without biases: every client's part of the sum is read exactly."""

import pytest
import torch
from torch.testing import assert_close

from leaklab.attacks.private_parts import heads as private_heads
from leaklab.attacks.private_parts.hypernetwork import Heads
from leaklab.records.errors import UserError
from leaklab.records.streams import stream

OUTPUTS, HIDDEN, EMBEDDING = 300, 128, 64


def sent(seed=0):
    draws = stream(seed, "test", "heads")
    return Heads(
        {"conv1.weight": (OUTPUTS,)},
        draws.normal(OUTPUTS, HIDDEN) / HIDDEN**0.5,
        draws.normal(OUTPUTS),
        draws.normal(HIDDEN, EMBEDDING) / EMBEDDING**0.5,
        torch.zeros(HIDDEN, dtype=torch.float64),
    )


def clients(count, seed=0):
    """Return for each client its embedding, the gradient of its extractor and its share of the mean."""
    draws = stream(seed, "test", "clients")
    shares = draws.uniform(count) + 0.5
    return [(draws.normal(EMBEDDING), draws.normal(OUTPUTS), share) for share in shares / shares.sum()]


def summed(heads, own):
    parts = [(heads.gradient(embedding, slope), share) for embedding, slope, share in own]
    return Heads(heads.shapes, *(sum(getattr(part, name) * share for part, share in parts) for name in "acwb"))


@pytest.mark.parametrize("count", [1, 2, 4, 8, 10])
@pytest.mark.parametrize("biases", ["heads", "hidden layer"])
def test_every_client_of_a_sum_is_read_exactly(count, biases):
    heads, own = sent(), clients(count)
    message = summed(heads, own)
    terms = private_heads.terms_of(message.a, stream(1, "test"))
    factors = (
        private_heads.factors_from_heads(terms, message.c)
        if biases == "heads"
        else private_heads.factors_from_hidden_layer(terms, heads, message.b)
    )
    found = private_heads.read(terms, heads, factors)
    assert len(found) == count
    for embedding, slope, share in own:
        weights = heads.generated(heads.hidden(embedding))
        best = min(found, key=lambda one: float((one.weights - weights).norm()))
        assert_close(best.weights, weights, rtol=1e-6, atol=1e-6)
        assert_close(best.slope, slope * share, rtol=1e-6, atol=1e-6)


def test_a_noisy_message_of_one_client_is_read_as_well_as_noise_on_the_extractor_allows():
    heads = sent()
    ((embedding, slope, _),) = clients(1)
    clean = heads.gradient(embedding, slope)
    noise = 0.1 * heads.hidden(embedding).norm()
    noisy = clean.a + noise * stream(2, "test").normal(*clean.a.shape)
    found = private_heads.leading_term(noisy)
    direction = found.slopes[:, 0] / found.slopes[:, 0].norm()
    error = (1 - (direction @ slope / slope.norm()) ** 2).sqrt()
    # the noise on one coordinate of the extractor's gradient is 0.1 as well
    assert float(error) == pytest.approx(float(0.1 * OUTPUTS**0.5 / slope.norm()), rel=0.2)


def test_what_cannot_be_told_apart_is_refused():
    heads = sent()
    with pytest.raises(UserError, match="is zero"):
        private_heads.terms_of(torch.zeros_like(heads.a), stream(1, "test"))
    dense = Heads(heads.shapes, heads.a, heads.c, heads.w, heads.b + 10)
    with pytest.raises(UserError, match="0 of the 3 clients"):
        private_heads.terms_of(summed(dense, clients(3)).a, stream(1, "test"))
