"""What numbers are made of, so that a sum of several knows which of them share their chance.

Of two terms with the same updates the difference is taken update by update (paired); terms of different updates, or of
different data sets, are independent, and what lies between each and its ends adds in squares; of all others nothing is
known, so their ends are taken together.
"""

import math
import re
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from leaklab.metrics.statistics import summarise


@dataclass(frozen=True)
class Term:
    """A number that was measured, times a factor.

    Attributes:
        below: from the lower end to the number.
        above: from the number to the upper end.
        origin: names the data behind it; empty where that is not known.
        values: of each update, whose mean the number is; None where they are not published.
    """

    below: float
    above: float
    origin: str = ""
    values: Mapping[Hashable, float] | None = None

    def times(self, factor: float) -> "Term":
        """Return the term of a multiple of the number."""
        gaps = (self.below, self.above) if factor > 0 else (self.above, self.below)
        values = None if self.values is None else {key: factor * value for key, value in self.values.items()}
        return replace(self, below=abs(factor) * gaps[0], above=abs(factor) * gaps[1], values=values)

    def apart_from(self, other: "Term") -> bool:
        """Return whether two terms are surely independent."""
        if self.origin and other.origin and self.origin != other.origin:
            return True
        if self.values is None or other.values is None:
            return False
        return self.values.keys().isdisjoint(other.values)

    def same_updates(self, other: "Term") -> bool:
        """Return whether both are of the same updates of the same data."""
        known = self.values is not None and other.values is not None
        return known and self.origin == other.origin and self.values.keys() == other.values.keys()  # type: ignore[union-attr]

    def paired_with(self, other: "Term") -> "Term":
        """Return the term of the sum, update by update."""
        assert self.values is not None and other.values is not None  # noqa: PT018
        values = {key: value + other.values[key] for key, value in self.values.items()}
        summary = summarise(np.array(list(values.values())))
        reach = math.inf if summary.ci_high is None else summary.ci_high - summary.mean
        return Term(reach, reach, self.origin, values)


def added(terms: Sequence[Term]) -> tuple[Term, ...]:
    """Return the terms of a sum, those of the same updates as one."""
    found: list[Term] = []
    for term in terms:
        place = next((place for place, own in enumerate(found) if own.same_updates(term)), None)
        if place is None:
            found.append(term)
        else:
            found[place] = found[place].paired_with(term)
    return tuple(found)


def reach_of(terms: Sequence[Term]) -> tuple[float, float]:
    """Return how far a sum of terms reaches below and above its number.

    Parts that may share their chance, directly or by way of others, are taken together: their gaps add. Groups that
    are independent of each other add in squares.
    """
    groups: list[list[Term]] = []
    for term in terms:
        tied = [group for group in groups if not all(term.apart_from(own) for own in group)]
        groups = [group for group in groups if group not in tied] + [[term, *(own for group in tied for own in group)]]
    below, above = ([math.fsum(getattr(one, side) for one in group) for group in groups] for side in ("below", "above"))
    return math.hypot(*below), math.hypot(*above)


# Words for people in place of the keys of a row: ``csDLG, EMNIST, OUTPOST, 2 images`` for ``csdlg emnist outpost 2``.

