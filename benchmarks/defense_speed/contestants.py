"""Which defenses are measured, and how they are made."""

from collections.abc import Callable

from speed.contestants import OURS, Contestant

from defense_speed.loops import GradDefenseLoop, SoteriaLoop
from leaklab.defenses.base import Defense
from leaklab.records import plugins

Make = Callable[[], Defense]


def _plugin(name: str, **settings: object) -> Make:
    return lambda: plugins.load("defenses", name, settings)


LOOPS: dict[str, Make] = {
    "soteria-loop": lambda: SoteriaLoop(0.5),
    "grad-defense-loop": lambda: GradDefenseLoop(root_samples=8),
}
MADE: dict[str, Make] = {
    OURS: _plugin("none"),
    "gradient-compression": _plugin("gradient-compression", dropped=0.8),
    "laplace-noise": _plugin("laplace-noise"),
    "outpost": _plugin("outpost"),
    "soteria-probes": _plugin("soteria-probes"),
    "grad-defense": _plugin("grad-defense", root_samples=8),
    "soteria": _plugin("soteria", pruned=0.5),
    **LOOPS,
}
WHAT = {
    OURS: "no defense: what the others are multiples of",
    "soteria": "exact, many backward passes at once; one step",
    "soteria-loop": "exact, one backward pass per feature, as published; one step",
    "grad-defense-loop": "samples and entries one by one, as published; one step",
}
# those whose step is so dear that few are done
SLOW = ("soteria", *LOOPS)
CONTESTANTS = tuple(Contestant(name, "worker", WHAT.get(name, f"the plug-in {name}")) for name in MADE)
