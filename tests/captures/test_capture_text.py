"""Capture of sentences: the update is the gradient times the factor that was drawn, and the server learns no secret."""

import json

import pytest
import torch
from torch.nn import functional as F

from leaklab.captures import capture_text as module
from leaklab.captures.capture_text import capture_text, choose_sentences
from leaklab.captures.truth import load_text_truth, save_text_truth
from leaklab.data.text.corpus import PRINTED, Corpus, Sentences, Vocabulary, split
from leaklab.models.text.base import BertClassifier
from leaklab.observations.files import load_observation, save_observation
from leaklab.records.errors import UserError
from leaklab.specs.text import SentenceChoice, TextCaptureSpec

MODEL = {"name": "bert-classifier", "layers": 1, "width": 16, "heads": 2, "positions": 16}
SPEC = {
    "dataset": "words",
    "sentences": {"others": 2},
    "model": MODEL,
    "dtype": "float64",
    "seed": 5,
}
OTHERS = (
    "The verbs study us.",
    "And I'm up!",
    "More, more and more.",
    "One pseudo verb.",
    "They get the crazier they.",
)


@pytest.fixture(scope="module")
def corpus():
    sentences = Sentences((*OTHERS, *PRINTED.texts), (0, 1, 0, 1, 0, *PRINTED.labels))
    return Corpus("words", 2, sentences, Vocabulary.build(sentences.texts), None)


@pytest.fixture(scope="module")
def capture(corpus):
    return lambda **changes: capture_text(TextCaptureSpec.model_validate({**SPEC, **changes}), corpus)


def gradient(corpus, trial):
    """Return the gradient of one sentence by plain autograd."""
    settings = {key: value for key, value in MODEL.items() if key != "name"}
    network = BertClassifier(**settings).initialised(len(corpus.vocabulary), 2, SPEC["seed"], torch.float64)
    loss = F.cross_entropy(network(input_ids=torch.tensor([trial.ids])).logits, torch.tensor([trial.label]))
    names = [name for name, _ in network.named_parameters()]
    return dict(zip(names, torch.autograd.grad(loss, list(network.parameters())), strict=True))


def test_without_defense_the_server_sees_the_gradient(corpus, capture):
    observation, _, trials = capture()
    assert [trial.example for trial in trials] == [1, 2, 3, 4]
    for row, trial in enumerate(trials):
        for name, expected in gradient(corpus, trial).items():
            assert torch.allclose(observation.update[name][row], expected, rtol=1e-6, atol=1e-12), name


def test_under_lrp_it_sees_the_gradient_times_the_drawn_factor(corpus, capture):
    observation, _, trials = capture(defense="lrp", draws=3, client_weight=2.0)
    factors = [trial.rates[0] / 0.01 for trial in trials]
    assert len(set(factors)) == 12
    assert all(0 < factor < 4 for factor in factors)
    for row in (0, 4, 11):
        for name, expected in gradient(corpus, trials[row]).items():
            seen = observation.update[name][row]
            assert torch.allclose(seen, factors[row] * expected, rtol=1e-5, atol=1e-11), name


def test_the_factor_is_u_0_4_for_twice_the_weight(capture):
    _, _, trials = capture(defense="lrp", draws=100, client_weight=2.0, sentences={"others": 0})
    factors = torch.tensor([trial.rates[0] / 0.01 for trial in trials])
    assert factors.mean() == pytest.approx(2, abs=0.25)
    assert factors.max() > 3.8
    assert factors.min() < 0.2


def test_a_delta_is_minus_the_rate_times_the_gradient(capture):
    seen, delta = capture()[0], capture(kind="delta", threat_model="blind-rate")[0]
    assert delta.kind == "delta"
    for name, value in seen.update.items():
        assert torch.allclose(delta.update[name], -0.01 * value, rtol=1e-9)