NAMES: Mapping[str, str] = {
    "mnist": "MNIST", "fashion-mnist": "Fashion-MNIST", "emnist": "EMNIST", "femnist": "FEMNIST", "lfw": "LFW",
    "cifar10": "CIFAR-10", "cifar100": "CIFAR-100", "cinic10": "CINIC-10", "imagenet": "ImageNet",
    "tiny-imagenet": "Tiny ImageNet",
    "dlg": "DLG", "idlg": "iDLG", "csdlg": "csDLG", "ig": "IG", "ggl": "GGL", "tag": "TAG", "rog": "ROG",
    "delta-dlg": "delta DLG", "delta-ig": "delta IG", "annealed-map": "annealed MAP", "annealed-sum": "annealed sum",
    "annealed-likelihood": "annealed likelihood", "first-layer": "first layer", "support-quotient": "support quotient",
    "none": "no defense", "lrp": "LRP", "ada-lrp": "ada-LRP", "outpost": "OUTPOST",
    "outpost-strong": "OUTPOST with five times the noise", "dp": "Laplace noise", "gc": "compression",
    "soteria": "Soteria", "graddefense": "GradDefense", "grad-defense": "GradDefense",
    "gradient-compression": "compression", "gradient-clipping": "clipping", "clipping-noise": "clipping with noise",
    "clip-noise": "clipping with noise", "dp-sgd": "DP-SGD", "clipping+noise": "clipping with noise",
    "additive-noise": "noise", "laplace": "Laplace noise", "bsp": "BSP",
    "lsp": "LSP",
    "fedavg": "FedAvg", "hyperfl": "HyperFL", "hyperfl-lpm": "HyperFL-LPM", "pfedhn": "pFedHN",
    "pfedhn-pc": "pFedHN-PC", "dp-fedavg": "DP-FedAvg", "ppsgd": "PPSGD", "centaur": "CENTAUR",
    "local-only": "training alone", "vanilla": "vanilla averaging", "vanilla-scheme1": "vanilla scheme I",
    "vanilla-scheme2": "vanilla scheme II",
    "mlp": "MLP", "cnn": "CNN", "lenet": "LeNet", "logistic-regression": "logistic regression", "vit": "ViT",
    "resnet": "ResNet", "resnet18": "ResNet-18", "resnet152": "ResNet-152",
    "iid": "IID data", "non-iid": "non-IID data", "dirichlet-0.5": "Dirichlet (0.5)", "writer": "by writer",
    "adam": "Adam", "sgd": "SGD",
    "mse": "MSE", "mse_r": "MSE-R", "mse_unit": "MSE on [0, 1]", "psnr": "PSNR", "ssim": "SSIM", "lpips": "LPIPS",
    "mean-image": "mean image", "unrelated-image": "another image", "same-class-image": "another image of the class",
    "class-mean": "mean of the class", "frequent-words": "frequent words", "unrelated-sentence": "another sentence",
    "cola": "CoLA", "digits": "digits", "printed-sentences": "the printed sentences",
    "profiled-tag": "TAG with a free scale", "token-order": "linear equations",
    "each-class": "a covariance of each class", "all-classes": "one covariance of all classes",
    "lpips_vgg": "LPIPS-VGG", "lpips_alex": "LPIPS-ALEX", "test_accuracy_top1": "top-1 accuracy",
    "test_accuracy_top5": "top-5 accuracy",
}  # fmt: skip
"""Name in a row -> how it is written."""
IN_STAND_INS: Mapping[str, str] = {
    "imagenet-validation": "ImageNet's validation images", "emnist-byclass": "EMNIST by class",
    "cifar100-pretraining": "the other half of CIFAR-100", "resnet-small": "a small ResNet", "resnet-18": "ResNet-18",
    "resnet-152": "ResNet-152", "resnet-small-adapted": "a small ResNet with adapters",
    "resnet-18-adapted": "ResNet-18 with adapters", "vit-adapted": "ViT with adapters", "vit": "ViT",
    "dlg-lenet": "DLG's LeNet", "cnn-mnist": "a CNN", "conditional-gan": "a conditional GAN",
    "class-gaussian": "a Gaussian of each class", "biggan-deep": "BigGAN-deep", "lpips-squeeze": "LPIPS-Squeeze",
    "lpips-vgg": "LPIPS-VGG",
}  # fmt: skip
"""Names of data sets, networks and metrics in the texts of stand-ins, beside those that rows have."""
KEYS_OF_STAND_INS = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)*")
COUNTED: Mapping[str, str] = {
    "n": "images", "E": "epochs", "clients": "clients", "rounds": "rounds", "steps": "steps",
    "summed": "clients in a sum", "classes": "classes", "hidden": "hidden units", "units": "hidden units",
    "images": "images", "public": "public images of a class",
}  # fmt: skip
"""Keys whose number comes first: ``2 images``."""
NUMBERED: Mapping[str, str] = {"B": "batch size", "batch": "batch size", "K": "clients a round", "N": "clients",
                                "index": "strength"}  # fmt: skip
"""Keys with another name before their number; the points of a trade-off are those of a defense's strength."""
SINGULAR: Mapping[str, str] = {
    "images": "image", "epochs": "epoch", "clients": "client", "rounds": "round", "steps": "step", "classes": "class",
    "public images of a class": "public image of a class",
    "clients in a sum": "client in a sum", "hidden units": "hidden unit",
}  # fmt: skip
LAST = ("scenario", "n", "E", "B", "batch", "steps")
"""Keys that come after what was attacked, by whom and how."""


def stand_in_in_words(text: str) -> str:
    """Return what stands in for something: ``Fashion-MNIST in place of ImageNet's validation images``."""
    if " in place of " not in text and not text.startswith("backbone "):
        return text
    known = {**NAMES, **IN_STAND_INS}
    return KEYS_OF_STAND_INS.sub(lambda found: known.get(found[0], found[0]), text)


def name_in_words(name: str) -> str:
    """Return how a name is written; of an attack with its transforms, ``csdlg, masked columns``, the first part."""
    first, comma, rest = name.partition(", ")
    return f"{NAMES.get(first, first)}{comma}{rest}"


def key_in_words(key: str, value: Any) -> str:
    """Return one key with its value: ``2 images``, ``MNIST``, ``perturbation false``."""
    if isinstance(value, bool):
        return f"{'' if value else 'no '}{_spaced(key)}"
    if isinstance(value, str):
        return name_in_words(value)
    shown = f"{value:.4g}" if isinstance(value, float) else str(value)
    if key in COUNTED:
        return f"{shown} {SINGULAR[COUNTED[key]] if shown == '1' else COUNTED[key]}"
    return f"{NUMBERED.get(key, _spaced(key))} {shown}"


def key_name(key: str) -> str:
    """Return a key as a heading: ``batch size`` for ``B``."""
    return COUNTED.get(key) or NUMBERED.get(key, _spaced(key))


def in_words(row: Mapping[str, Any]) -> str:
    """Return a row's keys in words, numbers of the setting last: ``csDLG, EMNIST, OUTPOST, 2 images``."""
    ordered = sorted(row, key=lambda key: LAST.index(key) if key in LAST else -1)
    return ", ".join(key_in_words(key, row[key]) for key in ordered)


def bracketed(words: str) -> str:
    """Return words such as ``EMNIST, 20 clients, LRP`` as they stand in a list: ``EMNIST (20 clients, LRP)``."""
    first, comma, rest = words.partition(", ")
    return f"{first} ({rest})" if comma else first


def _spaced(key: str) -> str:
    return key.replace("_", " ")
