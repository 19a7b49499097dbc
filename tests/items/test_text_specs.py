"""Blocks of attacks on text: flat like those on images, each field in the part that knows it."""

import pytest

from leaklab.items.expand import block_stage, expand
from leaklab.items.items import Item
from leaklab.observations.requirements import check_text
from leaklab.records.errors import UserError
from leaklab.specs.base import run_id
from leaklab.specs.text import SentenceChoice, TextScoreSpec

BLOCK = {
    "stage": "attack-text",
    "dataset": "printed-sentences",
    "sentences": {"others": 3},
    "model": "bert-classifier",
    "attack": "tag",
    "iterations": 5,
    "metrics": ["token_recovery", "rouge_l"],
}
FIELDS = {"paper": "lrp", "item": "table7", "title": "T", "number": 7, "kind": "table", "renderer": "sentences"}


def runs_of(**changes):
    runs = {"main": {**BLOCK, **changes}}
    return expand(Item.model_validate({**FIELDS, "runs": runs, "scales": {"small": {}}}), "small")


def refusal(**changes):
    with pytest.raises(UserError) as caught:
        runs_of(**changes)
    return str(caught.value).removeprefix("config/items/lrp/table7.yaml: runs.main")


def test_flat_fields_go_to_the_part_that_knows_them():
    (run,) = runs_of(draws=3, defense="lrp", client_weight=2.0, seed=8, restarts=2, labels="inferred")
    assert isinstance(run.spec, TextScoreSpec)
    assert block_stage(run) == "score-text"
    attack, capture = run.spec.attack, run.spec.attack.capture
    assert (attack.attack.name, attack.restarts, attack.labels, attack.seed) == ("tag", 2, "inferred", 8)
    assert (capture.defense.name, capture.draws, capture.client_weight, capture.seed) == ("lrp", 3, 2.0, 8)
    assert capture.sentences.count == 5
    assert run.spec.metrics == ("token_recovery", "rouge_l")


def test_lists_are_axes_and_attacks_share_their_capture():
    runs = runs_of(attack=["tag", {"name": "mean-cosine", "bag": True}, "token-order"], defense=["none", "lrp"])
    assert len(runs) == 6
    assert len({run_id(run.spec.attack.capture) for run in runs}) == 2


def test_the_plugins_are_those_of_the_rooms_for_text():
    spec = runs_of(defense="lrp")[0].spec
    assert [entry[:2] for entry in spec.attack.capture.plugins()] == [
        ("models/text", "bert-classifier"), ("defenses", "lrp"), ("federated/optimizers", "sgd"),
    ]  # fmt: skip
    assert [entry[:2] for entry in spec.attack.plugins()] == [
        ("models/text", "bert-classifier"), ("attacks/text", "tag"),
    ]  # fmt: skip
    assert spec.plugins() == ()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"images": {"count": 2}}, ".images: unknown key; known keys are attack, batch_size, client_weight"),
        (
            {"attack": "tga"},
            ": unknown attacks/text plug-in 'tga': choose from mean-cosine, profiled-tag, span-reading, ",
        ),
        ({"attack": {"name": "tag", "bag": True}}, ": attacks/text plug-in 'tag' has no setting 'bag': it accepts squ"),
        ({"model": "mlp"}, ": unknown models/text plug-in 'mlp': choose from bert-classifier"),
        ({"metrics": ["psnr"]}, ": metrics.0: Input should be 'token_recovery', 'position_recovery', 'rouge_1'"),
        ({"metrics": []}, ": metrics: Tuple should have at least 1 item"),
        ({"labels": "guessed"}, ": attack.labels: Input should be 'searched', 'inferred' or 'known'"),
        ({"sentences": {"count": 3}}, ": attack.capture.sentences.count: unknown key; known keys are longest, others"),
    ],
)
def test_what_is_wrong_is_named_with_what_would_be_right(changes, message):
    found = refusal(**changes)
    assert found.startswith(message)
    assert "\n" not in found


SPANS = {"attack": "span-reading", "metrics": ["token_recovery", "sentences_exact", "false_certificates"]}
BATCH = {"batch_size": 5}


def test_a_run_that_asks_for_none_of_it_is_named_as_before():
    plain, batch = (runs_of(**SPANS, **changes)[0].spec.attack.capture for changes in ({}, BATCH))
    told = plain.model_dump()
    assert not {"batch_size", "frozen", "optimizer", "clients"} & set(told)
    assert batch.model_dump() == told | BATCH
    assert (plain.trials, batch.trials) == (5, 1)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"batch_size": 2}, "5 sentences do not make updates of 2: set sentences.others so that"),
        ({"batch_size": 10}, "5 sentences do not make updates of 10"),
        ({**BATCH, "metrics": ["rouge_l"]}, "metric 'rouge_l' is of one sentence, and an update has 5"),
        ({"model": {"name": "bert-classifier", "loss": "next-token"}}, "has no setting 'loss'"),
        ({"model": {"name": "bert-classifier", "rank": 4}}, "has no setting 'rank'"),
        ({"frozen": "words"}, "Input should be 'nothing' or 'embeddings'"),
        ({"optimizer": "adamw"}, "unknown federated/optimizers plug-in 'adamw'"),
    ],
)
def test_a_batch_that_cannot_be_is_refused_while_planning(changes, message):
    found = refusal(**SPANS | changes)
    assert message in found
    assert "\n" not in found


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({**BATCH, "attack": "tag"}, "attack 'tag' works for batch_size <= 1, not 5"),
        ({**BATCH, "attack": "token-order"}, "attack 'token-order' works for batch_size <= 1, not 5"),
        ({"clients": 5, "attack": "mean-cosine"}, "attack 'mean-cosine' works for clients <= 1, not 5"),
        ({"optimizer": "adam", "attack": "tag"}, "attack 'tag' reads updates of sgd, not of adam"),
        ({"model": "gpt2", "attack": "tag"}, "model 'gpt2' is a decoder: set model: bert-classifier, or attack: span-"),
        ({"model": "llama-classifier", "attack": "token-order"}, "model 'llama-classifier' is a decoder"),
        ({"frozen": "embeddings", "attack": "token-order"}, "which frozen: embeddings keeps back: leave frozen out"),
    ],
)
def test_an_attack_that_cannot_read_a_capture_is_refused_while_planning(changes, message):
    (run,) = runs_of(metrics=["token_recovery"], **changes)
    with pytest.raises(UserError, match=message) as caught:
        check_text(run.spec.attack)
    assert "\n" not in str(caught.value)
    (run,) = runs_of(**changes | SPANS)
    check_text(run.spec.attack)


def test_the_printed_sentences_count():
    assert SentenceChoice().count == 2
    assert SentenceChoice(printed=False, others=4).count == 4
