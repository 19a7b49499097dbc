"""Text where a number was meant is refused with the way to write it, in whatever YAML file it stands."""

import pytest
import yaml

from leaklab.records.config import Config, parse, plain_data, read_yaml
from leaklab.records.errors import UserError
from leaklab.records.text_numbers import hint, hinted, refuse_text_numbers, text_numbers


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("1e-7", "1.0e-7"),
        ("-1e-7", "-1.0e-7"),
        ("1E-7", "1.0e-7"),
        ("1.5e3", "1500 or 1.5e+3"),
        (".5e-3", "0.5e-3"),
        ("1.e-3", "1.0e-3"),
        ("6e1", "60 or 6.0e+1"),
        ("1e9", "1.0e+9"),
    ],
)
def test_what_is_advised_is_a_number_to_yaml(text, written):
    value = yaml.safe_load(text)
    assert isinstance(value, str) == (text not in (".5e-3", "1.e-3"))  # which are text in quotes only
    assert hint(text) == f"'{text}' is text to YAML, and no number: write {written}"
    for one in written.split(" or "):
        assert plain_data(one) == float(text)


def test_a_number_in_quotes_is_to_lose_them():
    assert hint("1.0e-7").endswith("write 1.0e-7, without quotes")


@pytest.mark.parametrize("text", ["e5", ".e5", "1e", "one", "09f66e6debdee2", "2024-01-01", "1", "0.5", "1e5x", ""])
def test_other_texts_are_texts(text):
    assert not list(text_numbers({"a": [text]}))


def test_the_place_is_named():
    with pytest.raises(UserError, match=r"^a\.yaml: runs\.main\.rates\.0\.1: '1e-3' is text to YAML"):
        refuse_text_numbers({"runs": {"main": {"rates": [[0.1, "1e-3"]]}}}, "a.yaml")
    refuse_text_numbers({"runs": {"row": {"method": "1e-3"}}}, "a.yaml", frozenset({"row"}))


def test_an_error_about_a_file_gets_the_hint(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "config.yaml").write_text("checkpoint_seconds: 1e2\n")
    with pytest.raises(UserError) as caught:
        parse(Config, read_yaml(tmp_path / "config.yaml"), "config.yaml")
    said = str(caught.value)
    assert hinted(said) == f"{said}: '1e2' is text to YAML, and no number: write 100 or 1.0e+2"
    assert hinted(hinted(said)) == hinted(said)


@pytest.mark.parametrize(
    "said", ["config.yaml: other: Input should be a valid number", "gone.yaml: a: Input should be a valid number", "no"]
)
def test_an_error_about_something_else_gets_none(tmp_path, monkeypatch, said):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "config.yaml").write_text("checkpoint_seconds: 1e2\n")
    assert hinted(said) == said
