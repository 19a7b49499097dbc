"""Samples in the update of a layer that sees each of them at one place: by division, or as a batch.

G = D' X and g = D' 1 are carried to what the layer is of a sample, if the way there leads back, and then read by the
room ``attacks/first_layer``: one sample by least squares, batches before a ReLU by ``peel`` and by SPEAR's sampling.
"""

import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor

from leaklab.attacks.first_layer import peel, spear
from leaklab.attacks.first_layer.layer import FirstLayer
from leaklab.attacks.first_layer.layer import Reading as Batch
from leaklab.probing.algebra.readers import Reader, error_of
from leaklab.probing.algebra.rehearsal import Rehearsal
from leaklab.probing.algebra.rounding import EDGE, rank
from leaklab.probing.algebra.sample_maps import SampleMap
from leaklab.probing.case import Case
from leaklab.records import tensor_algebra
from leaklab.records.streams import Stream, stream

LARGEST_SAMPLED, SECONDS = 8, 2.0
"""Batches up to which directions are sought by sampling too, and for how long."""
AGREE = 1e-6
"""Relative difference of quotients of two units below which they are of one sample."""
MOST_UNITS = 1500
"""Units whose quotients are compared with one another."""
LAST_PLACES = 100
"""Rounding of a sum, in units of the last place of the layer's type."""


@dataclass(frozen=True, eq=False)
class Update:
    """What is sent of a reader, on samples where the way leads back, else on what it sees.

    Attributes:
        weight: G [m, p].
        bias: g [m]; None where none is sent.
        shape: of what is read.
        layer: of the same, for the readers of batches; None without a bias.
        rank: of [G g]: how many samples there are at least.
        rounded: whether what is beyond the rank is no more than rounding.
        counts: the same rank of the rehearsal, of three samples of noise: less where it does not count samples.
    """

    weight: Tensor
    bias: Tensor | None
    shape: tuple[int, ...]
    layer: FirstLayer | None
    rank: int
    rounded: bool
    counts: int


def update_of(reader: Reader, case: Case, rehearsal: Rehearsal) -> Update:
    """Return what an exchange holds of a reader at one place."""
    weight, bias = reader.weight_update(case, rehearsal), reader.bias_update(case, rehearsal)
    joined = weight if bias is None else torch.cat([weight, bias[:, None]], 1)
    error = error_of(case, rehearsal, reader.seen.name)
    found = rank(joined, error).value
    sizes = tensor_algebra.singular_values(joined)
    noise = EDGE * error * sum(size**0.5 for size in joined.shape)
    noise += LAST_PLACES * torch.finfo(case.exchange.sent[reader.seen.name].dtype).eps * float(sizes[0])
    rounded = len(sizes) <= found or float(sizes[found]) <= noise
    counts = _counts(reader, rehearsal)
    own = rehearsal.client.model.get_parameter(reader.seen.name).detach().double()
    own = reader.seen.upright(own)
    shape: tuple[int, ...] = (weight.shape[1],)
    side, offset = 0, torch.zeros_like(own[:, 0])
    if isinstance(reader.way, SampleMap) and (bias is not None or not reader.way.offset.any()):
        way, shape = reader.way, reader.way.shape
        shift = way.offset.to(weight)
        if bias is not None:
            weight = weight - bias[:, None] * shift
        weight, offset, own = way.pulled(weight), own @ shift, way.pushed(own)
        side = shape[-1] if len(shape) == 3 and shape[-1] == shape[-2] else 0
    if bias is None or reader.bias is None:
        return Update(weight, None, shape, None, found, rounded, counts)
    offset = offset + rehearsal.client.model.get_parameter(reader.bias).detach().double()
    updates, weights = (weight.cpu().numpy(), bias.cpu().numpy()), (own.cpu().numpy(), offset.cpu().numpy())
    return Update(weight, bias, shape, FirstLayer(*updates, *weights, side), found, rounded, counts)


def _counts(reader: Reader, rehearsal: Rehearsal) -> int:
    """Return the rank of a reader's [G g] in the rehearsal."""
    joined = reader.seen.upright(rehearsal.gradients[reader.seen.name]).double()
    if reader.bias is not None:
        joined = torch.cat([joined, rehearsal.gradients[reader.bias].double()[:, None]], 1)
    sizes = tensor_algebra.singular_values(joined)
    return int((sizes > rehearsal.tolerance * sizes[0]).sum())


def single(held: Update) -> Tensor | None:
    """Return the sample [1, ...] of an update of one, by least squares; only its direction without a bias."""
    if held.bias is None:
        direction: Tensor = tensor_algebra.svd(held.weight)[2][:1]
        return direction.reshape(1, *held.shape)
    size = held.bias.square().sum()
    if not size > 0:
        return None
    values: Tensor = (held.bias @ held.weight / size).reshape(1, *held.shape)
    return values


def batches(held: Update, rectified: bool, seed: int) -> Iterator[tuple[str, Batch]]:
    """Yield what each way reads of a batch, [b, p], by its name.

    Args:
        held: the update, with a bias.
        rectified: whether the layer's units look like those before a ReLU.
        seed: of the case.
    """
    assert held.layer is not None
    draws = stream(seed, "first affine")
    if held.rank > min(held.weight.shape) or not (rectified or held.layer.side):
        return  # neither zeros of a ReLU nor pixels, of which each way needs one
    try:
        first = peel.read(held.layer, held.rank, draws)
        yield "peel", first
        if rectified and first.certified < held.rank <= LARGEST_SAMPLED:
            yield "spear", spear.read(held.layer, held.rank, cast("Stream", _Timed(draws, SECONDS)))
    except (np.linalg.LinAlgError, ValueError, TimeoutError):  # an update that is no mixture at all, or not in time
        return


class _Timed:
    """A stream that ends its reader when the time is out: a search by sampling asks for draws again and again."""

    def __init__(self, draws: Stream, seconds: float) -> None:
        self._draws, self._until = draws, time.process_time() + seconds

    def __getattr__(self, name: str) -> Any:
        if time.process_time() > self._until:
            raise TimeoutError
        return getattr(self._draws, name)


def quotients(held: Update) -> Tensor:
    """Return the samples [k, ...] that at least two units show alone: G_j / g_j is the same for both."""
    assert held.bias is not None
    live = held.bias.abs() > AGREE * held.bias.abs().max()
    if int(live.sum()) > MOST_UNITS:
        return held.weight.new_zeros(0, *held.shape)
    found = held.weight[live] / held.bias[live, None]
    size = found.norm(dim=1)
    near = torch.cdist(found, found, compute_mode="donot_use_mm_for_euclid_dist") <= AGREE * size[:, None]
    firsts = [place for place, row in enumerate(near) if int(row.sum()) > 1 and int(row.nonzero()[0]) == place]
    return found[firsts].reshape(-1, *held.shape)
