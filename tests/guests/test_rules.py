"""Who is called by what a defense does: nobody that has to refuse the update."""

from leaklab.guests.calls import Subject
from leaklab.guests.description import describe
from leaklab.guests.exposure import Exposure
from leaklab.guests.laboratory import Laboratory
from leaklab.guests.rules import by_rule

HEAD = "import torch\nfrom torch import nn\nfrom leaklab import Defense\n"
HIDDEN = HEAD + (
    "class Mine(Defense):\n    def hidden(self, network):\n"
    "        return frozenset(name for name, _ in list(network.named_parameters())[-2:])\n"
)
PRUNED = HEAD + (
    "def defend(gradients):\n"
    "    least = lambda value: value.abs().flatten().kthvalue(int(0.8 * value.numel()) + 1).values\n"
    "    return {name: torch.where(value.abs() < least(value), 0.0, value) for name, value in gradients.items()}\n"
)
PLAIN = HEAD + "def defend(gradients):\n    return gradients\n"


def of_first_layer(tmp_path, source, network="mlp"):
    """Return who reads the first layer, what he read of it in dB, and how many labels."""
    file = tmp_path / "mine.py"
    file.write_text(source)
    arena = Exposure(Subject.load(file), network)
    called = list(by_rule(arena, describe(Laboratory(arena.subject, arena.network))))
    readings = [arena.read(one, arena.defended) for one in called[:1]]
    return called[0].by, readings[0].scores(arena.private.images), arena.labels_read(readings[0])


def test_a_picture_is_read_where_no_label_is_sent(tmp_path):
    name, scores, labels = of_first_layer(tmp_path, HIDDEN)
    assert name == "support-quotient"
    assert min(scores) > 100
    assert labels is None  # it is not that none was right: none was read


def test_a_first_layer_that_was_pruned_is_read_where_it_was_not(tmp_path):
    name, scores, labels = of_first_layer(tmp_path, PRUNED)
    assert name == "support-quotient"
    assert sorted(scores)[len(scores) // 2] > 30
    assert labels is None


def test_an_update_with_its_label_is_read_with_it(tmp_path):
    name, scores, labels = of_first_layer(tmp_path, PLAIN)
    assert name == "analytic"
    assert min(scores) > 100
    assert labels == len(scores)
