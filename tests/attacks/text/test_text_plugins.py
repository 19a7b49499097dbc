"""The plug-ins on text: what they take from an observation, and which of them a hidden factor concerns."""

from dataclasses import replace

import pytest
import torch
from torch.testing import assert_close

from leaklab.attacks.base import Budget
from leaklab.attacks.starts import starts_table
from leaklab.attacks.text import observed
from leaklab.attacks.text.base import TextCase, TextMatching, packed, unpacked
from leaklab.attacks.text.token_order import read
from leaklab.models.text.base import POSITION_TABLE, WORD_TABLE, BertClassifier
from leaklab.observations.base import Knowledge, Observation
from leaklab.observations.threat_models import granted
from leaklab.records import plugins
from leaklab.records.errors import UserError
from leaklab.records.kept import KeptParts
from leaklab.records.streams import stream

SETTINGS = {"layers": 2, "width": 16, "heads": 2, "positions": 12, "spread": 0.1}
LABELS = [1, 0, 1]
QUICK = Budget(iterations=12, restarts=1)
WITH_LABELS = "honest-but-curious-with-labels"


def streams(*name):
    return stream(11, *name)


@pytest.fixture(scope="module")
def captured(network, sentence, observe):
    """Return sentences of 6, 8 and 5 tokens and what the server sees of them, each times a factor."""
    sentences = [sentence(number, length) for number, length in enumerate((6, 8, 5))]

    def make(factors=(1.0, 1.0, 1.0), kind="gradient", threat_model="honest-but-curious", **facts):
        update = observe(sentences, LABELS, factors)
        sign = 1 if kind == "gradient" else -0.01
        observation = Observation(
            weights={name: value.detach() for name, value in network.named_parameters()},
            update={name: sign * value for name, value in update.items()},
            kind=kind,
            mode="eval",
            model={"name": "bert-classifier", "settings": SETTINGS},
            trials=(0, 1, 2),
        )
        vocabulary = {"size": 40, "padding": 0, "start": 2, "end": 3}
        known = {
            "architecture": {"name": "bert-classifier", "settings": SETTINGS, "vocabulary": vocabulary},
            "num_classes": 2,
            "batch_size": 1,
            "nominal_rate": 0.01,
            "local_steps": 1,
            "labels": [[label] for label in LABELS],
            **facts,
        }
        allowed = granted(threat_model)
        return observation, Knowledge(threat_model, {k: v for k, v in known.items() if k in allowed})

    make.sentences = sentences
    return make


def run(name, captured, budget=QUICK, settings=None, **changes):
    return plugins.load("attacks/text", name, settings).reconstruct(TextCase(*captured(**changes), budget, streams))


def same(first, second):
    return all(torch.equal(a, b) for a, b in zip(first.tokens, second.tokens, strict=True))


def test_the_observed_network_is_the_clients(captured, network):
    own = observed.victim(*captured())
    for (name, value), (expected_name, expected) in zip(
        own.named_parameters(), network.named_parameters(), strict=True
    ):
        assert name == expected_name
        assert torch.equal(value, expected)
        assert not value.requires_grad


@pytest.mark.parametrize("factor", [1e-3, 1.0, 3.7])
def test_where_a_sentence_ends_is_seen_whatever_the_factor(captured, factor):
    assert [frame.length for frame in observed.frames(*captured((factor,) * 3))] == [6, 8, 5]


def test_labels_are_searched_inferred_or_known(captured):
    assert observed.labels("searched", *captured()) is None
    assert observed.labels("inferred", *captured((0.1, 3.0, 1.0))).tolist() == LABELS
    assert observed.labels("inferred", *captured(kind="delta")).tolist() == LABELS
    assert observed.labels("known", *captured(threat_model=WITH_LABELS)).tolist() == LABELS
    later = captured(threat_model=WITH_LABELS)
    assert observed.labels("known", later[0].select([1]), later[1]).tolist() == LABELS[1:2]
    with pytest.raises(UserError, match="needs 'labels', which threat model 'honest-but-curious' withholds"):
        observed.labels("known", *captured())


@pytest.mark.parametrize(
    ("name", "distance", "norm_weight"),
    [("tag", "tag", 0.0), ("profiled-tag", "profiled-tag", 0.0), ("mean-cosine", "mean-cosine", 1.0)],
)
def test_a_plugin_is_its_search(captured, network, frame_of, name, distance, norm_weight):
    observation, _ = captured()
    frames = [frame_of(ids) for ids in captured.sentences]
    expected = TextMatching(distance, norm_weight=norm_weight, iterations=12).reconstruct(
        network, observation.update, frames, 2, streams, (0, 1, 2)
    )
    found = run(name, captured)
    assert same(found, expected)
    assert found.starts == expected.starts


def test_tag_divides_a_delta_by_the_rate_that_the_server_assumes(captured):
    gradient, delta = run("tag", captured), run("tag", captured, kind="delta")
    assert same(gradient, delta)
    for one, other in zip(gradient.starts, delta.starts, strict=True):
        assert one.matching_loss == pytest.approx(other.matching_loss, rel=1e-9)
    with pytest.raises(UserError, match="needs 'nominal_rate'"):
        run("tag", captured, kind="delta", threat_model="blind-rate")


