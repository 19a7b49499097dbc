"""What the client's loss compared outputs with: granted, read off what was sent, or sought beside the samples."""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from leaklab.probing.case import Case
from leaklab.records.errors import UserError

MOST_CHOICES = 64
"""Different targets among the public ones up to which they are choices and not numbers."""


@dataclass(frozen=True)
class Targets:
    """The targets of N samples in a search.

    Attributes:
        samples: N.
        fixed: [N, ...]; None where they are sought.
        classes: which of the choices each one is, [N]; None where there are no choices.
        middle: [...] of a target that is sought, before anything is known.
        spread: [...] its deviation.
        words: how they are known.
    """

    samples: int
    fixed: Tensor | None
    classes: Tensor | None
    middle: Tensor | None = None
    spread: Tensor | None = None
    words: str = "granted"

    @property
    def unknowns(self) -> int:
        """Numbers that are sought."""
        return 0 if self.middle is None else self.samples * self.middle.numel()

    def __call__(self, latents: Tensor) -> Tensor:
        """Return the targets [N, ...] for latents [m] that are N(0, 1)."""
        if self.fixed is not None:
            return self.fixed
        assert self.middle is not None
        assert self.spread is not None
        sought: Tensor = self.middle + self.spread * latents.view(self.samples, *self.middle.shape)
        return sought


@dataclass(frozen=True)
class Choices:
    """What targets there are, before what was sent is looked at.

    Attributes:
        values: [K, ...] if they are some few; None for numbers.
        public: which of them the public samples have, [P]; empty without public samples.
        middle: [...] of numbers.
        spread: [...] of numbers.
    """

    values: Tensor | None
    public: Tensor
    middle: Tensor | None = None
    spread: Tensor | None = None

    def which(self, targets: Tensor) -> Tensor:
        """Return which of the choices targets [N, ...] are, [N].

        Raises:
            UserError: one of them is no choice.
        """
        assert self.values is not None
        rows = targets.to(self.values).flatten(1) if targets.dim() > 1 else targets.to(self.values)[:, None]
        same = (rows[:, None] == self.values.flatten(1)[None] if self.values.dim() > 1 else rows == self.values).view(
            len(rows), len(self.values), -1
        )
        found = same.all(2)
        if not bool(found.any(1).all()):
            raise UserError("a target is none that the model's output or the public samples know: check the targets")
        return found.double().argmax(1)


def choices_of(case: Case, output: Any, dtype: torch.dtype) -> Choices:
    """Return what targets a case may have; of the private ones only type and shape are looked at.

    Args:
        case: whose public targets are choices if they are few and whole numbers otherwise stand for classes.
        output: of the model, whose last axis counts the classes.
        dtype: of targets that are no integers.

    Raises:
        UserError: nothing is known of them.
    """
    public = None if case.public is None else case.public[1]
    form = public if public is not None else case.targets
    if form is None:
        raise UserError("nothing is known of the targets: give labels, or public samples with theirs")
    nobody = torch.zeros(0, dtype=torch.int64)
    whole = not form.is_floating_point()
    if whole and form.dim() == 1:
        seen = 0 if public is None or not len(public) else int(public.max()) + 1
        width = output.shape[-1] if isinstance(output, Tensor) and output.dim() > 1 else 0
        number = max(seen, width, 2)
        return Choices(torch.arange(number), nobody if public is None else public.long().cpu())
    if public is not None and len(public):
        values, which = torch.unique(public, dim=0, return_inverse=True)
        if len(values) <= min(MOST_CHOICES, max(2, len(public) // 2)):
            return Choices(values if whole else values.to(dtype), which.cpu())
    if whole:
        raise UserError("targets of several integers are not sought without public ones: give labels")
    if public is None or len(public) < 2:
        like = torch.zeros(form.shape[1:], dtype=dtype)
        return Choices(None, nobody, like, torch.ones_like(like))
    own = public.to(dtype)
    return Choices(None, nobody, own.mean(0), own.std(0).clamp(min=1e-6))
