"""Captures of batches of sentences: the update is the batch's own gradient, whatever is trained and whoever sums."""

import pytest
import torch
from torch.nn import functional as F

from leaklab.captures.capture_text import capture_text
from leaklab.captures.truth import load_text_truth, save_text_truth
from leaklab.data.text.corpus import PRINTED, Corpus, Sentences, Vocabulary
from leaklab.models.text.decoders import gradients_of
from leaklab.observations.files import load_observation, save_observation
from leaklab.records import plugins
from leaklab.records.config import parse
from leaklab.records.errors import UserError
from leaklab.specs.text import TextCaptureSpec

GPT2 = {"name": "gpt2", "layers": 2, "width": 16, "heads": 2, "positions": 16}
NEXT = GPT2 | {"loss": "next-token"}
BERT = {"name": "bert-classifier", "layers": 1, "width": 16, "heads": 2, "positions": 16}
LORA = NEXT | {"rank": 3, "lora": "trained"}
OTHERS = ("The verbs study us.", "And I'm up!", "More, more and more.", "One pseudo verb.")


@pytest.fixture(scope="module")
def corpus():
    sentences = Sentences((*OTHERS, *PRINTED.texts), (0, 1, 0, 1, *PRINTED.labels))
    return Corpus("words", 2, sentences, Vocabulary.build(sentences.texts), None)


@pytest.fixture(scope="module")
def capture(corpus):
    def taken(**changes):
        fields = {"dataset": "words", "sentences": {"others": 2}, "model": NEXT, "dtype": "float64", "batch_size": 2}
        return capture_text(parse(TextCaptureSpec, {**fields, **changes}, "spec"), corpus)

    return taken


def network_of(corpus, model):
    settings = {key: value for key, value in model.items() if key != "name"}
    return plugins.load("models/text", model["name"], settings).initialised(len(corpus.vocabulary), 2, 0, torch.float64)


def gradient(corpus, model, batch):
    """Return the gradient of a batch of private sentences by plain autograd."""
    ids = torch.nn.utils.rnn.pad_sequence([torch.tensor(one.ids) for one in batch], batch_first=True)
    labels = None if model.get("loss") == "next-token" else torch.tensor([one.label for one in batch])
    return gradients_of(network_of(corpus, model), ids, labels)


def same(found, expected, rtol=1e-6, atol=1e-12):
    assert set(found) == set(expected)
    for name, value in expected.items():
        assert torch.allclose(found[name], value, rtol=rtol, atol=atol), name


@pytest.mark.parametrize("model", [NEXT, GPT2, BERT, LORA], ids=["next token", "classes", "encoder", "LoRA"])
def test_the_update_is_the_gradient_of_the_whole_batch(corpus, capture, model):
    observation, knowledge, trials = capture(model=model)
    assert [len(trial.batch) for trial in trials] == [2, 2]
    assert knowledge.require("batch_size") == 2
    for row, trial in enumerate(trials):
        same({name: value[row] for name, value in observation.update.items()}, gradient(corpus, model, trial.batch))


def test_under_lora_only_thin_matrices_move_and_the_rest_is_known(corpus, capture, tmp_path):
    observation, knowledge, _ = capture(model=LORA)
    assert all(name.rpartition(".")[2][:2] in ("A_", "B_") for name in observation.update)
    assert {"transformer.wte.weight", "lm_head.weight", "transformer.h.0.mlp.c_fc.weight"} <= set(observation.buffers)
    files = tmp_path / "observation.safetensors", tmp_path / "facts.json"
    save_observation(*files, observation, knowledge)
    same(load_observation(*files)[0].buffers, observation.buffers, 0, 0)


@pytest.mark.parametrize("model", [NEXT, BERT], ids=["tied", "encoder"])
def test_frozen_tables_are_not_sent_and_what_is_tied_to_them_neither(corpus, capture, model):
    observation, _, trials = capture(model=model, frozen="embeddings")
    missing = {name for name in gradient(corpus, model, trials[0].batch) if name not in observation.update}
    assert missing
    assert all("wte" in name or "wpe" in name or "embeddings" in name for name in missing)
    assert missing <= set(observation.buffers)
    assert "lm_head.weight" not in observation.update
    expected = gradient(corpus, model, trials[1].batch)
    same(
        {name: value[1] for name, value in observation.update.items()},
        {name: value for name, value in expected.items() if name not in missing},
    )


