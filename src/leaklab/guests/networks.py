"""The network that server and clients train: one of an arena's, or what a guest's hook ``network`` makes of it.

Attackers build a network by the name of a plug-in. So that they can build a guest's, one plug-in more is offered in the
process that imported it, a child: ``GuestNetwork``, whose one setting says which of the networks that were made there.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import torch
from torch import nn

from leaklab.defenses.base import loaded
from leaklab.guests.calls import Subject, has
from leaklab.guests.files import blamed
from leaklab.guests.moments import Ground, Stage, tiny
from leaklab.guests.returned import checked_network
from leaklab.guests.situation import Situation
from leaklab.models.base import Architecture, Shape
from leaklab.records import plugins

GUEST = "guest-network"
BATCHES = (1, 4)
_BUILDERS: list[Callable[[], nn.Sequential]] = []


@dataclass(frozen=True)
class GuestNetwork(Architecture):
    """A network that a guest's hook made in this process.

    Attributes:
        number: which one.
        initialisation: asked of every model; these bring their initial weights along.
    """

    number: int = 0
    initialisation: str = "pytorch"

    def build(self, input_shape: Shape, num_classes: int) -> nn.Sequential:
        """Return the network in float32, for images and classes of the arena; see ``Architecture.build``."""
        return _BUILDERS[self.number]().float()


def stage_of(subject: Subject, arena: Ground, network: str, dtype: torch.dtype = torch.float64, seed: int = 0) -> Stage:
    """Return the network that is trained, with the weights that the server sends.

    Where the guest has a hook ``network``, it is given that of the arena with its weights. Weights of a new layer are
    those that the hook gives it; they are public, as all that a server sends.

    Raises:
        UserError: the hook fails, or returns what cannot be trained.
    """
    given = arena.stage(network, dtype, seed)
    if not has(subject.new(), "network"):
        return given
    images = arena.public.images[: max(BATCHES)].to(dtype)

    def build() -> nn.Sequential:
        with torch.random.fork_rng(devices=()), blamed(subject.guest.file, "it changes the network"):
            torch.manual_seed(seed)  # only in a child: new layers draw their weights from it
            found = subject.new().network(loaded(given.build, given.weights))  # type: ignore[attr-defined]
            return checked_network(subject.guest.file, found, images, arena.classes)

    weights = {name: value.detach().clone() for name, value in build().named_parameters()}
    return Stage(build, weights, _offered(build))


def _offered(build: Callable[[], nn.Sequential]) -> Mapping[str, Any]:
    """Return plug-in and settings by which attackers in this process build a network."""
    offers = cast("dict[str, plugins.Offer]", plugins.offers("models"))
    offers.setdefault(GUEST, plugins.Offer(Path(__file__), GuestNetwork.__name__))
    _BUILDERS.append(build)
    return {"name": GUEST, "settings": {"number": len(_BUILDERS) - 1}}


def moments(subject: Subject, dtype: torch.dtype) -> Iterator[Situation]:
    """Yield a moment for each network and size of batch.

    Raises:
        UserError: see ``stage_of``.
    """
    arena = tiny()
    public = arena.public
    for network in arena.file.networks:
        for size in BATCHES:
            yield stage_of(subject, arena, network, dtype).moment(public.images[:size].to(dtype), public.labels[:size])


PLUGIN: type[Architecture] = GuestNetwork
"""By this name it is loaded; no item can name it, as it stands in no room of models."""
