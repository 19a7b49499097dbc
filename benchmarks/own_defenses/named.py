"""The attackers of the house that were made for its defenses by name, in the arena of guests."""

from collections.abc import Iterator

from leaklab.attacks.adaptive.base import InformedTransform
from leaklab.attacks.annealed import AnnealedLikelihood, AnnealedMap
from leaklab.attacks.matching.distances import OnlyWidened
from leaklab.guests.exposure import Attacker, Exposure
from leaklab.observations.base import Knowledge
from leaklab.records import plugins

TRANSFORMS = {
    "base:NoDefense": ("none", ("none",)),
    "lrp:LearningRatePerturbation": ("lrp", ("profiled-scale",)),
    "lrp:LocalStepPerturbation": ("lsp", ("profiled-scale",)),
    "lrp:HiddenClassifier": ("hide-classifier", ("none",)),
    "noise:AdditiveNoise": ("additive-noise", ("matched-noise",)),
    "noise:LaplaceNoise": ("laplace-noise", ("matched-laplace",)),
    "noise:GradientClipping": ("gradient-clipping", ("clip-emulation",)),
    "noise:ClippingNoise": ("clipping-noise", ("matched-noise",)),
    "dp_sgd:DpSgd": ("dp-sgd", ("matched-dp-sgd",)),
    "outpost:GradientCompression": ("gradient-compression", ("ranked-mixture", "support-only")),
    "outpost:Outpost": ("outpost", ("ranked-mixture",)),
    "soteria:Soteria": ("soteria", ("masked-columns", "muted-layer")),
    "grad_defense:GradDefense": ("grad-defense", ("sliced-mixture",)),
}
"""Defense, as ``sources`` calls it -> its plug-in, and the transforms that know it; the strongest of them counts."""


def named(name: str, exposure: Exposure) -> Iterator[Attacker]:
    """Yield the attackers who were told which defense it is."""
    defense, transforms = TRANSFORMS[name]
    facts = {"defense": {"name": defense, "settings": {}}, "local_steps": 1, "batch_size": 1}
    for one in transforms:
        transform = plugins.load("attacks/adaptive", one, {}) if one != "none" else None
        if isinstance(transform, InformedTransform):
            transform = transform.informed(Knowledge("guest", facts))
        distance = transform.distance if transform else None
        search = AnnealedLikelihood() if isinstance(distance, OnlyWidened) else AnnealedMap()
        yield Attacker("named", one, search, distance)
