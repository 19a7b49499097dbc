"""The Gaussians of public classes, each fitted when it is first asked for: the prior of somebody who reads one update.

The prior is that of ``class_gaussian`` with one component per pixel, in other coordinates: a latent is multiplied with
the triangular root of the covariance in place of its principal components. Both roots differ by a rotation, under which
N(0, 1) stays as it is, and so does the path of L-BFGS from the mean; what is drawn from a seed differs.

It is fast because nothing is rounded before the end. Public images are bytes, so their products are summed as whole
numbers: in float32 blocks, small enough to be exact, or by the processor's products of bytes where torch has them for
it. Then one Cholesky factor takes the place of all eigenvectors.
"""

from collections.abc import Callable
from copy import copy
from math import prod
from typing import Any

import torch
from torch import Tensor

from leaklab.models.generators.base import Generator
from leaklab.models.generators.class_gaussian import MOST_PIXELS, ClassGaussianGenerator
from leaklab.records.errors import UserError
from leaklab.records.streams import stream

BRIGHTEST, MIDDLE = 255, 128
BLOCK = 256
"""Rows whose products of bytes, at most 255^2 each, have sums below 2^24, which float32 holds exactly."""
BLOCK_OF_SUMS = 2**24 // BRIGHTEST
"""The same for bytes."""
MOST_ROWS = 2**31 // MIDDLE**2 - 1
"""The same for products of signed bytes and int32."""
CHECKS = 8
"""Columns of signs; a wrong sum is right by all of them once in 2^8 times, and saturation makes many wrong ones."""


class GaussiansOnDemand(ClassGaussianGenerator):
    """The mean of a class plus a triangular factor times the latent; the images may leave [0, 1].

    Attributes:
        floor: standard deviation, on the [0, 1] scale, that is added to every direction.
        per_class: public images of each class, the first ones; 0 for all.

    Copies share what was fitted. It has no weights to be kept in a file: fitting a class anew costs less than reading
    and checking one.
    """

    _like: Tensor

    def __init__(
        self, images: Tensor, labels: Tensor, num_classes: int, floor: float = 0.02, per_class: int = 2000
    ) -> None:
        """Remember the public images; nothing is fitted yet.

        Args:
            images: uint8 [N, C, H, W].
            labels: int64 [N].
            num_classes: K.
            floor: standard deviation, on the [0, 1] scale, that is added to every direction; positive.
            per_class: public images of each class, the first ones; 0 for all. More than some thousands take longer to
                be read than they save in a search.

        Raises:
            UserError: images are no bytes or too large, the floor is not positive, or ``per_class`` is negative.
        """
        shape = tuple(images.shape[1:])
        if per_class < 0:
            raise UserError(f"{per_class} public images of each class: give a number above 0, or 0 for all")
        if images.dtype != torch.uint8 or prod(shape) > MOST_PIXELS or floor <= 0:
            raise UserError(
                f"public images of bytes, of at most {MOST_PIXELS} numbers, and a floor above 0 make this prior, not "
                f"{images.dtype} of {prod(shape)} numbers and {floor}: use generator class-gaussian"
            )
        Generator.__init__(self, prod(shape), num_classes, (shape[0], shape[1], shape[2]))
        self.floor, self.per_class, self._images, self._labels = floor, per_class, images, labels
        self._parts: dict[tuple[str, int, torch.dtype, torch.device], Tensor] = {}
        self.register_buffer("_like", torch.zeros(0))
        self.frozen()

    def __deepcopy__(self, memo: dict[int, Any]) -> "GaussiansOnDemand":
        """Return a copy with a dtype and a device of its own; the public images and what was fitted stay shared."""
        other = copy(self)
        other._buffers = dict(self._buffers)
        return other

    @property
    def mean(self) -> Tensor:  # type: ignore[override]
        """The means of all classes, [K, pixels]."""
        return torch.stack([self.mean_of(k) for k in range(self.num_classes)])

    def forward(self, latents: Tensor, classes: Tensor) -> Tensor:
        """[N, d], [N, K] -> [N, C, H, W]; differentiable in the latents."""
        flat = latents.new_zeros(len(latents), self.latent_size)
        for k in classes.any(0).nonzero()[:, 0].tolist():
            rows = classes[:, k].nonzero()[:, 0]
            own = self.mean_of(k) + latents[rows] @ self.factor_of(k).T
            flat = flat.index_add(0, rows, classes[rows, k, None] * own)
        return flat.view(-1, *self.image_shape)

    def mean_of(self, label: int) -> Tensor:
        """Return the mean of a class: [pixels].

        Raises:
            UserError: it has no public image.
        """
        return self._fitted("mean", label, lambda: self._mean(self._of_class(label, 1)))

    def factor_of(self, label: int) -> Tensor:
        """Return the triangular root of the covariance of a class, the floor added: [pixels, d].

        Raises:
            UserError: it has fewer than two public images.
        """
        return self._fitted("factor", label, lambda: self._root(self._of_class(label, 2)))

    def _mean(self, own: Tensor) -> Tensor:
        return column_sums(own) / (len(own) * BRIGHTEST)

    def _root(self, own: Tensor) -> Tensor:
        sums, number = column_sums(own), len(own)
        covariance = (gram(own) - torch.outer(sums, sums) / number) / ((number - 1) * BRIGHTEST**2)
        covariance.diagonal().add_(self.floor**2)
        root: Tensor = torch.linalg.cholesky(covariance)
        return root

    def _of_class(self, label: int, least: int) -> Tensor:
        places = (self._labels == label).nonzero()[: self.per_class or None, 0]
        own = self._images.flatten(1).index_select(0, places)
        if len(own) < least:
            raise UserError(
                f"the Gaussian of class {label} needs {least} public images, not {len(own)}: choose another data set"
            )
        return own

    def _fitted(self, name: str, label: int, fit: Callable[[], Tensor]) -> Tensor:
        """Return a part of a class in the generator's dtype and on its device; fitted and converted once."""
        wanted = (name, label, self._like.dtype, self._like.device)
        if wanted not in self._parts:
            # always from float64, so that numbers do not depend on who asked before
            whole = (name, label, torch.float64, self._images.device)
            if whole not in self._parts:
                self._parts[whole] = fit()
            self._parts[wanted] = self._parts[whole].to(self._like)
        return self._parts[wanted]


