"""The bag of tokens and their order from the tables' gradients, exact on random sentences and under any factor."""

import pytest
import torch

from leaklab.attacks.adaptive.scale import ClosedFormScale
from leaklab.attacks.text.read_out import token_bag, token_order
from leaklab.models.text.base import POSITION_TABLE, WORD_TABLE, BertClassifier
from leaklab.observations.base import Knowledge, Observation
from leaklab.records.errors import UserError

FACTORS = (1.0, 1e-3, 0.5, 2.0, 4.0)
SENTENCES = 20


@pytest.fixture(scope="module")
def observed(sentence, observe):
    """Twenty sentences of 3 to 12 tokens from few words, so that words repeat."""
    sentences = [sentence(number, 3 + number % 10, words=10) for number in range(SENTENCES)]
    return sentences, lambda **more: observe(sentences, [number % 2 for number in range(SENTENCES)], **more)


@pytest.mark.parametrize("factor", FACTORS)
def test_the_bag_is_exact(observed, factor):
    sentences, make = observed
    gradients = make(factors=[factor] * SENTENCES)[WORD_TABLE]
    for ids, gradient in zip(sentences, gradients, strict=True):
        assert token_bag(gradient) == tuple(sorted(set(ids.tolist())))


@pytest.mark.parametrize("factor", FACTORS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_the_order_is_exact(observed, factor, dtype):
    sentences, make = observed
    victim = BertClassifier(layers=2, width=16, positions=12, spread=0.1).initialised(40, 2, 3, dtype)
    gradients = make(factors=[factor] * SENTENCES, victim=victim)
    for row, ids in enumerate(sentences):
        found = token_order(gradients[WORD_TABLE][row], gradients[POSITION_TABLE][row])
        assert found.tolist() == ids.tolist()


def test_a_bag_of_several_sentences_is_their_union(observed):
    sentences, make = observed
    together = make()[WORD_TABLE][:4].sum(0)
    assert token_bag(together) == tuple(sorted({token for ids in sentences[:4] for token in ids.tolist()}))


def test_what_is_not_one_sentence_is_refused_not_guessed(observed):
    _, make = observed
    gradients = make()
    for rows in ([5, 6], [7, 8]):
        word, position = (gradients[name][rows].sum(0) for name in (WORD_TABLE, POSITION_TABLE))
        with pytest.raises(UserError, match="batch_size 1 and one local step"):
            token_order(word, position)


def test_bad_gradients_are_refused(observed):
    word, position = (observed[1]()[name][0] for name in (WORD_TABLE, POSITION_TABLE))
    for wrong in (word * torch.nan, word[0]):
        with pytest.raises(UserError, match="capture the update again"):
            token_bag(wrong)
    with pytest.raises(UserError, match="no token to read"):
        token_order(word * 0, position)
    with pytest.raises(UserError, match="no token to read"):
        token_order(word, position * 0)


def test_the_closed_form_of_the_scale_holds_for_text_too(network, observed):
    """The transform that the image attacks have finds the factor of a text gradient as it is."""
    factors = torch.linspace(0.1, 4, SENTENCES, dtype=torch.float64)
    observation = Observation(
        weights={name: value.detach() for name, value in network.named_parameters()},
        update=observed[1](factors=factors),
        kind="gradient",
        mode="eval",
        model={"name": "bert-classifier", "settings": {}},
        trials=tuple(range(SENTENCES)),
    )
    _, found = ClosedFormScale().prepare(observation, Knowledge("honest-but-curious", {"batch_size": 1}))
    assert torch.allclose(found, factors, rtol=1e-10)
