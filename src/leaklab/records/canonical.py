"""The one JSON text of a spec, by which runs are named and told apart."""

import json
from typing import Any

from pydantic import BaseModel


def canonical_json(value: Any) -> str:
    """Return the one JSON text of a spec: sorted keys, no spaces, defaults written out."""
    plain = value.model_dump(mode="json") if isinstance(value, BaseModel) else value
    return json.dumps(plain, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
