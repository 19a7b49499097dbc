"""The page for reviewers says of every claim what the published tables say: word, number, interval, command, time.

The tables are read here as plain CSV files, as a reviewer would.
"""

import csv
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/artifact.md").read_text(encoding="utf-8")
ROW = re.compile(r"^\| \*\*(\S+)\*\* (.*?) \| (.*?) \| (.*?) \|$", re.MULTILINE)
SECTION = re.compile(r"^### (\S+) (\S+)\n.*?(?=^#{2,3} |\Z)", re.MULTILINE | re.DOTALL)


def lines_of(path):
    with (ROOT / path).open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


@pytest.fixture(scope="module")
def told():
    """Claim id -> cells of its row."""
    found = ROW.findall(PAGE)
    assert len({row[0] for row in found}) == len(found)
    return {name: cells for name, *cells in found}


def test_every_claim_is_told_once_with_its_words(told):
    judged = {line["id"]: line for line in lines_of("results/small/claims.csv")}
    assert told.keys() == judged.keys() == {line["id"] for line in lines_of("config/papers/claims.csv")}
    for name, (statement, expected, _) in told.items():
        assert statement.replace("\\|", "|") == judged[name]["statement"], name
        assert re.match(rf". {judged[name]['verdict']}(:|;|$)", expected), name
        strongest = judged[name]["knowing_verdict"]
        differs = bool(strongest) and strongest != judged[name]["verdict"]
        assert ("strongest attacker: " in expected) == differs, name
        assert not differs or strongest in expected.partition("strongest attacker: ")[2], name


def test_the_interval_of_a_margin_is_that_of_the_table(told):
    """A share is told in percent; ends are rounded to four figures, those of shares to three."""
    checked = 0
    for line in lines_of("results/small/claims.csv"):
        found = re.match(r"margin (\S+).*?, from (\S+) to (\S+)", told[line["id"]][2])
        if not found:
            assert not line["margin_low"] or line["margin_low"] == line["margin_high"], line["id"]
            continue
        numbers = [float(line[name]) for name in ("margin", "margin_low", "margin_high")]
        share = any(abs(float(said)) > 10 * abs(number) for said, number in zip(found.groups(), numbers, strict=True))
        for said, number in zip(found.groups(), numbers, strict=True):
            assert float(said) == pytest.approx((100 if share else 1) * number, rel=1e-3), line["id"]
        checked += 1
    assert checked > 50


def test_every_item_has_the_command_that_makes_its_table_and_what_it_took():
    costs = {line["item"]: line for line in lines_of("results/small/costs.csv")}
    sections = list(SECTION.finditer(PAGE))
    assert len(sections) > 40
    for section in sections:
        paper, item = section.groups()
        command = re.search(r"Command: `snakemake --cores 2 (\S+)`", section[0])
        assert bool(command) != ("Not run at this scale" in section[0]), item
        if command:
            assert command[1] == f"results/small/{paper}/{item}.csv"
            cost = costs.get(f"{paper}/{item}")
            assert not cost or not cost["cpu_seconds"] or f", in {cost['jobs']} runs" in section[0]


def test_what_is_made_again_from_its_scores_is_what_has_them_packed():
    packed = {
        (path.parent.name, path.name.removesuffix(".runs.zip"))
        for path in (ROOT / "results/small").glob("*/*.runs.zip")
    }
    told_of = re.findall(r"^\* From its scores, without its runs: `leaklab remake (\S+) (\S+)`", PAGE, re.MULTILINE)
    assert len(told_of) > 20
    assert set(told_of) == packed & {section.groups() for section in SECTION.finditer(PAGE)}
