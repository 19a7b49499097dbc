"""Labels that are read off the last layer are the true ones; those that cannot be are refused."""

from dataclasses import replace

import pytest
import torch

from leaklab.attacks.adaptive.emulation import after_clipping
from leaklab.attacks.labels.head import head
from leaklab.attacks.labels.rules import bias_rule, fixed_labels, row_sum_rule
from leaklab.attacks.matching.distances import profiled_scale
from leaklab.models.cnns import DLGLeNet
from leaklab.observations.base import Knowledge
from leaklab.records.errors import UserError
from leaklab.records.streams import stream

LABELS = torch.tensor([[7, 0, 2, 5], [1, 2, 3, 9], [4, 8, 6, 0]])


@pytest.fixture(scope="module")
def private(digits):
    """Trials of four digits of different classes, [T, 4, 1, 8, 8]."""
    images, labels = digits
    first = {k: int((labels == k).nonzero()[0]) for k in range(10)}
    return torch.stack([torch.stack([images[first[k]] for k in trial]) for trial in LABELS.tolist()])


@pytest.fixture(scope="module")
def untrained():
    """A network whose predictions are nearly uniform, as those of a wide initialisation are not."""
    return DLGLeNet(initialisation="pytorch").initialised((1, 8, 8), 10, 0, torch.float64)


def knowing(**facts):
    return Knowledge("any", facts)


@pytest.mark.parametrize("factors", [(1.0, 1.0, 1.0), (0.1, 1.0, 30.0)])
@pytest.mark.parametrize("kind", ["gradient", "delta"])
def test_different_labels_are_read_off_whatever_the_factor(observe, untrained, private, factors, kind):
    sign = -1.0 if kind == "delta" else 1.0
    observation = observe(private, LABELS, [sign * factor for factor in factors], kind=kind, network=untrained)
    found = fixed_labels("test", "distinct", observation, knowing(batch_size=4))
    assert torch.equal(found, LABELS.sort(1).values)


@pytest.mark.parametrize("initialisation", ["pytorch", "wide"])
def test_the_distinct_rule_is_right_where_its_condition_holds_and_nowhere_else(digits, observe, initialisation):
    """Right means: of no present class does the mean prediction exceed that of an absent one by 1/B or more."""
    network = DLGLeNet(initialisation=initialisation).initialised((1, 8, 8), 10, 0, torch.float64)
    images, labels = digits
    by_class = [images[labels == k] for k in range(10)]
    sets = [stream(0, "classes", trial).permutation(10)[:4] for trial in range(40)]
    batches = torch.stack([torch.stack([by_class[k][trial] for k in ks]) for trial, ks in enumerate(sets)])
    found = fixed_labels("test", "distinct", observe(batches, torch.stack(sets), network=network),
                         knowing(batch_size=4))  # fmt: skip
    right = (found == torch.stack(sets).sort(1).values).all(1)
    with torch.no_grad():
        mean = network(batches.flatten(0, 1)).softmax(1).view(40, 4, 10).mean(1)
    present = torch.zeros(40, 10, dtype=torch.bool).scatter(1, torch.stack(sets), value=True)
    largest = mean.masked_fill(~present, -torch.inf).amax(1)
    smallest = mean.masked_fill(present, torch.inf).amin(1)
    assert torch.equal(right, largest - smallest < 1 / 4)
    assert bool(right.all()) == (initialisation == "pytorch")


