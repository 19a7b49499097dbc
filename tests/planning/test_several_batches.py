"""Clients with batches of their own: attacked by those who take them apart and know how many samples to find."""

import pytest

from leaklab.planning.checks import check_batches
from leaklab.records.errors import UserError
from leaklab.specs.attack import AttackSpec

PARTITION = {"name": "iid", "settings": {"clients": 5}}
TRAINING = {
    "dataset": "digits", "partition": PARTITION, "model": "mlp", "rates": [[0.1]], "rounds": 1, "until": 0,
    "local_steps": 2, "batch_size": 3, "seeds": [1],
}  # fmt: skip


def spec(name="csdlg", steps=2, clients=True, **settings):
    images = {"clients": [0], "partition": PARTITION} if clients else {"count": 3}
    capture = {
        "dataset": "digits", "model": "mlp", "images": images, "local_steps": steps, "batch_size": 3,
        "state": {"train": TRAINING},
    }  # fmt: skip
    attack = {"name": name, "settings": settings}
    return AttackSpec.model_validate({"capture": capture, "attack": attack, "iterations": 1})


def test_what_fits_passes():
    check_batches(spec(samples=6))
    check_batches(spec("annealed-map", samples=6))
    check_batches(spec("annealed-likelihood", samples=6))
    check_batches(spec(samples=3, steps=1))
    check_batches(spec(steps=1))
    check_batches(spec(clients=False))  # drawn images are one batch, which all steps repeat


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        (spec("idlg"), "an attack reconstructs one batch: set local_steps: 1"),
        (spec(), "the client has 6 samples in this round, not 3: set attack.samples: 6"),
        (spec(samples=12), "not 12: set attack.samples: 6"),
        (spec(samples=6, clients=False), "the client has 3 samples in this round, not 6"),
    ],
)
def test_what_does_not_fit_is_one_clear_line(asked, message):
    with pytest.raises(UserError, match=message):
        check_batches(asked)
