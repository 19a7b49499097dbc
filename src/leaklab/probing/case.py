"""What a probe works on: a client as its owner describes it, what it sent, and what the auditor holds."""

from dataclasses import dataclass

from torch import Tensor

from leaklab.probing.client import Client
from leaklab.probing.exchange import Exchange


@dataclass(frozen=True)
class Case:
    """One exchange under audit.

    Attributes:
        client: how its owner describes the client that sent it.
        exchange: what the server sent and got.
        inputs: the private samples in the order in which the client used them, [N, ...], as the model's ``call`` takes
            them before ``prepare``; None where nobody holds them.
        targets: what the loss compares with, [N, ...]; None where nobody holds them.
        public: inputs and targets of others, for attackers with a prior; None for none.
        seed: of everything that is drawn.
        noise: deviation of noise that was found in each entry of what was sent, besides what the client describes.
    """

    client: Client
    exchange: Exchange
    inputs: Tensor | None = None
    targets: Tensor | None = None
    public: tuple[Tensor, Tensor] | None = None
    seed: int = 0
    noise: float = 0.0

    def told(self) -> int | None:
        """Return how many samples the client says that it used, as servers are told; None where nobody says."""
        fact = self.exchange.facts.get("samples")
        if fact is not None:
            return int(fact)
        if self.inputs is None:
            return None
        client, held = self.client, len(self.inputs)
        return held if client.batch_size is None else min(held, client.batch_size * client.steps * client.accumulate)
