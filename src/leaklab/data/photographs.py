"""Photographs that stay in their files until a batch asks for them: ImageNet at full size does not fit into memory.

What is prepared of such a data set is a list of its files with the checksum of each. A file is opened when a batch, or
a test, wants its image, and refused if it is another file by then.
"""

import hashlib
import io
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from leaklab.data.readers.base import DAMAGE
from leaklab.data.tree import BYTES, shown
from leaklab.records.errors import UserError
from leaklab.records.streams import Stream

CHANNELS = 3
BRIGHTEST = 255
ADVICE = "unpack it again, or prepare the data set anew"
POOL = ThreadPoolExecutor()
"""Files are read and decoded side by side: both leave the interpreter to others meanwhile."""


class Windows(Protocol):
    """An augmentation that chooses a part of each photograph before it is shrunk."""

    def windows(self, sizes: Tensor, draws: Stream) -> tuple[Tensor, Tensor]:
        """Return left, top, right and bottom of a part of each, [B, 4] in pixels, and which are mirrored, bool [B].

        Args:
            sizes: width and height of each photograph, int64, [B, 2].
            draws: source of all random choices.
        """
        ...


@dataclass(frozen=True, eq=False)
class Photographs:
    """Some or all photographs of a part of a data set, in the place of a tensor [n, 3, side, side].

    Attributes:
        folder: that the names are relative to.
        names: of all files of the part.
        sums: their SHA-256 in bytes, uint8, [N, 32].
        side: height and width in pixels of what is made of a photograph.
        shorter: to so many pixels the shorter side is shrunk before the middle square is taken, where no part is drawn.
        places: positions of those that it stands for, [n].
        device: where batches go.
        dtype: of their numbers.
        moments: mean and standard deviation of each channel, by which they are normalised; None: they are not yet.
    """

    folder: Path
    names: Sequence[str]
    sums: Tensor
    side: int
    shorter: int
    places: Tensor
    device: torch.device = field(default_factory=lambda: torch.device("cpu"))
    dtype: torch.dtype = torch.float32
    moments: tuple[Tensor, Tensor] | None = None

    @classmethod
    def of(cls, folder: Path, tensors: Mapping[str, Tensor], part: str, made: Mapping[str, Any]) -> "Photographs":
        """Return those of a part from the tensors of a prepared data set; see ``listed``."""
        names = bytes(tensors[f"{part}_names"].numpy()).decode(errors=BYTES).split("\n")
        sums = tensors[f"{part}_sums"]
        return cls(folder, names, sums, int(made["side"]), int(made["shorter"]), torch.arange(len(sums)))

    def __len__(self) -> int:
        return len(self.places)

    def __getitem__(self, chosen: Tensor) -> "Photographs":
        """Return some of them; nothing is opened."""
        return replace(self, places=self.places[chosen.cpu()])

    @property
    def shape(self) -> tuple[int, int, int, int]:
        """Of the tensor in whose place they stand."""
        return len(self), CHANNELS, self.side, self.side

    @property
    def identity(self) -> Tensor:
        """What tells them from others: the checksums of their files, uint8, [n, 32]."""
        return self.sums[self.places]

    def to(self, device: torch.device | str) -> "Photographs":
        """Return the same ones, whose batches go to another device."""
        return replace(self, device=torch.device(device))

    def normalised(self, mean: Tensor, std: Tensor, dtype: torch.dtype) -> "Photographs":
        """Return the same ones, whose batches are (x / 255 - mean) / std per channel."""
        return replace(self, moments=(mean, std), dtype=dtype)

    def split(self, size: int) -> Iterator[Tensor]:
        """Yield the middle squares of all, ``size`` at a time, normalised: [size, 3, side, side]."""
        for part in torch.split(torch.arange(len(self)), size):
            yield self.opened(part)

    def opened(self, chosen: Tensor, augmentation: Any = None, draws: Stream | None = None) -> Tensor:
        """Return photographs as a batch has them, normalised: [B, 3, side, side].

        Args:
            chosen: positions among these, [B].
            augmentation: one with ``windows`` chooses a part of each photograph; any other one, and none, gets the
                middle squares, and changes these.
            draws: of the augmentation; needed with one.

        Raises:
            UserError: a file is missing, is no image, or is another one than was prepared.
        """
        images = list(POOL.map(self._read, self.places[chosen.cpu()].tolist()))
        if draws is None or not hasattr(augmentation, "windows"):
            found = self._numbers(POOL.map(self._middle, images))
            return found if draws is None or augmentation is None else augmentation.apply(found, draws)
        boxes, mirrored = augmentation.windows(torch.tensor([image.size for image in images]), draws)
        made = self._numbers(POOL.map(self._window, images, boxes.tolist()))
        return torch.where(mirrored.to(self.device)[:, None, None, None], made.flip(3), made)

    def _read(self, place: int) -> Image.Image:
        path = self.folder / self.names[place]
        try:
            content = path.read_bytes()
        except OSError as error:
            raise UserError(f"{shown(path)} cannot be read ({error.strerror}): {ADVICE}") from None
        if hashlib.sha256(content).digest() != bytes(self.sums[place].numpy()):
            raise UserError(f"{shown(path)} is another file than the one that was prepared: {ADVICE}")
        try:
            return Image.open(io.BytesIO(content)).convert("RGB")
        except DAMAGE as error:
            raise UserError(f"{shown(path)} cannot be read as an image ({error}): {ADVICE}") from None

    def _middle(self, image: Image.Image) -> Tensor:
        width, height = image.size
        factor = self.shorter / min(width, height)
        shrunk = max(self.side, round(factor * width)), max(self.side, round(factor * height))
        whole = image.resize(shrunk, Image.Resampling.BILINEAR) if shrunk != image.size else image
        left, top = ((length - self.side) // 2 for length in whole.size)
        return _pixels(whole.crop((left, top, left + self.side, top + self.side)))

    def _window(self, image: Image.Image, box: Sequence[float]) -> Tensor:
        left, top, right, bottom = box
        return _pixels(image.resize((self.side, self.side), Image.Resampling.BILINEAR, (left, top, right, bottom)))

    def _numbers(self, pictures: Iterator[Tensor]) -> Tensor:
        unit = torch.stack(list(pictures)).to(self.device, self.dtype) / BRIGHTEST
        if self.moments is None:
            return unit
        mean, std = (value.to(self.device, self.dtype)[:, None, None] for value in self.moments)
        return (unit - mean) / std


def _pixels(image: Image.Image) -> Tensor:
    return torch.from_numpy(np.asarray(image).transpose(2, 0, 1).copy())


Images = Tensor | Photographs
"""Images of a part: in memory, uint8 or normalised [N, C, H, W], or in their files."""


def in_memory(images: Images) -> Tensor:
    """Return images that are in memory.

    Raises:
        UserError: they are in their files.
    """
    if isinstance(images, Photographs):
        raise UserError(
            f"the photographs of {images.folder} stay in their files, for trainings alone: take a data set that is "
            "read as a whole"
        )
    return images


def parts_of(images: Images, size: int) -> Iterable[Tensor]:
    """Return images, ``size`` at a time; photographs are opened as they are asked for."""
    return images.split(size) if isinstance(images, Photographs) else torch.split(images, size)


def identity_of(images: Images) -> Tensor:
    """Return what tells images from others: themselves, or the checksums of their files."""
    return images.identity if isinstance(images, Photographs) else images


def listed(files: Sequence[tuple[str, bytes]], part: str) -> dict[str, Tensor]:
    """Return the list of a part's files as tensors of a prepared data set: ``<part>_names`` and ``<part>_sums``.

    Args:
        files: relative path, any bytes but line breaks, and SHA-256 of each.
        part: ``train`` or ``test``.
    """
    told = np.frombuffer("\n".join(name for name, _ in files).encode(errors=BYTES), dtype=np.uint8).copy()
    digests = np.frombuffer(b"".join(digest for _, digest in files), dtype=np.uint8).reshape(len(files), -1).copy()
    return {f"{part}_names": torch.from_numpy(told), f"{part}_sums": torch.from_numpy(digests)}