class TestWideInitialisation:
    """DLG's own: one class takes most of the prediction, and the batches have equal labels."""

    EQUAL = torch.tensor([[1, 1, 9, 9], [3, 3, 7, 7], [2, 3, 3, 3], [0, 0, 5, 8]])

    @pytest.fixture(scope="class")
    def batches(self, digits):
        """Return 10 batches of different labels and those of equal ones, [T, 4, 1, 8, 8] and [T, 4]."""
        images, labels = digits
        of_class = [images[labels == k] for k in range(10)]
        different = torch.stack([stream(0, "labels", t).permutation(10)[:4].sort().values for t in range(10)])
        chosen = torch.cat([different, self.EQUAL])
        drawn = [[of_class[k][10 * t + place] for place, k in enumerate(own)] for t, own in enumerate(chosen.tolist())]
        return torch.stack([torch.stack(own) for own in drawn]), chosen

    @pytest.fixture(scope="class")
    def predicted(self, network_of, digits):
        with torch.no_grad():
            return torch.softmax(network_of()(digits[0][:100]), 1).mean(0)

    def test_a_class_takes_more_than_a_quarter_of_the_prediction(self, predicted):
        assert float(predicted.max()) > 1 / 4 + float(predicted.min())

    def test_the_distinct_rule_misses_labels_although_they_are_distinct(self, observe, batches, predicted):
        images, labels = batches[0][:10], batches[1][:10]
        found = fixed_labels("test", "distinct", observe(images, labels), knowing(batch_size=4))
        favourite = int(predicted.argmax())
        with_favourite = (labels == favourite).any(1)
        assert bool(with_favourite.any())
        assert not bool((found == favourite).any())

    @pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
    @pytest.mark.parametrize(("rule", "factor"), [("counts", 1.0), ("unmixed", 1.7), ("unmixed", 0.02)])
    def test_counting_finds_all_of_them(self, observe, knowledge, batches, rule, factor, dtype):
        images, labels = batches[0].to(dtype), batches[1]
        observation = observe(images, labels, [factor] * len(labels))
        given = Knowledge("any", {**knowledge.facts, "batch_size": 4})
        assert torch.equal(fixed_labels("test", rule, observation, given), labels)

    def test_counting_needs_the_scale_that_unmixing_finds(self, observe, knowledge, batches):
        observation = observe(*batches, [0.2] * len(batches[1]))
        given = Knowledge("any", {**knowledge.facts, "batch_size": 4})
        assert not torch.equal(fixed_labels("test", "counts", observation, given), batches[1])
        for distance in (profiled_scale, after_clipping):
            with pytest.raises(UserError, match="'counts' needs the scale of the gradient: use label_rule: unmixed"):
                fixed_labels("test", "counts", observation, given, distance)

    def test_a_delta_is_counted_at_the_scale_that_the_server_assumes(self, observe, knowledge, batches):
        observation = observe(*batches, [-0.1] * len(batches[1]), kind="delta")
        given = Knowledge("any", {**knowledge.facts, "batch_size": 4})
        for rule in ("counts", "unmixed"):
            assert torch.equal(fixed_labels("test", rule, observation, given), batches[1])


def test_one_label_is_a_case_of_both_rules(observe, private):
    observation = observe(private[:, :1], LABELS[:, :1])
    for rule in ("bias", "distinct"):
        assert torch.equal(fixed_labels("test", rule, observation, knowing(batch_size=1)), LABELS[:, :1])


def test_granted_labels_are_taken_by_trial_number(observe, private):
    observation = observe(private, LABELS).select([2, 0])
    found = fixed_labels("test", "known", observation, knowing(labels=LABELS.tolist()))
    assert torch.equal(found, LABELS[[2, 0]])


def test_a_server_that_fishes_knows_the_class_whatever_a_defense_left_of_the_head(observe, private):
    observation = observe(private[:, :1], LABELS[:, :1])
    observation = replace(observation, update={name: 0 * value for name, value in observation.update.items()})
    server = {"name": "fishing", "settings": {"target": 7}}
    found = fixed_labels("test", "target", observation, knowing(batch_size=1, server=server))
    assert found.tolist() == [[7]] * len(LABELS)


@pytest.mark.parametrize(
    ("rule", "facts", "message"),
    [
        ("bias", {"batch_size": 4}, "reads one label"),
        ("distinct", {"batch_size": 11}, "11 samples cannot have different labels of 10"),
        ("known", {"batch_size": 4}, "needs 'labels'"),
        ("distinct", {}, "needs 'batch_size'"),
        ("target", {"batch_size": 1}, "needs 'server'"),
        ("target", {"batch_size": 1, "server": {"name": "imprint", "settings": {}}}, "set label_rule: bias"),
        ("best", {"batch_size": 1}, "choose from bias, row-sum, distinct, counts, unmixed, known, target"),
    ],
)
def test_rules_that_do_not_fit_are_refused(observe, private, rule, facts, message):
    with pytest.raises(UserError, match=message):
        fixed_labels("test", rule, observe(private, LABELS), Knowledge("honest-but-curious", facts))


@pytest.mark.parametrize("factor", [0.1, 1.0, 10.0])
@pytest.mark.parametrize("rule", [bias_rule, row_sum_rule])
def test_f3_the_rule_finds_every_label(digits, observe, rule, factor):
    images, labels = digits[0][:30, None], digits[1][:30, None]
    assert torch.equal(rule(observe(images, labels, [factor] * 30)), labels)


def test_a_delta_is_read_with_its_sign_turned(digits, observe):
    images, labels = digits[0][:5, None], digits[1][:5, None]
    assert torch.equal(bias_rule(observe(images, labels, [-0.01] * 5, kind="delta")), labels)


def test_the_head_is_the_last_layer(digits, observe):
    observation = observe(digits[0][:2, None], digits[1][:2, None])
    assert torch.equal(head(observation).bias, observation.weights["fc.bias"])


def test_a_model_without_affine_head_is_refused(digits, observe):
    observation = observe(digits[0][:1, None], digits[1][:1, None])
    weights = {name: value for name, value in observation.weights.items() if not name.startswith("fc")}
    update = {name: observation.update[name] for name in weights}
    broken = type(observation)(weights, update, "gradient", "eval", {}, (0,))
    with pytest.raises(UserError, match="affine layer"):
        head(broken)