@pytest.mark.parametrize("name", ["profiled-tag", "mean-cosine"])
def test_a_factor_does_not_concern_who_leaves_the_scale_free(captured, name):
    scaled, plain_one = run(name, captured, factors=(0.3, 2.0, 3.9)), run(name, captured)
    assert same(scaled, plain_one)
    for one, other in zip(scaled.starts, plain_one.starts, strict=True):
        assert one.matching_loss == pytest.approx(other.matching_loss, rel=1e-6)
    assert same(run(name, captured, kind="delta", threat_model="blind-rate"), plain_one)


def test_a_factor_concerns_tag(captured):
    losses = [[start.matching_loss for start in run("tag", captured, factors=(f,) * 3).starts] for f in (1.0, 3.0)]
    assert all(far > 1.5 * near for near, far in zip(*losses, strict=True))


@pytest.mark.parametrize("name", ["profiled-tag", "mean-cosine"])
def test_the_bag_limits_what_is_read(captured, name):
    found = run(name, captured, settings={"bag": True})
    for tokens, truth in zip(found.tokens, captured.sentences, strict=True):
        assert set(tokens.tolist()) <= set(truth.tolist())


@pytest.mark.parametrize("factors", [(1.0, 1.0, 1.0), (0.01, 2.0, 3.9)], ids=["none", "lrp"])
@pytest.mark.parametrize("kind", ["gradient", "delta"])
def test_linear_equations_give_the_sentence_under_any_factor(captured, factors, kind):
    found = run("token-order", captured, factors=factors, kind=kind)
    assert same(found, replace(found, tokens=tuple(captured.sentences)))
    assert found.labels.tolist() == LABELS
    assert [(start.stopped, start.evaluations) for start in found.starts] == [("read", 0)] * 3


def test_several_steps_are_refused_by_linear_equations(captured):
    with pytest.raises(UserError, match="attack 'token-order' works for local_steps <= 1, not 2"):
        run("token-order", captured, local_steps=2)


def test_what_has_no_order_is_a_bag_no_longer_than_the_sentence(captured):
    observation, knowledge = captured()
    word, position = (observation.update[name][:2].sum(0) for name in (WORD_TABLE, POSITION_TABLE))
    frame = observed.frames(observation, knowledge)[1]
    tokens, ordered = read(word, position, frame)
    assert not ordered
    assert tokens[[0, -1]].tolist() == [2, 3]
    assert len(tokens) == frame.length == 8
    middle = tokens[1:-1].tolist()
    norms = word.norm(dim=1)
    left = set(torch.cat(captured.sentences[:2]).tolist()) - {2, 3} - set(middle)
    assert min(norms[middle]) >= max(norms[sorted(left)])
    assert sorted(middle, key=lambda token: -float(norms[token])) == middle


def test_images_are_no_sentences(captured):
    observation, knowledge = captured(architecture={"name": "mlp", "settings": {}})
    with pytest.raises(UserError, match="not one of text"):
        plugins.load("attacks/text", "tag").reconstruct(TextCase(observation, knowledge, QUICK, streams))


def test_weights_of_another_network_are_refused(captured):
    observation, knowledge = captured()
    other = BertClassifier(**{**SETTINGS, "layers": 1}).initialised(40, 2, 1)
    weights = {name: value.detach() for name, value in other.named_parameters()}
    wrong = replace(observation, weights=weights, update={name: value[None] for name, value in weights.items()})
    with pytest.raises(UserError, match="not those of model 'bert-classifier'"):
        observed.victim(wrong, knowledge)


class TestParts:
    @pytest.fixture
    def sentences(self, captured):
        attack, (observation, knowledge) = plugins.load("attacks/text", "tag"), captured()
        budget = replace(QUICK, restarts=2)
        return [attack.reconstruct(TextCase(observation.select([r]), knowledge, budget, streams)) for r in range(3)]

    def test_a_sentence_survives_the_checkpoint(self, sentences, tmp_path):
        path = tmp_path / "checkpoint.safetensors"
        kept = KeptParts(path, "a job")
        for row in (0, 2):
            kept.keep(row, packed(sentences[row]))
        again = KeptParts(path, "a job")
        assert again.part(1) is None
        for row in (0, 2):
            found = unpacked(again.part(row))
            assert torch.equal(found.tokens[0], sentences[row].tokens[0])
            assert torch.equal(found.labels, sentences[row].labels)
            assert found.starts == sentences[row].starts

    def test_one_start_of_a_trial_is_chosen_by_its_loss(self, sentences):
        table = starts_table([start for sentence in sentences for start in sentence.starts])
        assert table.groupby("trial")["chosen"].sum().tolist() == [1, 1, 1]
        best = table.groupby("trial")["matching_loss"].transform("min")
        assert (table["matching_loss"] == best)[table["chosen"]].all()


@pytest.mark.parametrize("name", plugins.available("attacks/text"))
def test_every_attack_works_on_another_device(captured, lazy, name):
    observation, knowledge = captured()
    found = []
    for device in ("cpu", lazy):
        case = TextCase(observation.select([0]).to(device), knowledge, Budget(iterations=1, restarts=1), streams)
        found.append(packed(plugins.load("attacks/text", name).reconstruct(case)))
    here, there = found
    assert here.keys() == there.keys()
    for part in here:
        assert_close(there[part].cpu(), here[part], rtol=1e-6, atol=1e-6, equal_nan=True, msg=part)
