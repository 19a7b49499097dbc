"""What attacks take for granted about a client's round, beside what clients of a production system do.

The entries are those that the attacks' own papers state for their experiments; OUTPOST's table II lists the same four.
In production a client does several epochs (E) on more samples (n) than a batch (B) holds.

Source: OUTPOST paper, table II; "Deep Leakage from Gradients"; "iDLG"; "Inverting Gradients"; "See through Gradients".
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from leaklab.theory.base import Check, Clients, Number, Track

Count = Literal["one", "any", "several"]
Batch = Literal["one", "all", "any"]


@dataclass(frozen=True)
class Assumptions:
    """Of one attack.

    Attributes:
        attack: its name.
        epochs: E that it can face.
        samples: n that it can face.
        batch: B: one sample, all n of them, or any number up to n.
        labels: where it has them from.
        prior: what it takes for likely.
    """

    attack: str
    epochs: Count
    samples: Count
    batch: Batch
    labels: str
    prior: str

    @property
    def holds_in_practice(self) -> bool:
        """Whether the attack can face E > 1, n > 1 and B < n."""
        return self.epochs != "one" and self.samples != "one" and self.batch == "any"


TABLE = (
    Assumptions("DLG", "one", "any", "all", "searched", "none"),
    Assumptions("iDLG", "one", "one", "one", "read off, one sample", "none"),
    Assumptions("csDLG", "any", "any", "any", "known", "smooth images"),
    Assumptions("GradInversion", "one", "several", "all", "read off, no two alike", "smooth images, batch statistics"),
)


@dataclass(frozen=True)
class AttackAssumptions:
    """For each attack, as texts among the keys, whether its assumptions hold in practice: 1 or 0."""

    def run(self, seed: int, clients: Clients | None, track: Track) -> Iterator[Number]:
        """Return one number for each attack; see ``Check``."""
        for one in TABLE:
            row = {
                "attack": one.attack,
                "E": {"one": "1", "any": "1 or more"}[one.epochs],
                "n": {"one": "1", "any": "1 or more", "several": "above 1"}[one.samples],
                "B": {"one": "1", "all": "n", "any": "up to n"}[one.batch],
                "labels": one.labels,
                "prior": one.prior,
            }
            yield Number("holds_in_practice", float(one.holds_in_practice), row)


PLUGIN: type[Check] = AttackAssumptions
