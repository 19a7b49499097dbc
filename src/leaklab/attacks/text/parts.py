"""An attack on text in parts: finished sentences are kept, so that a killed job goes on (``records/kept.py``).

A sentence's result depends on its own trial only, so a resumed job ends with the same bytes as an uninterrupted one.
"""

from collections.abc import Mapping
from math import nan

import torch
from torch import Tensor

from leaklab.attacks.closed_form import NO_LABEL
from leaklab.attacks.starts import StartRecord, as_tensor, from_tensor
from leaklab.attacks.text.matching_attack import TextReconstruction
from leaklab.observations.base import Observation


def unread(observation: Observation) -> TextReconstruction:
    """Return the answer to an update that says nothing: no token, no label, no start."""
    (trial,) = observation.trials
    start = StartRecord(trial, 0, nan, 0, 0, False, observation.silent[trial])
    return TextReconstruction((torch.empty(0, dtype=torch.int64),), torch.tensor([NO_LABEL]), (start,))


def packed(part: TextReconstruction) -> dict[str, Tensor]:
    """Return the only trial of a reconstruction as tensors, its starts included."""
    (tokens,) = part.tokens
    return {"tokens": tokens, "labels": part.labels, "starts": as_tensor(part.starts)}


def unpacked(tensors: Mapping[str, Tensor]) -> TextReconstruction:
    """Return the reconstruction of ``packed``."""
    return TextReconstruction((tensors["tokens"],), tensors["labels"], from_tensor(tensors["starts"]))
