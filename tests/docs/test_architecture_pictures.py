"""The pictures of architecture.md are those of the rules and imports that are there."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"


@pytest.fixture(scope="module")
def program(drawing):
    return drawing("draw_architecture")


@pytest.fixture(scope="module")
def road(program):
    return program.road()


def nodes(edges):
    return {node for edge in edges for node in edge}


def test_the_road_is_drawn_as_it_is(program, road):
    """If this fails: ``python docs/draw_architecture.py`` draws it anew."""
    assert (DOCS / "road.svg").read_text(encoding="utf-8") == str(program.Sheet(road))


def test_the_rooms_are_drawn_as_they_are(program):
    """If this fails: ``python docs/draw_architecture.py`` draws them anew."""
    assert (DOCS / "rooms.svg").read_text(encoding="utf-8") == str(program.Sheet(program.rooms()))


def test_the_owners_are_drawn_as_the_stages_have_them(program):
    """If this fails: ``python docs/draw_architecture.py`` draws them anew."""
    assert (DOCS / "owners.svg").read_text(encoding="utf-8") == str(program.Sheet(program.owners()))


def test_the_road_has_every_rule(program, road):
    """A rule that is missing here has no job in the drawing's targets; pieces of long jobs stand beside the road."""
    files = [path for path in sorted((ROOT / "workflow/rules").glob("*.smk")) if path.name != "pieces.smk"]
    rules = {rule for file in files for rule in re.findall(r"^rule (\w+):", file.read_text("utf-8"), re.MULTILINE)}
    assert nodes(road.edges) == rules
    assert set(program.WORDS) <= rules | nodes(program.owners().edges)


def test_no_truth_leads_to_an_attack(road):
    """The arrows of private samples begin at captures and pass the attacks by."""
    assert nodes(road.marked) == {
        "capture_updates", "score_attack", "map_landscape", "make_figure", "capture_text", "score_text",
    }  # fmt: skip
    assert {before for before, _ in road.marked} == {"capture_updates", "capture_text"}
    assert {("train_federated", "capture_updates"), ("capture_updates", "run_attack")} <= road.edges


def test_the_rooms_are_the_packages_and_nothing_forbidden_is_imported(program):
    picture = program.rooms()
    source = ROOT / "src/leaklab"
    modules = {"calibrate", "cli", "flower"}
    assert nodes(picture.edges) == {path.parent.name for path in source.glob("*/__init__.py")} | modules
    assert ("attacks", "data") in picture.marked
    assert not picture.marked & picture.edges


def test_a_new_box_finds_a_place_of_its_own(program):
    edges = {("a", "b"), ("b", "c"), ("a", "c"), ("a", "x"), ("x", "c"), ("a", "y"), ("y", "c")}
    assert ("a", "c") not in program.essential(edges)
    where, main = program.places(program.essential(edges))
    assert len(set(where.values())) == len(where) == 5
    assert [where[node] for node in "ac"] == [(main, 0), (main, 2)]
    assert [where[node][1] for node in "bxy"] == [1, 1, 1]


def test_a_box_never_covers_a_box(program, road):
    for picture in (road, program.rooms()):
        where = program.Sheet(picture).where
        assert len(set(where.values())) == len(where)
