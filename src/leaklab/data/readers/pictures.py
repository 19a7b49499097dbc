"""What people bring as images: which files of a folder are some, and the 8-bit RGB picture that each holds.

Whatever is left out, and whatever is not taken as it is stored, is counted and told with an example.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageColor
from pydantic import Field

from leaklab.data.readers.base import DAMAGE
from leaklab.data.tree import Told, below, shown
from leaklab.records.errors import UserError

# no pictures of pixels, or such that another program has to draw; FITS tells no range of its numbers
OTHERS = {"BUFR", "EPS", "FITS", "GRIB", "HDF5", "MPEG", "WMF"}
ORIENTATION = 0x0112
TURNS = {
    2: Image.Transpose.FLIP_LEFT_RIGHT, 3: Image.Transpose.ROTATE_180, 4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE, 6: Image.Transpose.ROTATE_270, 7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_90,
}  # fmt: skip
"""What is to be done about each value of the EXIF orientation."""
White = Annotated[float, Field(strict=True, gt=0, allow_inf_nan=False)]
DEEP = {"I", "I;16", "I;16B", "I;16L", "I;16N", "F"}
"""Pillow's modes of gray beyond 8 bits."""
BITS_PER_SAMPLE, PHOTOMETRIC = 258, 262
BRIGHTEST, OPAQUE = 255, 255
LEFTOVERS = {"thumbs.db", "ehthumbs.db", "desktop.ini", "__macosx", "__pycache__", "$recycle.bin"}


# Which files.


@cache
def formats() -> dict[str, str]:
    """Return the endings of files, and the format of Pillow's that each stands for."""
    Image.init()
    read = (Image.OPEN.keys() | {"MPO"}) - OTHERS
    return {ending: kind for ending, kind in Image.registered_extensions().items() if kind in read}


def is_leftover(path: Path) -> bool:
    """Tell whether a file or folder is hidden, or what another program left there for itself."""
    name = path.name.lower()
    return name.startswith((".", "~$")) or name.endswith("~") or name in LEFTOVERS


def _why_left_out(path: Path) -> str | None:
    if is_leftover(path):
        return "hidden" if path.name.startswith(".") else "left by other programs"
    if not path.is_file():
        return "link to nothing" if path.is_symlink() else "no plain file"
    ending = path.suffix.lower()
    return None if ending in formats() else ending or "without an ending"


@dataclass(frozen=True)
class Found:
    """The pictures of a data set in folders.

    Attributes:
        names: of the folders of the training part with pictures, which are the classes, in alphabetical order.
        parts: by part, each picture with its label, class after class.
        left_out: what is none.
    """

    names: tuple[str, ...]
    parts: Mapping[str, list[tuple[Path, int]]]
    left_out: Told

    def notes(self, noticed: Told) -> dict[str, Any]:
        """Return what the card says of these files; nothing where there is nothing to say."""
        told = {"left_out": self.left_out.card(), "noticed": noticed.card()}
        return {name: kinds for name, kinds in told.items() if kinds}


def find(folders: Mapping[str, Path]) -> Found:
    """Look for the pictures of all parts; a class is a folder of the training part.

    Args:
        folders: by part.

    Raises:
        UserError: a part is no folder or has no pictures, or one that lies in no folder of a class that is trained on.
    """
    left_out = Told()
    paths = {part: _pictures(folder, part, left_out) for part, folder in folders.items()}
    names = sorted({path.parent.name for path in paths["train"] if path.parent.parent == folders["train"]})
    label = {name: k for k, name in enumerate(names)}
    for part, folder in folders.items():
        found = paths[part]
        strays = [path for path in found if path.parent.parent != folder or path.parent.name not in label]
        if strays or not found:
            problem = f"{shown(strays[0])} lies in no folder of a trained class" if strays else _none(folder, left_out)
            raise UserError(
                f"{problem}: put each class's images into a folder of its own, {shown(folder)}/<class>/<image>.JPEG"
            )
    return Found(
        tuple(names), {part: [(path, label[path.parent.name]) for path in own] for part, own in paths.items()}, left_out
    )


def _pictures(folder: Path, part: str, left_out: Told) -> list[Path]:
    if not folder.is_dir():
        raise UserError(f"{shown(folder)} is no folder: give the folder with a folder of images for each class")
    found = []
    for path in below(folder, is_leftover):
        why = _why_left_out(path)
        if why is None:
            found.append(path)
        else:
            left_out.add(why, f"{part}/{path.relative_to(folder)}")
    filled = {path.relative_to(folder).parts[0] for path in found}
    for path in folder.iterdir():
        if path.is_dir() and path.name not in filled and not is_leftover(path):
            left_out.add("folder without images", f"{part}/{path.name}")
    return sorted(found)


def _none(folder: Path, left_out: Told) -> str:
    told = ", ".join(f"{one['count']} {kind} ({one['example']})" for kind, one in left_out.card().items())
    return f"{shown(folder)} has no images{told and f' (left out: {told})'}"


# What a file shows.


