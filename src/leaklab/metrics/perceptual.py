"""Learned perceptual image patch similarity, LPIPS v0.1 (Zhang et al., CVPR 2018), shared by its three networks.

The linear heads ship with the ``lpips`` package; the backbones are fetched and checked by ``data/download.py``.
"""

import warnings
from dataclasses import dataclass
from functools import cache
from typing import Any, ClassVar

import torch
from torch import Tensor
from torch.nn.functional import interpolate

from leaklab.data.download import describe_weights, weights_path, why_unavailable
from leaklab.metrics.base import Metric, MetricCard

SMALLEST_SIDE = 32
IMAGES_PER_PASS = 32


@dataclass(frozen=True)
class PerceptualDistance(Metric):
    """LPIPS with one backbone; a subclass names it.

    Attributes:
        net: the backbone's name in the ``lpips`` package.
        weights: its name in ``config/weights.yaml``.
    """

    net: ClassVar[str]
    weights: ClassVar[str]

    @property
    def card(self) -> MetricCard:
        """Return the metric card."""
        return MetricCard(
            name=f"lpips_{self.net}",
            unit="",
            better="higher",
            domain="[0, 1]",
            peak=None,
            clamping="reconstruction clamped to [0, 1]",
            network=f"{describe_weights(self.weights).title}, LPIPS v0.1 heads",
            input_range="[-1, 1]",
            note=f"gray repeated to three channels; sides below {SMALLEST_SIDE} pixels enlarged to {SMALLEST_SIDE} "
            "(bilinear); distances of different networks are not comparable",
        )

    def available(self) -> str | None:
        """Return why the backbone's weights cannot be had, or None; fetches them if need be."""
        return why_unavailable(self.weights)

    def values(self, reconstruction: Tensor, truth: Tensor) -> Tensor:
        """Return the LPIPS distance of each image, [N], 0 for equal images.

        Raises:
            UserError: the backbone's weights cannot be had or are damaged.
        """
        pairs = zip(torch.split(reconstruction, IMAGES_PER_PASS), torch.split(truth, IMAGES_PER_PASS), strict=True)
        with torch.no_grad():
            found = [self.distances(guess, original) for guess, original in pairs]
        return torch.cat(found).double().cpu()

    def distances(self, reconstruction: Tensor, truth: Tensor) -> Tensor:
        """Return the same on the images' device, with derivatives: float32, [N].

        Raises:
            UserError: see ``values``.
        """
        network = _network(self.net, self.weights, truth.device)
        found: Tensor = network(_prepared(reconstruction), _prepared(truth)).flatten()
        return found


def _prepared(images: Tensor) -> Tensor:
    """Return images [N, 1 or 3, H, W] of [0, 1] as the networks want them: float32, three channels, [-1, 1]."""
    height, width = (max(side, SMALLEST_SIDE) for side in images.shape[-2:])
    prepared = images.float().clamp(0, 1).expand(-1, 3, -1, -1)
    if prepared.shape[-2:] != (height, width):
        prepared = interpolate(prepared, size=(height, width), mode="bilinear", align_corners=False)
    return 2 * prepared - 1


@cache
def _network(net: str, weights: str, device: torch.device) -> Any:
    # weights_path has checked the file against its published checksum; weights_only runs no code
    state = torch.load(weights_path(weights), map_location="cpu", weights_only=True)
    # the package draws an initialisation from the global generator, and torchvision grumbles about its old keyword
    with torch.random.fork_rng(devices=[]), warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        import lpips  # slow to import

        network = lpips.LPIPS(net=net, pnet_rand=True, verbose=False)
    # "slice2.3.weight" of the package is "features.3.weight" of torchvision
    backbone = {name: state[f"features.{name.split('.', 1)[1]}"] for name in network.net.state_dict()}
    network.net.load_state_dict(backbone, strict=True)
    return network.eval().requires_grad_(False).to(device)


# LPIPS v0.1 with the AlexNet backbone.


@dataclass(frozen=True)
class LpipsAlex(PerceptualDistance):
    """LPIPS-Alex; see ``PerceptualDistance``."""

    net: ClassVar[str] = "alex"
    weights: ClassVar[str] = "alexnet"


# LPIPS v0.1 with the VGG-16 backbone.


@dataclass(frozen=True)
class LpipsVgg(PerceptualDistance):
    """LPIPS-Vgg; see ``PerceptualDistance``."""

    net: ClassVar[str] = "vgg"
    weights: ClassVar[str] = "vgg16"


# LPIPS v0.1 with the SqueezeNet 1.1 backbone.


@dataclass(frozen=True)
class LpipsSqueeze(PerceptualDistance):
    """LPIPS-Squeeze; see ``PerceptualDistance``."""

    net: ClassVar[str] = "squeeze"
    weights: ClassVar[str] = "squeezenet1.1"


PLUGINS = {
    "lpips-alex": LpipsAlex,
    "lpips-squeeze": LpipsSqueeze,
    "lpips-vgg": LpipsVgg,
}
