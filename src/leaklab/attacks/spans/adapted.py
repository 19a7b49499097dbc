"""What LoRA's updates say: thin gradients of the first two blocks, by their rank or by sparse reading.

y = W x + s B A x. The rows of dA = s B' D' H combine the inputs H themselves, in R^d, at most r of them at a time; q, v
and both blocks have the same inputs. While B is zero, as before the first step, dA is zero, and the rows of
dB = s D' (H A') combine what A lets through, in R^r: up to r - 1 inputs are told apart there, and more are not by
linear algebra, which does not say that they are safe.

Source: E. J. Hu et al., "LoRA: Low-rank adaptation of large language models", 2021, equation 3.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Literal

import torch
from torch import Tensor

from leaklab.attacks.spans.prefixes import Prefixes, read_prefixes
from leaklab.attacks.spans.span import ROUNDING, Accepted, Candidates, NotToldError, Span, refuse, span_of
from leaklab.attacks.spans.sparse import in_roundings, sparse_prefixes, sparse_tokens
from leaklab.models.text.first_block import FirstBlock
from leaklab.records.errors import UserError

FIRST = "v"
"""Its derivative is zero at no place; that of queries is, where a token sees only itself."""


@dataclass(frozen=True, eq=False)
class AdaptedReading:
    """What was read of an update of LoRA.

    Attributes:
        accepted: tokens and places in the span of the inputs.
        prefixes: sentences of a decoder.
        proven: the certificate: of the first step, as for full matrices; else of sparse reading.
        way: ``rank``, ``sparse`` or ``first step``.
    """

    accepted: Accepted
    prefixes: Prefixes
    proven: bool
    way: Literal["rank", "sparse", "first step"]


def is_adapted(update: Mapping[str, Tensor]) -> bool:
    """Tell whether an update is one of LoRA."""
    return any(".A_" in name or ".B_" in name for name in update)


def read_adapted(block: FirstBlock, update: Mapping[str, Tensor], change: float = 0.0) -> AdaptedReading:
    """Return the sentences of a decoder behind an update of LoRA.

    Args:
        block: the first block of the network with its LoRA.
        update: gradients by name, times any factor.
        change: by what the update has to be multiplied to be a difference of weights; 0 if it never was one.

    Raises:
        UserError: a matrix without its twin, or an encoder.
        NotToldError: more tokens than linear algebra tells apart at B = 0, or none that explain the update.
    """
    if not block.causal:
        raise UserError("LoRA of an encoder is not read: choose a decoder")
    thin = [_thin(block, update, number) for number in (0, 1)]
    if not any(bool(pair[0].any()) for pair in thin[0].values()):
        return _first_step(block, thin)
    rows = [torch.cat([rows for rows, _ in pairs.values()]) for pairs in thin]
    span, candidates = span_of(rows[0].T, ROUNDING[rows[0].dtype]), Candidates(block)
    least = [
        _matrices(block, number, pairs).norm(dim=1) / change if change else None for number, pairs in enumerate(thin)
    ]
    measured = [in_roundings(one.T, ROUNDING[one.dtype], long) for one, long in zip(rows, least, strict=True)]
    ranked = span.rank < len(rows[0])
    accepted = candidates.accepted(span) if ranked else sparse_tokens(candidates, measured[0])
    if accepted is None:
        raise NotToldError(
            "no tokens explain the update of LoRA: it is none of one step without noise, or they reach the width"
        )
    found = sparse_prefixes(block, accepted, measured[1])
    return AdaptedReading(accepted, found.prefixes, found.proven, "rank" if ranked else "sparse")


def _thin(block: FirstBlock, update: Mapping[str, Tensor], number: int) -> dict[str, tuple[Tensor, Tensor]]:
    """Return matrix -> gradients of A [r, d] and B [outputs, r] in a block.

    Raises:
        UserError: one without the other, or none.
    """
    attention = block.names.of("attention", number)[0].rsplit(".", 2)[0] + "."
    found: dict[str, dict[str, Tensor]] = {}
    for name, value in update.items():
        if name.startswith(attention) and name.rpartition(".")[2][:2] in ("A_", "B_"):
            found.setdefault(name.rpartition("_")[2], {})[name.rpartition(".")[2][0]] = value
    if not found:
        raise UserError(f"the update has no LoRA of block {number}: capture the update of one that has")
    for matrix, pair in found.items():
        if len(pair) < 2:
            raise UserError(f"LoRA's {next(iter(pair))}_{matrix} came without its twin: capture the update again")
    return {matrix: (pair["A"], pair["B"]) for matrix, pair in found.items()}


def _first_step(block: FirstBlock, thin: list[dict[str, tuple[Tensor, Tensor]]]) -> AdaptedReading:
    spans = [
        {name: _seen(block, name, number, pair[1]) for name, pair in one.items()} for number, one in enumerate(thin)
    ]
    first = FIRST if FIRST in spans[0] else next(iter(spans[0]))
    refuse(spans[0][first], "tokens")
    accepted = Candidates(block).accepted(spans[0][first])
    for name, span in spans[0].items():
        if name != first and span.told:
            near = span.distances(block.inputs(accepted.tokens, accepted.places.clamp(min=0))) <= span.tolerance
            accepted = accepted.of(near | (accepted.places <= 0))
    refuse(spans[1][first], "prefixes")
    found = read_prefixes(block, accepted, spans[1][first], later=True)
    return AdaptedReading(accepted, found.prefixes, found.proven, "first step")


def _seen(block: FirstBlock, name: str, number: int, rows: Tensor) -> Span:
    """Return the span of what a block's A lets through of the inputs."""
    return replace(span_of(rows.T, ROUNDING[rows.dtype]), seen=_matrices(block, number, [name]))


def _matrices(block: FirstBlock, number: int, names: Iterable[str]) -> Tensor:
    """Return A of some matrices of a block one below the other, [sum of r, d]."""
    attention = block.names.of("attention", number)[0].rsplit(".", 2)[0] + "."
    found = {
        parameter.rpartition("_")[2]: value.detach()
        for parameter, value in block.network.named_parameters()
        if parameter.startswith(attention) and parameter.rpartition(".")[2].startswith("A_")
    }
    return torch.cat([found[name] for name in names])
