"""Linear algebra that fails in one trial loses that trial and no other, whichever attack it is and where it fails."""

import numpy as np
import pytest
import torch

from leaklab.attacks import run as planned_run
from leaklab.attacks.base import Reconstruction
from leaklab.attacks.imprint import NO_LABEL
from leaklab.attacks.run import attacked
from leaklab.attacks.starts import StartRecord
from leaklab.observations.declared import Requirements
from leaklab.specs.attack import AttackerSpec

TRIALS = 3
FAILURES = [np.linalg.LinAlgError("SVD did not converge"), torch.linalg.LinAlgError("linalg.svd: failed to converge")]


class Algebra:
    """An attack with two starts that fails wherever it sees one of the trials ``bad``."""

    requirements = Requirements()

    def __init__(self, error, bad):
        self.error, self.bad = error, bad

    def reconstruct(self, case):
        observation = case.observation
        if set(observation.trials) & set(self.bad):
            raise self.error
        count = len(observation.trials)
        images = torch.tensor(observation.trials, dtype=torch.float64).view(-1, 1, 1, 1, 1).expand(-1, 1, 1, 8, 8) / 10
        starts = tuple(StartRecord(trial, 0, 0.5, 1, 1, False, "budget") for trial in observation.trials)
        losses, labels = torch.full((count, 2), 0.5), torch.zeros(count, 1, dtype=torch.int64)
        return Reconstruction.of_starts(images[:, None].expand(-1, 2, -1, -1, -1, -1), losses, labels, starts)


@pytest.fixture
def run(observe, digits, knowledge, monkeypatch):
    def attack(error, bad):
        images, labels = (one[:TRIALS, None] for one in digits)
        transform = planned_run.plugins.load("attacks/adaptive", "none", {})
        monkeypatch.setattr(planned_run, "_planned", lambda *_: (transform, Algebra(error, bad)))
        spec = AttackerSpec.model_validate({"attack": "ig", "iterations": 1, "restarts": 2})
        return attacked(spec, observe(images, labels), knowledge, "cpu", None)

    return attack


@pytest.mark.parametrize("error", FAILURES, ids=["numpy", "torch"])
@pytest.mark.parametrize("bad", [(0,), (1,), (0, 2), (0, 1, 2)])
def test_a_trial_without_a_decomposition_is_lost_and_no_other(run, error, bad):
    found, whole = run(error, bad), run(error, ())
    lost = torch.tensor([trial in bad for trial in range(TRIALS)])
    assert torch.equal(found.images[~lost], whole.images[~lost])
    assert found.candidates.shape == whole.candidates.shape
    assert torch.isnan(found.images[lost]).all()
    assert torch.isinf(found.candidate_losses[lost]).all()
    assert (found.labels[lost] == NO_LABEL).all()
    assert [start.trial for start in found.starts] == list(range(TRIALS))
    assert [start.diverged for start in found.starts] == lost.tolist()


def test_other_errors_are_raised(run):
    with pytest.raises(ZeroDivisionError):
        run(ZeroDivisionError("not algebra"), (1,))
