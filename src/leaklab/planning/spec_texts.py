"""Texts and names of many specs: those of their parts are written once, as most runs of others are parts of them.

The text is that of ``records/record.py::canonical_json``, part for part; a test holds both against each other for every
run of every scale.
"""

import hashlib
import json
from collections.abc import Mapping
from functools import cache
from typing import Any

from leaklab.records.record import Record, canonical_json
from leaklab.specs import base
from leaklab.specs.base import Spec

_string = json.encoder.encode_basestring


class SpecTexts:
    """The texts of specs that are kept while it lives, so that no other can take the place of one in memory."""

    def __init__(self) -> None:
        """Know none."""
        self._known: dict[int, tuple[Record, str]] = {}

    def run_id(self, spec: Spec) -> str:
        """Return ``specs/base.py::run_id`` of the same."""
        digest = hashlib.sha256(self.text(spec).encode()).hexdigest()[: base.HASH_LENGTH]
        return f"{spec.slug()}-{digest}"

    def text(self, record: Record) -> str:
        """Return the canonical JSON of a spec, or of a part of one."""
        known = self._known.get(id(record))
        if known is None:
            known = self._known[id(record)] = record, self._written(record)
        return known[1]

    def _written(self, record: Record) -> str:
        fields, values = _fields(type(record)), vars(record)
        parts = [
            f"{head}{self._value(values[name])}"
            for name, head, later, default in fields
            if not (later and values[name] == default)
        ]
        return f"{{{','.join(parts)}}}"

    def _value(self, value: Any) -> str:
        kind = type(value)
        if kind is str:
            return _string(value)
        if kind is int:
            return str(value)
        if kind is tuple:
            return f"[{','.join([self._value(one) for one in value])}]"
        if kind is dict and all(type(key) is str for key in value):
            return f"{{{','.join([f'{_string(key)}:{self._value(value[key])}' for key in sorted(value)])}}}"
        return self.text(value) if isinstance(value, Record) else canonical_json(value)


@cache
def _fields(kind: type[Record]) -> tuple[tuple[str, str, bool, Any], ...]:
    """Return name, text up to the value, whether it came later, and default of each field, in the order of the text."""
    known: Mapping[str, Any] = kind.model_fields
    return tuple((name, f"{_string(name)}:", name in kind.LATER, known[name].default) for name in sorted(known))
