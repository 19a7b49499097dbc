"""What a proof or a search says that a sample, or what a layer saw of it, was."""

from dataclasses import dataclass

from torch import Tensor


@dataclass(frozen=True)
class Reading:
    """One sample as an attacker reads it, before anybody compares it with the truth.

    Attributes:
        by: the proof or search, one word for each, e.g. ``ratio``.
        of: ``input`` if the values are those of a sample, as held before ``prepare``; else the name of the layer whose
            input they are.
        values: what was read: of a sample's shape, or of that of the layer's input for one sample.
        proven: whether the reading was proven right without the truth, of exactly what ``of`` says.
        loss: what the search ended with by its own measure, comparable among readings of the same ``by``; None where
            it has none.
    """

    by: str
    of: str
    values: Tensor
    proven: bool
    loss: float | None = None
