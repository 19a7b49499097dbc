"""``docs/coverage.md`` says what the papers have and what of it is here: every item and part, and no old word."""

import csv
import re
from collections import Counter
from pathlib import Path

import pytest

from leaklab.report.site import documents
from leaklab.report.site.coverage_page import PAGE

ROOT = Path(__file__).parents[2]
ROOMS = {
    "defenses", "attacks", "attacks/text", "metrics", "models", "models/text", "models/generators", "theory",
    "federated/algorithms", "data/partitions", "observations/servers", "datasets", "texts",
}  # fmt: skip
ROWS_OF_THE_PAPERS = 184


@pytest.fixture(scope="module")
def found(published):
    """Return the rows, what was found out about them, what they are held against, and the page."""
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(ROOT)
        coverage, rows, here = documents.coverage_of(published)
        yield coverage, rows, here, documents.coverage_text(published)


def test_the_page_is_what_rows_items_and_results_say(found):
    """If this fails: ``leaklab findings`` writes it anew."""
    assert (ROOT / PAGE).read_text(encoding="utf-8") == found[3]


def test_no_word_of_a_row_is_old(found):
    """A lack that an item no longer has, or a reason of a row that is whole, has to be taken away by hand."""
    assert [f"{own.paper}, {own.kind}, {own.row.what}: {own.doubt}" for own in found[1] if own.doubt] == []


def test_every_item_is_a_row_or_the_houses_own(found):
    coverage, _, here, _ = found
    named = {name for _, _, row in coverage for name in row.where} & here.items.keys()
    own = set(coverage.house["items"])
    assert named | own == set(here.items)
    assert not named & own
    assert not [name for name in own if re.fullmatch(r"\w+/(table|figure|theorem|algorithm)\d+", name)]


def test_no_item_of_the_house_has_printed_numbers(found):
    with (ROOT / "config/papers/targets.csv").open(encoding="utf-8", newline="") as file:
        printed = {f"{line['paper']}/{line['item']}" for line in csv.DictReader(file)}
    assert not printed & set(found[0].house["items"])


def test_every_part_that_an_item_uses_is_in_a_row_or_the_houses_own(found):
    coverage, _, here, _ = found
    used = {name for own in here.used.values() for name in own if name.rpartition("/")[0] in ROOMS}
    assert len(used) > 100
    assert sorted(used - coverage.named) == []
    own, rows = set(coverage.own), {name for _, _, row in coverage for name in row.where}
    assert sorted(own & rows) == []
    assert sorted(name for name in own - set(here.items) if name not in used) == []


def test_a_whole_row_lacks_nothing_and_every_other_has_a_reason(found):
    for own in found[1]:
        if own.status == "whole":
            assert not own.row.lacks
            assert not own.row.why
            assert all(one.value is not None for one in own.printed)
        else:
            assert own.row.why or own.gaps
        assert (own.status == "missing") == (not own.row.where)


def test_the_papers_have_all_their_rows(found):
    assert len(found[1]) >= ROWS_OF_THE_PAPERS


def test_cells_are_those_of_the_comparison(found):
    """Counted anew from the plain files."""
    with (ROOT / "results/small/comparison.csv").open(encoding="utf-8", newline="") as file:
        lines = list(csv.DictReader(file))
    every = Counter(f"{line['paper']}/{line['item']}" for line in lines)
    measured = Counter(f"{line['paper']}/{line['item']}" for line in lines if line["value"])
    rows = [own for own in found[1] if own.kind in ("table", "figure")]
    assert len(rows) == 17 + 26
    for own in rows:
        keys = [name for name in own.row.where if name in found[2].items]
        assert (own.measured, len(own.printed)) == (sum(measured[key] for key in keys), sum(every[key] for key in keys))
    assert sum(len(own.printed) for own in rows) == len(lines)


def test_the_counts_are_those_of_the_rows_below(found):
    _, rows, _, page = found
    counts = re.search(r"^\| all \| (\d+) \| (\d+) \| \d+ \| (\d+) \| (\d+) \|$", page, re.MULTILINE)
    words = [len(re.findall(rf" \| {word} \|", page)) for word in ("whole", "in part", "missing")]
    # the heads of the table of counts say each word once
    assert [int(one) for one in counts.groups()] == [len(rows), *(number - 1 for number in words)]
