"""Files beside the pages, written by threads: copies, and lighter pictures of figures, each made once of its bytes."""

import hashlib
import io
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

import PIL
from PIL import Image

from leaklab.records import files

LIGHT, QUALITIES = 500_000, (80, 60, 40, 20)
"""Bytes that a lighter picture has at most, and the qualities that are tried for it; the last one is taken as it is.
Pictures of noise, which is what defenses leave, need a low one."""
METHOD = 2
"""Effort of the encoder: pictures are 6 % larger than at 4, in half the time."""
KEPT = Path(".snakemake/lighter-pictures")
THREADS = 2


class Shape(NamedTuple):
    """What is shown of a picture.

    Attributes:
        width: in pixels.
        seen: pixels of its top that are seen at most; None for all.
    """

    width: int
    seen: int | None = None


class FilesBeside:
    """Makes and writes them ahead of the pages and beside them: neither disks nor encoders hold up anything else."""

    def __init__(self, kept: Path = KEPT) -> None:
        """Name the folder of lighter pictures that were made before, each called after all that decides its bytes."""
        self._kept = kept
        self._pool = ThreadPoolExecutor(THREADS)
        self._made: dict[tuple[Path, Shape], Future[bytes]] = {}
        self._written: list[Future[None]] = []

    def begin(self, source: Path, shape: Shape) -> Future[bytes]:
        """Begin to make a lighter picture, if nobody has yet."""
        if (source, shape) not in self._made:
            self._made[source, shape] = self._pool.submit(self._bytes_of, source, shape)
        return self._made[source, shape]

    def write_lighter(self, source: Path, shape: Shape, target: Path) -> None:
        """Write a lighter picture of a file, in WebP, before ``finish`` ends."""
        made = self.begin(source, shape)  # one that is not begun stands before what waits for it
        self._written.append(self._pool.submit(lambda: files.write_bytes(target, made.result())))

    def copy(self, source: Path, target: Path) -> None:
        """Copy a file, before ``finish`` ends."""
        self._written.append(self._pool.submit(lambda: files.write_bytes(target, source.read_bytes())))

    def finish(self) -> None:
        """Wait for all files.

        Raises:
            OSError: one could not be read or written.
        """
        for one in self._written:
            one.result()

    def close(self) -> None:
        """Forget what was begun and is not needed."""
        self._pool.shutdown(cancel_futures=True)

    def _bytes_of(self, source: Path, shape: Shape) -> bytes:
        content = source.read_bytes()
        settings = f"{shape} {QUALITIES} {LIGHT} {METHOD} {PIL.__version__}\0".encode()
        known = self._kept / f"{hashlib.sha256(settings + content).hexdigest()}.webp"
        if known.is_file():
            return known.read_bytes()
        made = lighter(content, shape)
        with suppress(OSError):  # of a folder that cannot be written to: nothing is kept
            files.write_bytes(known, made)
        return made


@contextmanager
def files_beside() -> Iterator[FilesBeside]:
    """Yield what writes them, until the site is there."""
    beside = FilesBeside()
    try:
        yield beside
    finally:
        beside.close()


def lighter(content: bytes, shape: Shape) -> bytes:
    """Return a picture in a width, its top alone where no more of it is seen, as WebP."""
    with Image.open(io.BytesIO(content)) as picture:
        height = max(1, round(picture.height * shape.width / picture.width))
        shown = min(height, shape.seen or height)
        part = (0.0, 0.0, float(picture.width), picture.height * shown / height)
        small = picture.convert("RGB").resize((shape.width, shown), Image.Resampling.LANCZOS, part)
    buffer = io.BytesIO()
    for quality in QUALITIES:
        buffer = io.BytesIO()
        small.save(buffer, format="WEBP", quality=quality, method=METHOD)
        if buffer.tell() <= LIGHT:
            break
    return buffer.getvalue()
