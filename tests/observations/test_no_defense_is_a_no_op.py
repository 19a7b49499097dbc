"""What the server sees of a round under a defense is not what it sees without: a defense that does nothing fails."""

import pytest
import torch

from leaklab.defenses.additive_noise import AdditiveNoise
from leaklab.defenses.outpost import Outpost
from leaklab.observations.capture import capture
from leaklab.records import plugins
from leaklab.records.capture_spec import CaptureSpec

DEFENSES = sorted(set(plugins.available("defenses")) - {"none"})
# a rate that is only scaled is neutral by default, and a bound must be below the norm to do anything
SETTINGS = {"scaled-rate": {"class_offset": 0.5}, "gradient-clipping": {"bound": 0.1}}
# sums are those of one step
STEPS = {"masked-sum": 1}
MODELS = {"hide-bn": "resnet-small"}
# far above the roundings of two local steps, far below what any defense does
NOTICEABLE = 1e-3


def seen(dataset, defense, model="dlg-lenet", steps=2):
    """Return an update of some steps on two images each, by name: [T, ...]."""
    spec = CaptureSpec.model_validate(
        {
            "dataset": "digits",
            "images": {"count": 4, "seed": 1},
            "model": model,
            "rate": 0.05,
            "kind": "delta",
            "local_steps": steps,
            "batch_size": 2,
            "draws": 1 if defense == "none" else 3,
            "defense": {"name": defense, "settings": SETTINGS.get(defense, {})},
        }
    )
    return capture(spec, dataset)[0].update


def differs(one, other):
    """Whether a tensor is missing, or a trial differs by more than roundings: a drawn number may be the nominal one."""
    if set(one) != set(other):
        return True
    draws = len(next(iter(one.values()))) // len(next(iter(other.values())))
    plain = {name: value.repeat_interleave(draws, 0) for name, value in other.items()}
    distances = [(one[name] - plain[name]).flatten(1).norm(dim=1) for name in plain]
    sizes = [value.flatten(1).norm(dim=1) for value in plain.values()]
    relative = torch.stack(distances).norm(dim=0) / torch.stack(sizes).norm(dim=0)
    return bool((relative > NOTICEABLE).any())


@pytest.mark.parametrize("defense", DEFENSES)
def test_every_defense_changes_what_the_server_sees(dataset, defense):
    common = {"model": MODELS.get(defense, "dlg-lenet"), "steps": STEPS.get(defense, 2)}
    assert differs(seen(dataset, defense, **common), seen(dataset, "none", **common))


def test_a_hook_that_returns_its_input_is_caught(dataset, monkeypatch):
    monkeypatch.setattr(AdditiveNoise, "gradient", lambda self, gradients, context: gradients)
    monkeypatch.setattr(AdditiveNoise, "update", lambda self, update, context: update)
    assert not differs(seen(dataset, "additive-noise"), seen(dataset, "none"))


def test_a_result_that_is_never_written_back_is_caught(dataset, monkeypatch):
    """OUTPOST's public code in its later form: it perturbs, gives the result a name of its own, returns its input."""
    perturb, perturbed = Outpost.gradient, []

    def lost(self, gradients, context):
        perturbed.append(perturb(self, gradients, context))
        return gradients

    monkeypatch.setattr(Outpost, "gradient", lost)
    assert not differs(seen(dataset, "outpost"), seen(dataset, "none"))
    assert perturbed
