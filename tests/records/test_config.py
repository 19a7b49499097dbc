"""YAML files of ours: what is wrong with one is said in one line, with the place where it stands."""

from pathlib import Path

import pytest
from pydantic import BaseModel

from leaklab.records.config import Config, load_config, parse, read_yaml
from leaklab.records.errors import UserError

ROOT = Path(__file__).parents[2]


class Leaf(BaseModel, extra="forbid"):
    size: int = 1
    color: str = ""


class Tree(BaseModel, extra="forbid"):
    leaf: Leaf | None = None
    leaves: tuple[Leaf, ...] = ()
    named: dict[str, Leaf] = {}


@pytest.fixture
def file(tmp_path):
    def write(text):
        path = tmp_path / "config.yaml"
        path.write_text(text, encoding="utf-8")
        return path

    return write


def refusal(call, *arguments):
    with pytest.raises(UserError) as caught:
        call(*arguments)
    message = str(caught.value)
    assert "\n" not in message
    return message


def test_the_projects_own_configuration_is_that_of_a_first_visit():
    assert load_config(ROOT / "config/config.yaml") == Config(scale="demo", device="auto", mirror=None)


@pytest.mark.parametrize("text", ["", "# nothing is set\n", "{}"])
def test_what_is_not_set_has_a_default(file, text):
    assert load_config(file(text)) == Config()


def test_an_unknown_key_is_refused_with_the_known_ones(file):
    path = file("scale: demo\ndevise: cuda\n")
    known = "checkpoint_seconds, device, mirror, scale"
    assert refusal(load_config, path) == f"{path}: devise: unknown key; known keys are {known}"


@pytest.mark.parametrize(
    ("text", "key", "choices"),
    [
        ("scale: big", "scale", ["'demo'", "'small'", "'paper'"]),
        ("device: tpu", "device", ["'cpu'", "'cuda'"]),
    ],
)
def test_a_value_outside_of_the_choices_is_refused_with_them(file, text, key, choices):
    path = file(text)
    message = refusal(load_config, path)
    assert message.startswith(f"{path}: {key}: ")
    assert all(choice in message for choice in choices)


def test_a_value_of_another_type_is_refused(file):
    assert ": mirror: Input should be a valid string" in refusal(load_config, file("mirror: [a, b]"))


def test_a_list_in_place_of_settings_is_refused(file):
    assert "(top): Input should be a valid dictionary" in refusal(load_config, file("- scale"))


@pytest.mark.parametrize("text", ["scale: [", "scale: demo\n device: cpu\n", "\tscale: demo", "a: b: c"])
def test_what_is_not_yaml_is_named_in_one_line(file, text):
    path = file(text)
    assert refusal(read_yaml, path).startswith(f"{path} is not valid YAML: ")


def test_yaml_runs_no_code(file):
    message = refusal(read_yaml, file("!!python/object/apply:os.getcwd []"))
    assert "line 1: (top): !!python/object/apply:os.getcwd has no meaning here" in message


def test_a_missing_file_says_where_to_run(tmp_path):
    path = tmp_path / "config.yaml"
    assert refusal(load_config, path) == f"{path} is missing: run from the project's root folder"


def test_a_configuration_cannot_be_changed_behind_ones_back():
    with pytest.raises(ValueError, match="frozen"):
        Config().scale = "paper"


class TestPlaces:
    """The path of a key leads through optional parts, lists and mappings; the known keys are those of its place."""

    @pytest.mark.parametrize(
        ("value", "where"),
        [
            ({"leaf": {"sise": 1}}, "leaf.sise"),
            ({"leaves": [{}, {"sise": 1}]}, "leaves.1.sise"),
            ({"named": {"oak": {"sise": 1}}}, "named.oak.sise"),
        ],
    )
    def test_a_misspelt_key_below_the_top(self, value, where):
        assert refusal(parse, Tree, value, "tree.yaml") == (
            f"tree.yaml: {where}: unknown key; known keys are color, size"
        )

    def test_a_wrong_value_below_the_top(self):
        message = refusal(parse, Tree, {"named": {"oak": {"size": "tall"}}}, "tree.yaml")
        assert message.startswith("tree.yaml: named.oak.size: Input should be a valid integer")

    def test_of_two_mistakes_the_misspelt_key_is_told(self):
        assert ": leef: unknown key" in refusal(parse, Tree, {"leaf": {"size": "tall"}, "leef": {}}, "tree.yaml")
