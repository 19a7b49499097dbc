"""What went to a client and what came back in one round: all that a server has of it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor

from leaklab.records.exchanges import Sends as Sends


@dataclass(frozen=True)
class Exchange:
    """One client's round, as the server sees it.

    Attributes:
        before: the state that the client was given, by the names of ``state_dict``: parameters and buffers.
        sent: what came back, by name; some of the parameters may be missing, and buffers may be among them.
        kind: what ``sent`` is.
        facts: what else is known of the round, e.g. of its recording.
    """

    before: Mapping[str, Tensor]
    sent: Mapping[str, Tensor]
    kind: Sends = "delta"
    facts: Mapping[str, Any] = field(default_factory=dict)

    def direction(self, name: str) -> Tensor:
        """Return what a gradient step of rate 1 would have taken off a parameter, in float64, of its shape."""
        sent = self.sent[name].double()
        if self.kind == "gradient":
            return sent
        return -sent if self.kind == "delta" else self.before[name].double() - sent