def column_sums(rows: Tensor) -> Tensor:
    """Return the sums of the columns of bytes [N, P], float64 [P], without any rounding."""
    blocks = (block.float().sum(0) for block in torch.split(rows, BLOCK_OF_SUMS))
    return torch.stack(list(blocks)).double().sum(0)


def gram(rows: Tensor) -> Tensor:
    """Return the products of the columns of bytes [N, P] with each other, float64 [P, P], without any rounding."""
    if rows.device.type == "cpu" and has_products_of_bytes():
        found = _by_bytes(rows)
        # some processors saturate pairs of such products: then the other way is taken
        if _is_right(found, rows):
            return found
    return _by_floats(rows)


def has_products_of_bytes() -> bool:
    """Tell whether the processor has instructions for them; torch without them takes twenty times as long as floats."""
    known = getattr(torch.cpu, "_is_vnni_supported", None)
    return hasattr(torch, "_int_mm") and known is not None and bool(known())


def _by_bytes(rows: Tensor) -> Tensor:
    """Sum products of signed bytes, x - 128, as whole numbers."""
    total = torch.zeros(rows.shape[1], rows.shape[1], dtype=torch.float64, device=rows.device)
    for block in torch.split(rows, MOST_ROWS):
        signed = (block ^ MIDDLE).view(torch.int8)
        sums = column_sums(block)
        # x y = (x - m)(y - m) + m x + m y - m^2
        total += torch._int_mm(signed.T, signed)
        total += MIDDLE * (sums[:, None] + sums) - len(block) * MIDDLE**2
    return total


def _is_right(found: Tensor, rows: Tensor) -> bool:
    """Tell whether X' X = ``found`` by the products of X with columns of signs, which float32 holds exactly."""
    signs = (2 * stream(0, "gram").integers(0, 2, rows.shape[1] * CHECKS) - 1).view(-1, CHECKS).double()
    seen = (rows.float() @ signs.float()).double()
    return torch.equal(seen.T @ seen, signs.T @ found @ signs)


def _by_floats(rows: Tensor) -> Tensor:
    """Sum products in float32, over so few rows at once that it is exact."""
    total = torch.zeros(rows.shape[1], rows.shape[1], dtype=torch.float64, device=rows.device)
    for block in torch.split(rows, BLOCK):
        floats = block.float()
        total += floats.T @ floats
    return total