@dataclass(frozen=True)
class Decoding:
    """How pictures become 8-bit RGB.

    Attributes:
        background: color of Pillow's names on which transparent pixels are put.
        white: number that is white in gray pictures beyond 8 bits; None: the largest of their bits, 1 of floats.
    """

    background: str = "white"
    white: White | None = None

    def __post_init__(self) -> None:
        """Refuse a color that there is not."""
        ImageColor.getrgb(self.background)

    def picture(self, path: Path) -> tuple[Image.Image, list[str]]:
        """Return the picture of a file, upright and opaque, and what was done to what is stored.

        Raises:
            UserError: it is damaged, or nobody can tell which of its numbers is white.
        """
        with _opened(path) as image:
            done = [TURNED] * (_turn(image) is not None) + [SEVERAL] * _several(image)
            image.load()
            # Pillow turns a TIFF itself while it loads
            found, left = self._opaque(image, path, done), _turn(image)
            return (found if left is None else found.transpose(left)), done

    def _opaque(self, image: Image.Image, path: Path, done: list[str]) -> Image.Image:
        if image.mode == "CMYK":
            done.append("CMYK, made RGB")
        if image.mode in DEEP:
            done.append("gray beyond 8 bits, scaled to 8")
            image = self._shallow(image, np.asarray(image), path)
        clear = image.info.get("transparency")
        if isinstance(clear, tuple) and max(clear) > BRIGHTEST:  # Pillow keeps the upper 8 of 16 bits of colors alone
            image.info["transparency"] = tuple(level >> 8 for level in clear)
        if image.has_transparency_data:
            image = image.convert("RGBA")
            if np.asarray(image.getchannel("A")).min() < OPAQUE:
                done.append(f"transparent, put on {self.background}")
            color = ImageColor.getrgb(self.background)[:3]
            image = Image.alpha_composite(Image.new("RGBA", image.size, (*color, OPAQUE)), image)
        return image.convert("RGB")

    def _shallow(self, image: Image.Image, numbers: NDArray[Any], path: Path) -> Image.Image:
        """Return gray of more than 8 bits in 8, and where one gray is transparent with transparency."""
        white = self.white or _white(image)
        lowest, highest = numbers.min(), numbers.max()
        if not (lowest >= 0 and np.isfinite(highest)):
            raise UserError(f"{shown(path)} has gray from {lowest} to {highest}: scale it to numbers from 0 to 1")
        if white is None or highest > white:
            raise UserError(
                f"{shown(path)} has gray up to {highest}, and nobody says which number is white: add white: "
                f"{highest}, or what is white, to the settings of its reader in config/datasets.yaml"
            )
        scaled = np.rint(numbers * (BRIGHTEST / white)).astype(np.uint8)
        tags = getattr(image, "tag_v2", {})
        if tags.get(PHOTOMETRIC) == 0:  # white is 0, which Pillow heeds for 8 bits only
            scaled = BRIGHTEST - scaled
        gray = Image.fromarray(scaled)
        if isinstance(clear := image.info.get("transparency"), int):
            gray.putalpha(Image.fromarray(np.where(numbers == clear, 0, OPAQUE).astype(np.uint8)))
        return gray


def _white(image: Image.Image) -> float | None:
    """Return the largest number that gray beyond 8 bits can have; None: any of 32 bits."""
    if image.mode == "F":
        return 1.0
    if image.mode == "I":
        return 65535.0 if image.format == "PPM" else None  # Pillow stretches that format to 16 bits
    bits = getattr(image, "tag_v2", {}).get(BITS_PER_SAMPLE, (16,))
    return float(2 ** int(bits[0]) - 1)


TURNED, NOT_TURNED = "turned as EXIF says", "not turned, although EXIF says so"
SEVERAL = "with more pictures, of which the first is taken"


def _turn(image: Image.Image) -> Image.Transpose | None:
    try:
        return TURNS.get(image.getexif().get(ORIENTATION, 1))
    except DAMAGE:  # EXIF that cannot be read turns nothing
        return None


def _several(image: Image.Image) -> bool:
    return getattr(image, "n_frames", 1) > 1


@cache
def _asked() -> list[str]:
    """Return the formats whose plug-ins are asked about a file, in Pillow's order: some take what is not theirs."""
    allowed = {*formats().values()}
    return [kind for kind in Image.ID if kind in allowed]


@contextmanager
def _opened(path: Path) -> Iterator[Image.Image]:
    try:
        with Image.open(path, formats=_asked()) as image:
            yield image
    except DAMAGE as error:
        what = " ".join(f"{error}".split())
        raise UserError(
            f"{shown(path)} cannot be read as an image ({what}): unpack it again, or save it as PNG"
        ) from None


@dataclass(frozen=True)
class Stored:
    """What would happen to a picture that is opened as it is stored.

    Attributes:
        refused: why it would be another picture; empty if it would not.
        noticed: what is not heeded.
    """

    refused: str
    noticed: list[str]


def as_stored(path: Path) -> Stored:
    """Look at what a file says of its picture, without decoding it.

    Raises:
        UserError: it is no image.
    """
    with _opened(path) as image:
        kind = "gray beyond 8 bits" if image.mode in DEEP else "transparent" if image.has_transparency_data else ""
        return Stored(kind, [NOT_TURNED] * (_turn(image) is not None) + [SEVERAL] * _several(image))
