"""What a defense may do: hooks with neutral defaults, each a pure function of one client."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Protocol

from torch import Tensor, nn

from leaklab.records.errors import UserError
from leaklab.records.streams import Stream, stream


class Moment(Protocol):
    """What changes from step to step; clients that train together share one moment.

    Attributes:
        step: the local step, from 0; in ``Defense.update`` the number of steps done.
    """

    step: int

    @property
    def batch_size(self) -> int:
        """What this step's sum over samples is divided by: their number, or its mean where that is drawn."""
        ...

    def weights_of(self, model: int) -> Mapping[str, Tensor]:
        """Return the current parameters of a model by name."""
        ...

    def batch_of(self, model: int) -> Mapping[str, Tensor]:
        """Return the model's ``images`` [B, C, H, W] and ``labels`` [B] of this step."""
        ...

    def network_of(self, model: int) -> nn.Sequential:
        """Return a new network with the current weights and running statistics of a model, in evaluation state."""
        ...


def loaded(build: Callable[[], nn.Sequential] | None, state: Mapping[str, Tensor]) -> nn.Sequential:
    """Return what ``build`` gives with ``state`` loaded into it, in evaluation state.

    Raises:
        UserError: ``build`` is None: who trains did not say which network it is.
    """
    if build is None:
        raise UserError("the defense looks into the network, which is not at hand here: use it in a capture or a sweep")
    like = next(iter(state.values()))
    network = build().to(device=like.device, dtype=like.dtype)
    network.load_state_dict(dict(state), strict=True)
    return network.eval()


@dataclass
class Alone:
    """The moment of a client that trains alone."""

    step: int = 0
    weights: Mapping[str, Tensor] = field(default_factory=dict)
    batch: Mapping[str, Tensor] = field(default_factory=dict)
    build: Callable[[], nn.Sequential] | None = None

    @property
    def batch_size(self) -> int:
        """The number of samples of the batch."""
        return len(self.batch["labels"]) if self.batch else 0

    def weights_of(self, model: int) -> Mapping[str, Tensor]:
        """Return the only model's weights."""
        return self.weights

    def batch_of(self, model: int) -> Mapping[str, Tensor]:
        """Return the only model's batch."""
        return self.batch

    def network_of(self, model: int) -> nn.Sequential:
        """Return the only model's network."""
        return loaded(self.build, self.weights)


@dataclass(frozen=True)
class ClientContext:
    """What a client knows when a hook is called.

    Attributes:
        scaled_rate: nominal local learning rate of the round times the client's factor p_k N (1 under scheme 2).
        seed: seed of the run or capture.
        client: the client's number.
        round: the round, from 0.
        draw: number of an independent repetition of the client's randomness (trials of an attack); else 0.
        num_classes: distinct classes among the client's samples (private).
        mean_num_classes: mean of that number over all clients (public after the masked sums).
        moment: step, weights and batch; see the properties.
        model: which of the moment's models is this client's.
    """

    scaled_rate: float
    seed: int
    client: int
    round: int = 0
    draw: int = 0
    num_classes: float = 1.0
    mean_num_classes: float = 1.0
    moment: Moment = field(default_factory=Alone, repr=False, compare=False)
    model: int = 0
    _streams: dict[str, Stream] = field(default_factory=dict, repr=False, compare=False)

    @property
    def step(self) -> int:
        """The local step, from 0; in ``Defense.update`` the number of steps done."""
        return self.moment.step

    @property
    def weights(self) -> Mapping[str, Tensor]:
        """The client's current parameters by name; in ``Defense.update`` those that the server had sent."""
        return self.moment.weights_of(self.model)

    @property
    def batch(self) -> Mapping[str, Tensor]:
        """``images`` [B, C, H, W] (normalised) and ``labels`` [B] of this step; empty in ``Defense.update``."""
        return self.moment.batch_of(self.model)

    @property
    def batch_size(self) -> int:
        """What this step's sum over samples was divided by: their number, or its mean where that is drawn."""
        return self.moment.batch_size

    def network(self) -> nn.Sequential:
        """Return a new network with the client's current weights, in evaluation state.

        Raises:
            UserError: no network is at hand.
        """
        return self.moment.network_of(self.model)

    def stream(self, name: str) -> Stream:
        """Return the client's private stream ``name``: one per seed, client, round and draw.

        Asked for again in a later step, it goes on where it was; who else trains does not matter.
        """
        if name not in self._streams:
            self._streams[name] = stream(
                self.seed, "client", self.client, "round", self.round, "draw", self.draw, "defense", name
            )
        return self._streams[name]

    def at(self, moment: Moment, model: int = 0) -> "ClientContext":
        """Return the same client at a moment; its private streams go on."""
        return replace(self, moment=moment, model=model)