def test_several_clients_are_the_mean_of_their_updates_each_at_its_own_rate(corpus, capture):
    observation, knowledge, trials = capture(clients=2, batch_size=1, draws=2, defense="lrp", client_weight=2.0)
    assert len(trials) == 4
    assert knowledge.require("batch_size") == 2
    alone = capture(batch_size=1, draws=2, defense="lrp", client_weight=2.0)
    for trial in range(4):
        group, draw = divmod(trial, 2)
        pair = [2 * (2 * group + member) + draw for member in (0, 1)]
        for name, value in observation.update.items():
            assert torch.allclose(value[trial], alone[0].update[name][pair].mean(0), rtol=1e-9, atol=1e-15), name
        assert trials[trial].rates[0] == pytest.approx(sum(alone[2][one].rates[0] for one in pair) / 2)


@pytest.mark.parametrize(
    "changes",
    [{"clients": 2, "batch_size": 1}, {"optimizer": "adam"}, {"rounds": 3}, {"local_steps": 2}, {"defense": "lrp"}],
    ids=lambda changes: next(iter(changes)),
)
def test_all_facts_that_a_capture_writes_are_known_to_who_reads_its_files(capture, tmp_path, changes):
    observation, knowledge, _ = capture(**changes)
    files = tmp_path / "observation.safetensors", tmp_path / "facts.json"
    save_observation(*files, observation, knowledge)
    assert load_observation(*files)[1].facts == knowledge.facts


def test_adams_first_step_has_the_sign_of_the_gradient_and_is_told(corpus, capture):
    observation, knowledge, trials = capture(optimizer="adam")
    assert knowledge.require("optimizer")["name"] == "adam"
    expected = gradient(corpus, NEXT, trials[0].batch)["transformer.h.0.mlp.c_fc.weight"]
    found = observation.update["transformer.h.0.mlp.c_fc.weight"][0]
    large = expected.abs() > 1e-6
    assert torch.equal(found[large].sign(), expected[large].sign())
    assert torch.allclose(found[large].abs(), torch.ones_like(found[large]), atol=0.02)


def test_dp_sgd_clips_every_sentence_on_its_own(corpus, capture):
    bound = 0.3
    observation, _, trials = capture(model=GPT2, defense={"name": "dp-sgd", "bound": bound, "sigma": 0.0})
    total = {}
    for one in trials[0].batch:
        own = gradient(corpus, GPT2, [one])
        norm = torch.stack([value.norm() for value in own.values()]).norm()
        assert norm > bound
        total = {name: total.get(name, 0) + bound / norm * value / 2 for name, value in own.items()}
    same({name: value[0] for name, value in observation.update.items()}, total)


def test_two_small_steps_are_nearly_one(capture):
    one, two = capture(rate=1e-5)[0], capture(rate=1e-5, local_steps=2)[0]
    assert any(not torch.equal(value, two.update[name]) for name, value in one.update.items())
    same(two.update, one.update, rtol=1e-2, atol=1e-5)


def test_the_truth_of_a_batch_survives_its_file_and_that_of_one_has_no_others(capture, tmp_path):
    path = tmp_path / "truth.json"
    trials = capture()[2]
    save_text_truth(path, trials)
    assert load_text_truth(path) == trials
    save_text_truth(path, capture(batch_size=1)[2])
    assert "others" not in path.read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"batch_size": 3}, "4 sentences do not make updates of 3: set sentences.others"),
        ({"batch_size": 8}, "4 sentences do not make updates of 8"),
        ({"clients": 3}, "updates of 3 clients with 2 each"),
        ({"model": BERT | {"loss": "next-token"}}, "'bert-classifier' has no setting 'loss'"),
        ({"model": NEXT | {"positions": 8}}, "set positions: 13 in the model or lower sentences.longest"),
        ({"model": NEXT | {"rank": 17}}, "LoRA of rank 17 is wider than the network"),
        ({"defense": {"name": "dp-sgd", "sampling": "poisson"}}, "batches of a capture have one size"),
    ],
    ids=["not whole", "too few", "clients", "encoder's next token", "too long", "rank", "poisson"],
)
def test_what_cannot_be_captured_is_refused_in_one_line(capture, changes, message):
    with pytest.raises(UserError, match=message) as caught:
        capture(**changes)
    assert "\n" not in str(caught.value)


def test_a_sentences_loss_is_the_mean_over_its_own_places(corpus, capture):
    _, _, trials = capture(batch_size=1)
    network, (one, *_) = network_of(corpus, NEXT), trials
    ids = torch.tensor([one.ids])
    expected = F.cross_entropy(network(input_ids=ids).logits[0, :-1], ids[0, 1:])
    wide = capture(defense={"name": "dp-sgd", "bound": 1e6, "sigma": 0.0}, batch_size=1)[0]
    grads = torch.autograd.grad(expected, list(network.parameters()))
    names = [name for name, _ in network.named_parameters()]
    same({name: value[0] for name, value in wide.update.items()}, dict(zip(names, grads, strict=True)))
