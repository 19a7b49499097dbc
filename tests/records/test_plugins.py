"""Plug-ins are files: what a folder offers, and what each accepts, is read from their source."""

import ast

import pytest

from leaklab.records import plugins
from leaklab.records.errors import UserError

DATACLASS = '''
from dataclasses import dataclass
from typing import ClassVar

raise RuntimeError("a plug-in's source is read, not run")


@dataclass(frozen=True)
class Noise:
    """Adds noise."""

    needs: ClassVar[frozenset[str]] = frozenset({"rate"})
    registry: "ClassVar[list[str]]" = []
    strength: float
    clip: float | None = None
    sampled = 3

    def helper(self) -> None:
        inner: int = 0


@dataclass
class Other:
    size: int = 0


PLUGIN = Noise
'''
FUNCTION = "def decay(rate: float, *, half_life: int = 3) -> float:\n    return rate\n\nPLUGIN = decay\n"
HELPER = "class Noise:\n    strength: float = 1.0\n"
INDIRECT = "class Noise:\n    strength: float = 1.0\n\nPLUGIN = [Noise][0]\n"
INHERITED = """
from leaklab.room.two_words import Other

@dataclass
class Larger(Other):
    colour: str = ""

PLUGIN: type = Larger
"""
ROOM = {
    "inherited": INHERITED,
    "two_words": DATACLASS,
    "decay": FUNCTION,
    "base": HELPER,
    "indirect": INDIRECT,
    "__init__": "",
}


HOUSE = plugins.PACKAGE_FOLDER


@pytest.fixture(autouse=True)
def room(tmp_path, package_at):
    """A room of six modules, three of which are plug-ins."""
    (tmp_path / "room").mkdir()
    for name, text in ROOM.items():
        (tmp_path / "room" / f"{name}.py").write_text(text, encoding="utf-8")
    package_at(tmp_path)


def refusal(*arguments):
    with pytest.raises(UserError) as caught:
        plugins.check(*arguments)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_a_module_that_defines_plugin_is_one():
    assert plugins.available("room") == ["decay", "inherited", "two-words"]


def test_names_have_dashes_where_files_have_underscores():
    assert plugins.find("room", "two-words").module.endswith(".room.two_words")


def test_a_misspelt_plugin_is_refused_with_the_ones_there_are():
    assert (
        refusal("room", "two-wrods", {}) == "unknown room plug-in 'two-wrods': choose from decay, inherited, two-words"
    )


@pytest.mark.parametrize("name", ["base", "indirect", "__init__", "two_words", ""])
def test_what_is_no_plugin_cannot_be_asked_for(name):
    assert refusal("room", name, {}).startswith(f"unknown room plug-in '{name}'")


def test_declared_settings_are_accepted():
    plugins.check("room", "two-words", {"strength": 1.0, "clip": None})
    plugins.check("room", "decay", {"half_life": 2, "rate": 0.1})


def test_a_dataclass_inherits_the_settings_of_another_file():
    plugins.check("room", "inherited", {"size": 3, "colour": "red"})
    assert refusal("room", "inherited", {"weight": 1}).endswith("it accepts size, colour")
    assert ast.unparse(plugins.class_attribute("room", "inherited", "size")) == "0"
    assert plugins.class_attribute("room", "inherited", "weight") is None


TYPED = """
from dataclasses import dataclass
from typing import Annotated, Literal

from leaklab.records.bounds import Count, Positive, Share

Stem = Literal["small", "large"]


@dataclass(frozen=True)
class Typed:
    share: Share = 0.5
    bound: Positive | None = None
    count: Count = 3
    stem: Stem = "small"
    flag: bool = False
    size: int = 1
    text: str = ""
    free: Annotated[int, "anything"] = 1


PLUGIN = Typed
"""