@dataclass(frozen=True)
class Defense:
    """Base of all defenses: does nothing. A subclass overrides the hooks it needs and never works in place."""

    def local_rate(self, context: ClientContext) -> float:
        """Return the learning rate of this local step."""
        return context.scaled_rate

    def gradient(self, gradients: Mapping[str, Tensor], context: ClientContext) -> Mapping[str, Tensor]:
        """Return the gradient that the local optimiser uses, by parameter name.

        Args:
            gradients: gradient of the mean batch loss, before weight decay and momentum.
            context: the client at this step.
        """
        return gradients

    def update(self, delta: Mapping[str, Tensor], context: ClientContext) -> Mapping[str, Tensor]:
        """Return what the client sends in place of ``delta`` (weights after minus weights before local training)."""
        return delta

    def hidden(self, network: nn.Sequential) -> frozenset[str]:
        """Return the names of the network's parameters and running statistics that never leave the client."""
        return frozenset()

    def local_steps(self, nominal: int, context: ClientContext) -> int:
        """Return how many local steps the client really does in place of ``nominal``."""
        return nominal

    def batch_size(self, nominal: int, context: ClientContext) -> int:
        """Return how many samples the client really takes per step in place of ``nominal``."""
        return nominal

    def sample_bound(self, context: ClientContext) -> float | None:
        """Return the norm to which each sample's gradient is shortened before the mean; None: they stay as they are.

        The norm is over all that leaves the client and moves in this step.
        """
        return None

    def poisson_batches(self) -> bool:
        """Whether each sample joins each batch by a draw of its own, in place of shuffled passes; asks for a bound."""
        return False

    def spent(self, rate: float, steps: int) -> float | None:
        """Return the privacy budget epsilon that so many steps spend; None where there is none.

        Args:
            rate: share of a client's samples in a step, as if each were drawn with that probability.
            steps: of one client, all rounds together.
        """
        return None

    @property
    def largest_budget(self) -> float | None:
        """The epsilon that a training must not exceed; None: any."""
        return None

    def neutral(self) -> bool:
        """Whether, with these settings, clients send what they would without it, and that is meant.

        Of any other defense that changes no update, capture, console and page say that it does nothing.
        """
        return False

    def clipped(self, context: ClientContext) -> bool:
        """Whether a value of the defense had to be cut for this client; runs count such clients."""
        return False


def check_hook(defense: Defense, hook: str, returned: object, given: Mapping[str, Tensor]) -> None:
    """Refuse what a hook returned unless it has the names and shapes of what it was given.

    Raises:
        UserError: with the plug-in's file and the first name that is wrong.
    """
    file = f"{type(defense).__module__.replace('.', '/')}.py: {hook}"
    if not isinstance(returned, Mapping) or set(returned) != set(given):
        shown = sorted(returned) if isinstance(returned, Mapping) else type(returned).__name__
        raise UserError(f"{file} returned {shown}: return a mapping with the names {', '.join(given)}")
    for name, value in given.items():
        own = getattr(returned[name], "shape", None)
        if own != value.shape:
            shown = type(returned[name]).__name__ if own is None else f"shape {list(own)}"
            raise UserError(f"{file} returned {name} as {shown}: make it a tensor of shape {list(value.shape)}")


def overrides(defense: Defense, hook: str) -> bool:
    """Whether ``defense`` changes ``hook``; neutral hooks are skipped, not called for every client."""
    return getattr(type(defense), hook) is not getattr(Defense, hook)


# No defense: the undefended reference of every comparison.


@dataclass(frozen=True)
class NoDefense(Defense):
    """Leave rate, gradient and update as they are and share every parameter."""

    def neutral(self) -> bool:
        """True."""
        return True


# Settings out of range are refused when a plug-in is made, before anything runs.


def require_between(owner: str, low: float, high: float, **settings: object) -> None:
    """Check that the settings of ``owner`` (``defense additive-noise``) are numbers above ``low`` and below ``high``.

    Raises:
        UserError: with the first setting that is not.
    """
    for name, value in settings.items():
        if isinstance(value, bool) or not isinstance(value, int | float) or not low < value < high:
            raise UserError(f"{owner}: {name} must be a number above {low} and below {high}, not {value!r}")


PLUGINS = {
    "none": NoDefense,
}