def test_a_trial_knows_nothing_of_the_others(capture, monkeypatch):
    together = capture(defense="lrp", draws=3)
    monkeypatch.setattr(module, "TOGETHER", 1)
    one_by_one = capture(defense="lrp", draws=3)
    fewer = capture(defense="lrp", draws=1, sentences={"others": 1})
    assert together[2] == one_by_one[2]
    for name, value in together[0].update.items():
        assert torch.equal(value, one_by_one[0].update[name]), name
        assert torch.equal(value[[0, 3, 6]], fewer[0].update[name]), name


def test_the_files_of_the_attacker_hold_neither_sentence_nor_rate(capture, tmp_path):
    observation, knowledge, trials = capture(defense="lrp", client_weight=2.0)
    tensors, facts = tmp_path / "observation.safetensors", tmp_path / "facts.json"
    save_observation(tensors, facts, observation, knowledge)
    text = facts.read_text(encoding="utf-8").lower()
    for trial in trials:
        assert trial.text.lower() not in text
        assert all(str(rate) not in text for rate in trial.rates)
    assert "labels" not in json.loads(text)["facts"]
    again, _ = load_observation(tensors, facts)
    assert all(torch.equal(value, again.update[name]) for name, value in observation.update.items())


def test_labels_are_known_where_they_are_granted(capture):
    _, knowledge, trials = capture(threat_model="honest-but-curious-with-labels")
    assert knowledge.require("labels") == [[trial.label] for trial in trials]
    assert not capture()[1].knows("labels")


def test_the_truth_survives_its_file(capture, tmp_path):
    trials = capture(defense="lrp", draws=2)[2]
    save_text_truth(tmp_path / "truth.json", trials)
    assert load_text_truth(tmp_path / "truth.json") == trials
    (tmp_path / "truth.json").write_text('{"trials": [{"example": 1}]}', encoding="utf-8")
    with pytest.raises(UserError, match=r"truth\.json is damaged"):
        load_text_truth(tmp_path / "truth.json")


def test_the_printed_sentences_come_first_and_others_by_the_seed(corpus):
    texts = corpus.sentences.texts
    for seed in range(4):
        chosen = choose_sentences(SentenceChoice(others=3, seed=seed), corpus)
        assert tuple(texts[place] for place in chosen[:2]) == PRINTED.texts
        assert len(set(chosen)) == 5
        assert choose_sentences(SentenceChoice(others=1, seed=seed), corpus) == chosen[:3]
    orders = {choose_sentences(SentenceChoice(printed=False, others=3, seed=seed), corpus) for seed in range(4)}
    assert len(orders) > 1


def test_long_sentences_and_unknown_words_are_passed_over(corpus):
    short = choose_sentences(SentenceChoice(printed=False, others=2, longest=7), corpus)
    assert all(len(split(corpus.sentences.texts[place])) <= 5 for place in short)
    known = Vocabulary.build(OTHERS[:1])
    (only,) = choose_sentences(SentenceChoice(printed=False, others=1), Corpus("few", 2, corpus.sentences, known, None))
    assert only == 0


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"sentences": {"others": 6}}, "has 7 sentences of at most 24 tokens, not 8: ask for fewer"),
        ({"model": {**MODEL, "positions": 8}}, "set positions: 13 in the model or lower sentences.longest"),
        ({"threat_model": "blind-rate"}, "choose kind: delta"),
        ({"threat_model": "all-knowing"}, "unknown threat model 'all-knowing'"),
    ],
    ids=["too few", "too long", "gradient without rate", "threat model"],
)
def test_what_cannot_be_captured_is_refused(capture, changes, message):
    with pytest.raises(UserError, match=message) as caught:
        capture(**changes)
    assert "\n" not in str(caught.value)


def test_a_data_set_without_the_printed_sentences_says_so(corpus):
    other = Corpus("other", 2, Sentences(OTHERS, (0, 1, 0, 1, 0)), corpus.vocabulary, None)
    with pytest.raises(UserError, match=r"lacks 'One more pseudo generalization.*set sentences.printed: false"):
        choose_sentences(SentenceChoice(), other)
