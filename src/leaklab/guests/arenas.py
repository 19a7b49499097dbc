"""Arenas as files: images, the networks that are trained on them, and how many of them are attacked.

Those of the house lie in ``arena_files`` and need no download; a copy of one, changed, is an arena too. This module
stays light, as the process that waits for the children needs no more of an arena than its names.
"""

from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

from pydantic import Field

from leaklab.records.bounds import Count, Positive
from leaklab.records.config import parse, read_yaml
from leaklab.records.errors import UserError
from leaklab.records.record import Record
from leaklab.records.text_numbers import refuse_text_numbers

FILES = Path(__file__).with_name("arena_files")
DEFAULT, PRICE = "tiny", "price"


class Network(Record):
    """A network of an arena.

    Attributes:
        words: what it is, for people.
        model: a plug-in of models; ``leaklab list models`` shows them.
        settings: its settings.
    """

    words: str
    model: str
    settings: dict[str, Any] = Field(default_factory=dict)


class ArenaFile(Record):
    """The content of an arena's file.

    Attributes:
        title: what it is, for people.
        images: ``digits``, ``faces`` or ``photographs``, or a file of numpy's (npz) beside this one, with the arrays of
            ``moments.PARTS``: uint8 images [N, C, H, W] and labels from 0.
        sentences: in place of images: ``descriptions``, or a CSV file beside this one; see ``texts.corpus_of``.
        length: tokens of a sentence.
        networks: by name.
        batch: images of a local step. Where an update has several images, attackers are granted their labels.
        steps: local steps, each on images of its own.
        rate: of a local step; it matters where there are several.
        updates: that are attacked; fewer than six decide nothing.
        rehearsals: updates of public images on which a defense is rehearsed.
        draws: how often each is defended then.
        evaluations: of a search, in each of its stages.
        components: numbers in a latent of the prior; null for one per pixel.
        price: the network that is trained for what a defense costs, attacked or not; null to leave that out.
    """

    title: str
    images: str | None = None
    sentences: str | None = None
    length: Count = 10
    networks: dict[str, Network] = Field(min_length=1)
    batch: Count = 1
    steps: Count = 1
    rate: Positive = 1.0
    updates: Count = 6
    rehearsals: Count = 20
    draws: Count = 8
    evaluations: Count = 60
    components: Count | None = None
    price: Network | None = None


@dataclass(frozen=True, eq=False)
class Arena:
    """An arena.

    Attributes:
        name: of a file of one's own with the first figures of a SHA-256, of it and of the images beside it.
        given: how it was asked for.
        folder: where the file lies.
        file: what it says.
    """

    name: str
    given: str
    folder: Path
    file: ArenaFile

    @property
    def unit(self) -> str:
        """What is read is measured in: dB of images, percent of the tokens of sentences."""
        return "%" if self.file.sentences else "dB"

    @property
    def samples(self) -> int:
        """The number of images in an update."""
        return self.file.batch * self.file.steps

    def all_networks(self) -> dict[str, Network]:
        """Return its networks by name, with the one that is trained for the price."""
        return {**self.file.networks, **({PRICE: self.file.price} if self.file.price else {})}


def find(given: str) -> Arena:
    """Return an arena.

    Args:
        given: the name of one of the house, or a YAML file.

    Raises:
        UserError: there is none, or its file is wrong; one line.
    """
    own = given.endswith((".yaml", ".yml"))
    path = Path(given) if own else FILES / f"{given}.yaml"
    if own and not path.is_file():
        raise UserError(f"{path} is missing: an arena is one of {', '.join(names())}, or a YAML file")
    if not own and given not in names():
        raise UserError(f"unknown arena '{given}': choose from {', '.join(names())}, or give a YAML file")
    said = read_yaml(path)
    refuse_text_numbers(said, path)
    file = parse(ArenaFile, said, path)
    if (file.images is None) == (file.sentences is None):
        raise UserError(f"{path}: give either images or sentences")
    if file.sentences and (file.batch, file.steps, file.price) != (1, 1, None):
        raise UserError(f"{path}: an update has one sentence, in one step, and no price: leave batch, steps, price out")
    if PRICE in file.networks:
        raise UserError(f"{path}: networks.{PRICE}: name it otherwise: so the network of key `{PRICE}` is called")
    data = path.parent / (file.images or file.sentences or "")
    name = f"{path.stem} ({_digest(path, data)[:12]})" if own else given
    return Arena(name, given, path.parent, file)


def _digest(*files: Path) -> str:
    """Return the SHA-256 of an arena's file and of the images beside it, where it has some."""
    return sha256(b"".join(sha256(file.read_bytes()).digest() for file in files if file.is_file())).hexdigest()


def names() -> list[str]:
    """Return the arenas of the house, the default first."""
    return sorted((path.stem for path in FILES.glob("*.yaml")), key=lambda name: (name != DEFAULT, name))
