"""A client's defense inside a simulated round: what is sent of an update, and what a search may ask of it.

A defense is any function of its owner's. ``Sender`` calls it on copies, in terms of directions of descent, and holds it
to what it was given. ``Defended`` is what experiments (``experiments``) found of it: its draws held still, what these
add taken off, and a slope for what has none.
"""

import inspect
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from functools import partial
from math import sqrt
from typing import Any

import torch
from torch import Tensor

from leaklab.probing.client import Client
from leaklab.probing.exchange import Exchange
from leaklab.probing.owned import GENERATORS, all_drawing
from leaklab.probing.searches.optimizers import SOFT, soft_sign
from leaklab.records.errors import UserError

Update = tuple[dict[str, Tensor], dict[str, Tensor]]
"""How far a round moves all trained parameters, as directions of descent, and the buffers after it."""
DEPTH = 3
"""How far a function's own generators are looked for: in what it holds, and in what that holds."""
SEED, OTHER = 1, 2
"""Of draws that are held still."""


class Sender:
    """A client's defense as a function of how far a round moves each tensor.

    Args:
        client: whose defense it is.
        exchange: what was sent.
        names: of the tensors that are compared.
        start: trained parameters before the round, by name.
        state: of the whole model before the round, by the names of its ``state_dict``.
    """

    def __init__(
        self,
        client: Client,
        exchange: Exchange,
        names: Sequence[str],
        start: Mapping[str, Tensor],
        state: Mapping[str, Tensor],
    ) -> None:
        assert client.defense is not None
        self.defense, self.kind, self.names = client.defense, client.sends, tuple(names)
        self.start, self.state = {name: one.detach() for name, one in start.items()}, {**state, **start}
        shared = list(start) if client.shares is None else [name for name in self.state if name in set(client.shares)]
        self.shared = [name for name in shared if name in start] if client.sends == "gradient" else shared
        self.types = {name: exchange.before[name].dtype for name in self.shared if name in exchange.before}
        self.generators = generators_of(client.defense)
        self.own_types, self.detached, self.rounds = False, False, False

    def held(self, moved: Mapping[str, Tensor], state: Mapping[str, Tensor], seed: int = SEED) -> dict[str, Tensor]:
        """Return what is sent, with all draws by a seed; as ``__call__``."""
        with all_drawing(seed, self.generators):
            return self(moved, state)

    def __call__(self, moved: Mapping[str, Tensor], state: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Return the directions that are sent of a round, of the compared tensors by name.

        Args:
            moved: directions of all trained parameters.
            state: buffers after the round.

        Raises:
            UserError: the defense returns something else than what it was given.
            Exception: whatever it raises.
        """
        would = {name: self._would(name, moved, state) for name in self.shared}
        with torch.no_grad() if self.detached else nullcontext():
            given = self.defense({name: self._typed(name, one) for name, one in would.items()})
            self._check(given, would)
        return {name: self._direction(would[name], given[name].to(would[name]), moved[name]) for name in self.names}

    def _would(self, name: str, moved: Mapping[str, Tensor], state: Mapping[str, Tensor]) -> Tensor:
        """Return what would be sent of a tensor without a defense."""
        before = self.start[name] if name in self.start else self.state[name]
        if self.kind == "gradient":
            return moved[name]
        if name in moved and not self.rounds:
            return -moved[name] if self.kind == "delta" else before - moved[name]
        after = (before - moved[name]).to(self.types[name]).to(before) if name in moved else state.get(name, before)
        return after - before if self.kind == "delta" else after

    def _typed(self, name: str, value: Tensor) -> Tensor:
        value = value.detach() if self.detached else value
        # a copy, so that a defense may change what it gets in place
        return value.to(self.types.get(name, value.dtype)).clone() if self.own_types else value.clone()

    def _direction(self, would: Tensor, given: Tensor, moved: Tensor) -> Tensor:
        if self.kind == "gradient":
            return given
        # what nothing was done to keeps every bit
        return -given if self.kind == "delta" else moved + (would - given)

    def _check(self, given: Any, would: Mapping[str, Tensor]) -> None:
        if not isinstance(given, Mapping):
            raise UserError(f"the defense returns a {type(given).__name__} and no tensors by name")
        missing, strange = [n for n in self.names if n not in given], [str(n) for n in given if n not in would]
        if strange:
            raise UserError(f"the defense returns a tensor '{strange[0]}', which it was not given")
        if missing:
            raise UserError(f"the defense returns no '{missing[0]}', which was sent")
        for name in self.names:
            value = given[name]
            if not isinstance(value, Tensor) or value.shape != would[name].shape:
                form = list(value.shape) if isinstance(value, Tensor) else type(value).__name__
                raise UserError(f"the defense returns '{name}' as {form}, of shape {list(would[name].shape)} before")


@dataclass(frozen=True, eq=False)
class Defended:
    """What is known of a defense, so that a round is simulated with it.

    Attributes:
        sender: the defense.
        draws: whether it draws anything, which is then held still.
        added: what these draws add to each tensor, by name; empty for nothing.
        against: directions that the same draws less others add, by which the size of noise that follows the values is
            measured; empty where noise is of one size.
        passed: factors of those entries that a mask which is drawn lets pass, by tensor; empty for no mask.
        straight: tensors whose own derivative says nothing: each entry is followed as if it were passed on.
        signs: those of them of which nothing but signs are left.
        kept: of those whose zeros are not those of entries near zero, which entries were sent: everybody sees
            them, and a search that has to find its own way to them finds none.
        deviations: of each entry that the simulation does not know, by tensor; empty where it knows all.
        drawn: those of them that are noise.
        scale_free: whether all is sent up to a factor that is drawn.
        length: of the update of the experiments, over all tensors.
        shift: what is sent of an update of zero, by name; empty for nothing.
        words: how it is simulated, a sentence without its end.
    """

    sender: Sender = field(repr=False)
    draws: bool = False
    added: Mapping[str, Tensor] = field(default_factory=dict, repr=False)
    against: Mapping[str, Tensor] = field(default_factory=dict, repr=False)
    passed: Mapping[str, float] = field(default_factory=dict)
    straight: frozenset[str] = frozenset()
    signs: frozenset[str] = frozenset()
    kept: Mapping[str, Tensor] = field(default_factory=dict, repr=False)
    deviations: Mapping[str, float] = field(default_factory=dict)
    drawn: Mapping[str, float] = field(default_factory=dict)
    scale_free: bool = False
    length: float = 1.0
    shift: Mapping[str, Tensor] = field(default_factory=dict, repr=False)
    words: str = ""

    def __call__(self, moved: Mapping[str, Tensor], state: Mapping[str, Tensor], soft: float) -> list[Tensor]:
        """Return the directions of the compared tensors, without noise.

        Args:
            moved: directions of all trained parameters.
            state: buffers after the round.
            soft: how much signs are softened, and a slope for what has none; 0 for just what is sent.
        """
        sent = self.known(moved, state)
        if not soft:
            return [sent[name] for name in self.sender.names]
        return [self.sloped(name, sent[name], moved[name], soft) for name in self.sender.names]

    def known(self, moved: Mapping[str, Tensor], state: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Return what is sent without what draws add to it, by name."""
        if self.passed:
            return {name: factor * self.kept[name] * moved[name] for name, factor in self.passed.items()}
        if not self.draws:
            return self.sender(moved, state)
        sent = self.sender.held(moved, state)
        sizes = self._sizes(moved, state, sent) if self.against else {}
        return {
            name: one - sizes.get(name, 1.0) * self.added[name] if self.added else one for name, one in sent.items()
        }

    def of_part(self, moved: Mapping[str, Tensor], state: Mapping[str, Tensor]) -> list[Tensor]:
        """Return what a part of an update, e.g. one sample's gradient, adds to what is sent; no derivative.

        A defense is no sum over parts: the part is sent at the length of a whole update, and made as short again.
        """
        with torch.no_grad():
            size = sqrt(sum(float(one.square().sum()) for one in moved.values())) / self.length
            if not size:
                return [torch.zeros_like(moved[name]) for name in self.sender.names]
            whole = {name: one / size for name, one in moved.items()}
            sent = self.known(whole, state)
            for name in self.kept:  # the part of another sample would be elsewhere
                sent[name] = self.sloped(name, sent[name], whole[name])
        return [size * (sent[name] - self.shift.get(name, 0.0)) for name in self.sender.names]

    def _sizes(
        self, moved: Mapping[str, Tensor], state: Mapping[str, Tensor], sent: Mapping[str, Tensor]
    ) -> dict[str, float]:
        """Return how large noise is beside that of the experiment, by tensor."""
        with torch.no_grad():
            other = self.sender.held({name: one.detach() for name, one in moved.items()}, state, OTHER)
        return {name: share(sent[name].detach() - other[name], self.against[name]) for name in self.against}

    def sloped(self, name: str, sent: Tensor, moved: Tensor, soft: float = SOFT, *, own: bool = False) -> Tensor:
        """Return what is sent of a tensor as a function with a slope.

        Args:
            name: of the tensor.
            sent: what is sent of it.
            moved: what would be.
            soft: how much signs are softened.
            own: whether entries are kept that ``sent`` has, and not those that were really sent.
        """
        if name not in self.straight:
            # what is the same whatever is trained has a slope of zero
            return sent if sent.requires_grad else sent + 0.0 * moved
        like = soft_sign(moved, soft) if name in self.signs else moved
        none = self.shift.get(name, 0.0)
        plain = sent.detach() - none
        if name not in self.kept:
            return none + share(plain, like.detach()) * like
        there = (sent.detach() != 0).to(sent)
        size = share(plain, (there * like).detach())
        return none + size * like * (there if own else self.kept[name])


def share(of: Tensor, along: Tensor) -> float:
    """Return by which factor one tensor comes nearest to another; 0 along zero."""
    length = float(along.square().sum())
    return float((of * along).sum()) / length if length else 0.0


def generators_of(function: Callable[..., Any]) -> list[Any]:
    """Return the generators that a function holds itself: in its closure, defaults, globals or attributes."""
    found: list[Any] = []
    seen: set[int] = set()

    def look(one: Any, depth: int) -> None:
        if id(one) in seen:
            return
        seen.add(id(one))
        if isinstance(one, GENERATORS):
            found.append(one)
        elif depth:
            for inner in _held_by(one):
                look(inner, depth - 1)

    look(function, DEPTH)
    return found


def _held_by(one: Any) -> list[Any]:
    """Return what a function, method, partial, object or collection holds."""
    if isinstance(one, partial):
        return [one.func, *one.args, *one.keywords.values()]
    if inspect.ismethod(one):
        return [one.__self__, one.__func__]
    if inspect.isfunction(one):
        cells = [cell.cell_contents for cell in one.__closure__ or () if _filled(cell)]
        named = [one.__globals__[name] for name in one.__code__.co_names if name in one.__globals__]
        return [*cells, *(one.__defaults__ or ()), *(one.__kwdefaults__ or {}).values(), *named]
    if isinstance(one, Mapping):
        return list(one.values())
    if isinstance(one, list | tuple):
        return list(one)
    return list(vars(one).values()) if hasattr(one, "__dict__") and not inspect.ismodule(one) else []


def _filled(cell: Any) -> bool:
    try:
        return cell.cell_contents is not cell
    except ValueError:
        return False
