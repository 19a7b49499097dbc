"""What is said of guests that change samples, network or loss: what they do, and nothing of hooks that do nothing."""

import pytest

from leaklab.guests.calls import Subject
from leaklab.guests.description import describe
from leaklab.guests.laboratory import Laboratory
from leaklab.guests.trained import of_training

HEAD = "import torch\nfrom torch import nn\nfrom leaklab import Defense\nclass Mine(Defense):\n"
SAMPLES = "    def samples(self, images, labels, context):\n        return "
NETWORK = "    def network(self, network):\n        return "
PENALTY = "    def penalty(self, network):\n        return "
IDLE = {
    "samples": f"{SAMPLES}images.clone(), labels\n",
    "network": f"{NETWORK}network\n",
    "penalty": f"{PENALTY}0.0 * sum(value.sum() for value in network.parameters())\n",
    "penalty without a derivative": f"{PENALTY}torch.ones(())\n",
}
TOLD = {
    "mirror": (f"{SAMPLES}images.flip(3), labels\n", {"drawn": "never", "samples": [1], "labels": False}),
    "other labels": (f"{SAMPLES}images, (labels + 1) % 10\n", {"drawn": "never", "labels": True, "rms": 0.0}),
    "noise": (
        f"{SAMPLES}(images + 0.1 * context.stream('x').normal(*images.shape).to(images)).clamp(0, 1), labels\n",
        {"drawn": "anew", "samples": [1]},
    ),
    "decoys": (
        f"{SAMPLES}torch.cat([images, 1 - images]), torch.cat([labels, labels])\n",
        {"drawn": "never", "samples": [2]},
    ),
    "dropout": (f"{NETWORK}nn.Sequential(nn.Dropout(0.5), *network)\n", {"drawn": True}),
    "tanh": (
        f"{NETWORK}network.append(nn.Tanh())\n",
        {"drawn": False, "new": [], "gone": []},
    ),
    "decay": (f"{PENALTY}0.1 * network[-1].weight.square().sum()\n", None),
}


def laboratory(tmp_path, body, network="mlp"):
    (tmp_path / "mine.py").write_text(HEAD + body)
    return Laboratory(Subject.load(tmp_path / "mine.py"), network)


@pytest.mark.parametrize("name", IDLE)
def test_a_hook_that_changes_nothing_is_not_described(tmp_path, name):
    assert of_training(laboratory(tmp_path, IDLE[name])) == []


def test_a_guest_whose_hooks_change_nothing_does_nothing(tmp_path):
    assert [fact.name for fact in describe(laboratory(tmp_path, IDLE["samples"]))] == ["nothing"]


@pytest.mark.parametrize("name", TOLD)
def test_what_is_changed_is_said_and_that_gradients_stay_is_not_called_nothing(tmp_path, name):
    body, value = TOLD[name]
    (fact,) = describe(laboratory(tmp_path, body))
    assert fact.name in ("changes the samples", "changes the network", "adds to the loss")
    if value is not None:
        assert value.items() <= fact.value.items()