@pytest.mark.parametrize(
    ("key", "good", "bad"),
    [
        ("share", [0, 1, 0.25], [-0.1, 1.1, "x", True, float("nan"), None]),
        ("bound", [None, 1, 1e-9], [0, -1, "x", float("inf"), 1e300]),
        ("count", [1, 10**6], [0, 1.0, "1", True, 10**7]),
        ("stem", ["small", "large"], ["medium", 1, None]),
        ("flag", [True, False], [1, "true", None]),
        ("size", [-5, 0], [0.5, "x", 10**30]),
        ("text", ["", "x"], [1, None]),
        ("free", [1, "x", None], []),
    ],
)
def test_a_value_has_to_fit_the_type_of_its_setting(tmp_path, key, good, bad):
    (tmp_path / "room/typed.py").write_text(TYPED, encoding="utf-8")
    for value in good:
        plugins.check("room", "typed", {key: value})
    for value in bad:
        assert refusal("room", "typed", {key: value}).startswith(f"room plug-in 'typed': {key}: Input should be ")


def test_a_setting_without_a_default_has_to_be_given():
    message = "room plug-in 'two-words' needs the setting 'strength': write {name: two-words, strength: ...}"
    assert refusal("room", "two-words", {}) == message
    assert "needs the setting 'rate'" in refusal("room", "decay", {"half_life": 2})


def test_a_file_that_is_not_python_is_named(tmp_path):
    (tmp_path / "room/broken.py").write_text("def x(:\n", encoding="utf-8")
    assert "room/broken.py: line 1: not Python" in refusal("room", "two-words", {"strength": 1.0})


@pytest.mark.parametrize("key", ["strenght", "helper", "inner", "size", "sampled", "needs", "registry"])
def test_anything_else_is_refused_with_the_declared_settings(key):
    """Methods, other classes, plain class attributes and class variables are no settings."""
    assert refusal("room", "two-words", {"strength": 1.0, key: 1}) == (
        f"room plug-in 'two-words' has no setting '{key}': it accepts strength, clip"
    )


def test_arguments_of_a_function_are_its_settings():
    assert refusal("room", "decay", {"halflife": 2}).endswith("it accepts rate, half_life")


def test_loading_checks_first():
    with pytest.raises(UserError, match="no setting 'strenght'"):
        plugins.load("room", "two-words", {"strenght": 1.0})


class TestRealRooms:
    @pytest.fixture(autouse=True)
    def own_folder(self, room, package_at):
        package_at(HOUSE)

    def test_a_plugin_is_built_with_its_settings(self):
        defense = plugins.load("defenses", "lrp", {"class_slope": 0.5})
        assert (type(defense).__name__, defense.class_slope) == ("LearningRatePerturbation", 0.5)
        assert plugins.load("defenses", "lrp").class_slope is None

    def test_facts_that_an_attack_needs_are_no_settings(self):
        assert refusal("attacks", "idlg", {"needs": []}).startswith("attacks plug-in 'idlg' has no setting 'needs'")


class TestFamilies:
    """Several small plug-ins of one file."""

    TEXT = (
        "from dataclasses import dataclass\n\n\n@dataclass(frozen=True)\nclass Cosine:\n    length: int = 3\n\n\n"
        "@dataclass(frozen=True)\nclass Step:\n    every: int\n\n\n"
        'PLUGINS = {"cosine-like": Cosine, "step": Step}\n'
    )

    @pytest.fixture
    def room(self, tmp_path, package_at):
        (tmp_path / "schedules").mkdir()
        (tmp_path / "schedules" / "family.py").write_text(self.TEXT)
        (tmp_path / "single.py").write_text(self.TEXT)
        package_at(tmp_path)
        return tmp_path

    @pytest.mark.parametrize("name", ["schedules", "single"])
    def test_each_has_its_name_and_settings_in_a_folder_or_a_file_that_is_the_room(self, room, name):
        assert plugins.available(name) == ["cosine-like", "step"]
        plugins.check(name, "cosine-like", {"length": 4})
        with pytest.raises(UserError, match="'step' needs the setting 'every'"):
            plugins.check(name, "step", {})
        with pytest.raises(UserError, match=r"no setting 'every': it accepts length"):
            plugins.check(name, "cosine-like", {"every": 2})

    def test_one_name_in_two_files_is_refused(self, room, package_at):
        (room / "schedules" / "step.py").write_text("class Step:\n    pass\n\n\nPLUGIN = Step\n")
        package_at(room)
        with pytest.raises(UserError, match=r"family.py and .*step.py both offer the plug-in 'step'"):
            plugins.available("schedules")
