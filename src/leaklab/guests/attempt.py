"""A guest's attack in a process of its own, which has updates, weights and a prior, and no private image."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from leaklab.attacks.base import Case, Reconstruction
from leaklab.guests import exchange
from leaklab.guests.calls import imported
from leaklab.guests.files import blamed, find
from leaklab.guests.peeking import blind, refuse_peeking
from leaklab.records.asked import refuse_clocks
from leaklab.records.errors import UserError
from leaklab.records.purity import watched

_WAIT_SECONDS = 0.2


def attempted(
    file: Path, phase: Callable[[str], None], folder: str, evaluations: int, seed: int = 0, sha256: str = ""
) -> bool:
    """Let an attack read the updates of a folder, one defense after the other; what it read is left there.

    Args:
        file: of the guest.
        phase: told what is done now.
        folder: see ``exchange``.
        evaluations: that a search may spend on an update.
        seed: of what the attack draws.
        sha256: that the file must have; empty for any.

    Raises:
        UserError: the file may not run, or offers no attack.
    """
    phase("it was imported")
    guest = find(file)
    if sha256 and guest.sha256 != sha256:
        raise UserError(f"{file} was changed while it was judged: begin again")
    refuse_peeking(file)
    refuse_clocks("attacks", file)
    place = Path(folder)
    with blind(guest.file):
        made = getattr(imported(guest.file, 0), guest.offered)
    phase("it waited for updates")
    while (names := exchange.names(place)) is None:
        time.sleep(_WAIT_SECONDS)
    for name in names:
        phase(f"it read {name}")
        began = time.monotonic()
        try:
            images, labels = _read(guest.file, made, exchange.case(place, name, evaluations, seed))
        except (UserError, MemoryError) as error:
            exchange.fail(place, name, str(error) or f"{file}: it asks for too much memory")
            continue
        exchange.answer(place, name, images, labels, time.monotonic() - began)
    exchange.end(place)
    return True


def _read(file: Path, made: Callable[[], Any], case: Case) -> tuple[Tensor, Tensor]:
    """Return the images [N, C, H, W] and labels [N] that an attack found.

    Raises:
        UserError: it fails, or returns something else.
    """
    with blind(file), torch.random.fork_rng(devices=()), blamed(file, "it attacked"):
        torch.manual_seed(0)  # only in a child: what is drawn when the attack is made repeats itself
        attack, given = made(), {"case.observation": case.observation, "case.knowledge": case.knowledge}
        with watched(attack, call="reconstruct", given=given, draws="case.streams(name)"):
            found: Reconstruction = attack.reconstruct(case)
        # what a guest returns may be of a class of its own, whose attributes and methods run too
        images, labels = (_plain(getattr(found, name, None)) for name in ("images", "labels"))
    trials, shape = len(case.observation.trials), tuple(case.knowledge.require("input_shape"))
    samples = int(case.knowledge.facts.get("samples", 1))
    wanted = f"{file}: reconstruct"
    if images is None or labels is None:
        raise UserError(f"{wanted} returned {type(found).__name__}: return a leaklab.attacks.base.Reconstruction")
    if images.shape != (trials, samples, *shape) or labels.shape != (trials, samples):
        raise UserError(
            f"{wanted} returned images {list(images.shape)} and labels {list(labels.shape)}: make them "
            f"{[trials, samples, *shape]} and {[trials, samples]}"
        )
    if not bool(images.isfinite().all()):
        raise UserError(f"{wanted} returned images that are not finite: correct it")
    return images.flatten(0, 1).double(), labels.flatten().long()


def _plain(value: object) -> Tensor | None:
    """Return a tensor as one of torch's own class; None for anything else."""
    return value.detach().as_subclass(Tensor) if isinstance(value, Tensor) else None
