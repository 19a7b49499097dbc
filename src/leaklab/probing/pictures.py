"""What a probe's page shows: private samples, and what each attacker made of them, side by side."""

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from leaklab.guests.pictures import Strip, encoded
from leaklab.probing.case import Case
from leaklab.probing.reading import Reading
from leaklab.probing.yardstick import Grades

SHOWN = 6
"""Samples on a page."""
SECTION = "samples"


def strips_of(
    case: Case, grades: Grades | None, readings: Sequence[Reading], tokenizer: Any = None
) -> Mapping[str, Sequence[Strip]]:
    """Return the strips of a page: the private samples, and the readings that are paired with them.

    Args:
        case: with its samples, or without.
        grades: of the readings; None where nobody holds the samples.
        readings: all of them.
        tokenizer: of sentences, with ``decode``; None to show numbers.
    """
    if case.inputs is None or grades is None:
        own = [one.values for one in readings if one.of == "input"][:SHOWN]
        return {SECTION: [Strip("read", "proven or not", _shown(own, tokenizer), None)]} if own else {}
    truth = list(case.inputs[:SHOWN])
    guessed = _shown(list(grades.guessed[:SHOWN]), tokenizer, truth)
    strips = [Strip("private sample", "", _shown(truth, tokenizer), None)]
    strips.append(Strip("best guess", "of who saw no update", guessed, grades.guesses[:SHOWN]))
    for attacker in grades.attackers:
        pairs = zip(attacker.paired, truth, strict=False)
        filled = [torch.zeros_like(own) if one is None else one.values.reshape(own.shape).to(own) for one, own in pairs]
        strips.append(Strip(attacker.by, "", _shown(filled, tokenizer, truth), attacker.scores[:SHOWN]))
    return {SECTION: strips}


def _shown(
    samples: Sequence[Tensor], tokenizer: Any, truth: Sequence[Tensor] | None = None
) -> list[str | list[tuple[str, bool]]]:
    """Return pictures as PNG files in base64, everything else as words with whether each is right."""
    if samples and samples[0].dim() == 3 and samples[0].shape[0] in (1, 3) and samples[0].is_floating_point():
        stacked = torch.stack([one.detach().cpu() for one in samples])
        reference = stacked if truth is None else torch.stack([one.detach().cpu() for one in truth])
        low, high = min(0.0, float(reference.min())), max(1.0, float(reference.max()))
        return list(encoded((stacked - low) / (high - low)))
    wanted = samples if truth is None else truth
    return [_words(one, own, tokenizer) for one, own in zip(samples, wanted, strict=True)]


def _words(sample: Tensor, truth: Tensor, tokenizer: Any) -> list[tuple[str, bool]]:
    flat, own = sample.flatten()[:64].tolist(), truth.flatten()[:64].tolist()
    pairs = list(zip(flat, own, strict=False))
    if sample.is_floating_point():
        return [(f"{one:.3g}", abs(one - right) < 1e-3 * max(1.0, abs(right))) for one, right in pairs]
    return [(str(one) if tokenizer is None else str(tokenizer.decode([one])), one == right) for one, right in pairs]
