"""``numbers.csv`` there and back."""

import math

import pytest

from leaklab.records.errors import UserError
from leaklab.records.files import write_text
from leaklab.theory.base import Number, read_numbers, write_numbers

NUMBERS = (
    Number("plain", 0.1 + 0.2),
    Number("gap", 1e-17, {"K": 5, "perturbation": True, "name": 'a, "b" é'}, 0, 2.5, 20),
    Number("gap", -3.0, {"K": 5, "perturbation": False, "name": ""}, 1, None, 20),
    Number("n", 7.0, n=7),
)


def test_numbers_come_back_as_they_were(tmp_path):
    path = tmp_path / "numbers.csv"
    assert write_numbers(path, iter(NUMBERS)) == 4
    assert read_numbers(path) == NUMBERS


def test_counts_are_written_as_whole_numbers(tmp_path):
    write_numbers(tmp_path / "numbers.csv", NUMBERS)
    lines = (tmp_path / "numbers.csv").read_text(encoding="utf-8").splitlines()
    assert lines[0] == "row,metric,index,value,std,n"
    assert lines[1].startswith("{},plain,,0.3000000000")
    assert lines[-1] == "{},n,,7.0,,7"


def test_a_number_that_could_not_be_given_stays_one(tmp_path):
    write_numbers(tmp_path / "numbers.csv", [Number("ratio", math.nan)])
    (back,) = read_numbers(tmp_path / "numbers.csv")
    assert math.isnan(back.value)


def test_no_numbers_are_a_file_too(tmp_path):
    assert write_numbers(tmp_path / "numbers.csv", []) == 0
    assert read_numbers(tmp_path / "numbers.csv") == ()


@pytest.mark.parametrize("text", ["metric,value\na,1\n", "row,metric,index,value,std,n\n[1],a,,1.0,,\n"])
def test_a_damaged_file_is_one_clear_line(tmp_path, text):
    write_text(tmp_path / "numbers.csv", text)
    with pytest.raises(UserError, match=r"numbers\.csv is damaged: delete it and run snakemake again"):
        read_numbers(tmp_path / "numbers.csv")


def test_a_missing_file_is_one_clear_line(tmp_path):
    with pytest.raises(UserError, match="is missing: run snakemake"):
        read_numbers(tmp_path / "numbers.csv")
