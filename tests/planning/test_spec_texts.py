"""Texts and names that are put together are those that are written as a whole."""

from typing import ClassVar

import pytest

from leaklab.items.items import load_items
from leaklab.planning.plan import build_plan
from leaklab.planning.spec_texts import SpecTexts
from leaklab.records.config import SCALES
from leaklab.records.record import Component, Record, canonical_json
from leaklab.specs.base import run_id


@pytest.mark.parametrize("scale", SCALES)
def test_every_run_of_every_scale_has_its_text_and_name(scale):
    texts = SpecTexts()
    for jobs in build_plan(load_items(), (scale,)).jobs.values():
        for name, job in jobs.items():
            assert texts.text(job.spec) == canonical_json(job.spec)
            assert texts.run_id(job.spec) == run_id(job.spec) == name


class Odd(Record):
    LATER: ClassVar[frozenset[str]] = frozenset({"later", "z"})

    text: str = 'ü"\\\n\x00\x7f\u2028 🙂'
    later: tuple[Component | None, ...] = ()
    z: float = 1.0
    a: float | int | bool | None = None
    nested: dict[str, dict[str, float]] = {}  # noqa: RUF012  as of a field, which pydantic copies


@pytest.mark.parametrize(
    "record",
    [
        Odd(),
        Odd(later=(None, Component(name="x", settings={"é": 1e-300, "b": True, "a": 1})), z=2),
        Odd(a=True, z=1),
        Odd(a=1),
        Odd(a=1.0, nested={"b": {"z": 0.1, "a": -0.0}, "a": {}}),
        Odd(text="\ud800"),
    ],
)
def test_whatever_stands_in_a_field(record):
    assert SpecTexts().text(record) == canonical_json(record)


def test_a_record_that_is_gone_gives_its_place_to_no_other():
    texts = SpecTexts()
    found = {texts.text(Component(name=str(number))) for number in range(1000)}
    assert len(found) == 1000
