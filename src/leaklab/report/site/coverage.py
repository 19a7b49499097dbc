"""What the papers have, row by row: ``config/papers/coverage.yaml``.

A row says what it is and where it is. Whether it is whole is not said but found out (``covered.py``).
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Literal, get_args

from pydantic import Field, model_validator

from leaklab.data.catalog import CATALOG, TEXTS, Entry, find_entry, find_text, load_catalog
from leaklab.items.items import Item, item_file
from leaklab.records import plugins
from leaklab.records.config import parse, read_yaml
from leaklab.records.errors import UserError
from leaklab.records.record import Record, Scalar

COVERAGE = Path("config/papers/coverage.yaml")
Kind = Literal[
    "table", "figure", "algorithm", "theorem", "method", "defense", "attack", "metric", "data set", "network", "setting"
]
KINDS: tuple[Kind, ...] = get_args(Kind)
PRINTED = KINDS[:4]
"""Kinds of rows that are items: all cells, runs, claims and stand-ins of their items are theirs."""
ITEMS_OF_THE_HOUSE = "items"
CATALOGS = {"datasets": CATALOG, "texts": TEXTS}
Place = Annotated[
    str,
    Field(
        pattern=r"^(abstract|algorithm|appendix|assumption|equation|figure|lemma|section|table|theorem)s?( [^:]+)?$",
        description="as printed: table 2, section 4.2, appendix E.1",
    ),
]
Words = Annotated[str, Field(min_length=1)]


class Row(Record):
    """One thing that a paper has.

    Attributes:
        what: in our words.
        place: as printed.
        where: items (``lrp/table2``), plug-ins (``defenses/lrp``) and data sets (``datasets/mnist``, ``texts/cola``).
        cells: keys of the printed numbers that are this row's, ``metric`` among them; empty for all of its items where
            it is of a kind of ``PRINTED``, else for none.
        lacks: what is not there; what can be counted is not said here.
        why: what is not to be had, or what it would cost.
        as_long_as: item or file -> words that stand there as long as the row is not whole.
        until: item or file -> words that will stand there when it is.
    """

    what: Words
    place: Place
    where: tuple[str, ...] = ()
    cells: dict[str, Scalar | tuple[Scalar, ...]] = Field(default_factory=dict)
    lacks: str = ""
    why: str = ""
    as_long_as: dict[str, Words | tuple[Words, ...]] = Field(default_factory=dict)
    until: dict[str, Words | tuple[Words, ...]] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _has_reasons(self) -> "Row":
        if not self.where and (self.lacks or not self.why):
            raise ValueError("a row that is nowhere lacks everything: say why, and not what it lacks")
        if self.lacks and not self.why:
            raise ValueError("say why it lacks that: what is not to be had, or what it would cost")
        if self.lacks and not (self.as_long_as or self.until):
            raise ValueError("name words that stand somewhere as_long_as it lacks that, or that will stand there then")
        if (self.as_long_as or self.until) and self.where and not self.lacks:
            raise ValueError("as_long_as and until say how long a row lacks something: say what")
        return self

    @property
    def signs(self) -> Iterator[tuple[str, str, bool]]:
        """Yield item or file, words, and whether they stand there as long as the row is not whole."""
        for told, stand in ((self.as_long_as, True), (self.until, False)):
            for name, words in told.items():
                for one in (words,) if isinstance(words, str) else words:
                    yield name, one, stand


class Statement(Record):
    """A statement of a paper that no claim judges.

    Attributes:
        place: as printed.
        says: the statement in our words.
        needs: what would decide it.
    """

    place: Place
    says: Words
    needs: Words


class Coverage(Record):
    """The file.

    Attributes:
        rows: paper -> kind -> rows.
        house: room -> plug-ins or data sets that items use and no paper has; under ``items`` the items that none has.
        statements: paper -> statements without a claim.
    """

    rows: dict[str, dict[Kind, tuple[Row, ...]]]
    house: dict[str, tuple[str, ...]] = Field(default_factory=dict)
    statements: dict[str, tuple[Statement, ...]] = Field(default_factory=dict)

    def __iter__(self) -> Iterator[tuple[str, Kind, Row]]:  # type: ignore[override]
        """Yield paper, kind and row in the order of the page."""
        for paper, by_kind in self.rows.items():
            for kind in KINDS:
                for row in by_kind.get(kind, ()):
                    yield paper, kind, row

    @property
    def named(self) -> frozenset[str]:
        """What rows name, and what is the house's own."""
        return frozenset([*self.own, *(name for _, _, row in self for name in row.where)])

    @property
    def own(self) -> tuple[str, ...]:
        """What is the house's own, as rows would name it."""
        return tuple(
            name if room == ITEMS_OF_THE_HOUSE else f"{room}/{name}"
            for room, names in self.house.items()
            for name in names
        )


def load_coverage(items: Mapping[str, Item], path: Path = COVERAGE) -> Coverage:
    """Read the rows.

    Raises:
        UserError: one line with the row that is wrong, that stands twice, or that is where nothing is.
    """
    found = parse(Coverage, read_yaml(path), path)
    papers = {item.paper for item in items.values()}
    for paper in [*found.rows, *found.statements]:
        if paper not in papers:
            raise UserError(f"{path}: there is no paper {paper}: choose from {', '.join(sorted(papers))}")
    for (paper, kind, what), count in Counter((paper, kind, row.what) for paper, kind, row in found).items():
        if count > 1:
            raise UserError(f"{path}: {paper}, {kind}: {what} stands {count} times")
    try:
        for paper, kind, row in found:
            where = f"{paper}, {kind}, {row.what}"
            for name in row.where:
                file_of(name, items)
        where = "house"
        for name in found.own:
            file_of(name, items)
    except UserError as error:
        raise UserError(f"{path}: {where}: {error}") from None
    return found


def entry_of(name: str) -> Entry:
    """Return the catalog's entry of ``datasets/mnist`` or ``texts/cola``.

    Raises:
        UserError: there is none.
    """
    room, _, own = name.rpartition("/")
    return find_text(own) if room == "texts" else find_entry(own, load_catalog())


def file_of(name: str, items: Mapping[str, Item]) -> Path:
    """Return the file of an item, a plug-in or a data set.

    Raises:
        UserError: there is none of that name.
    """
    if name in items:
        return item_file(items[name])
    room, _, own = name.rpartition("/")
    if room in CATALOGS:
        entry_of(name)
        return CATALOGS[room]
    place = plugins.PACKAGE_FOLDER / room
    if not room or not (place.is_dir() or place.with_suffix(".py").is_file()):
        raise UserError(f"there is no {name}: name an item (lrp/table2), a plug-in (defenses/lrp) or a data set")
    return Path("src/leaklab") / plugins.find(room, own).file.relative_to(plugins.PACKAGE_FOLDER)
