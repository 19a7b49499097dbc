"""How files and values are spoilt, as hypothesis draws it."""

import copy
import json
from collections.abc import Callable
from typing import Any

from hypothesis import strategies as st

Draw = Callable[[st.SearchStrategy[Any]], Any]
Way = tuple[Any, ...]
CUNNING = (
    "", "x", "../../x", "/etc/passwd", "\x00", "\ud800", "a" * 5000, "[/b]", "\x1b[31m", "a\nb", 10**400, float("nan"),
    float("inf"), -1, 2**63, None, True, [], {}, [[]], {"": None},
)  # fmt: skip
JUNK = st.sampled_from(CUNNING) | st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=5,
)
BYTES = st.sampled_from([b"\xff", b"\0" * 9, b"[" * 3000, b"9" * 5000, b"\x80\x04"]) | st.binary(max_size=12)
NAMES = st.sampled_from(["x", "", "../x", "/a", "[/b]", "a" * 300, "\x00", "\ud800"])


def places(value: Any, way: Way = ()) -> list[Way]:
    """Return the keys that lead to each part of a value of JSON."""
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [way, *(place for key, part in inner for place in places(part, (*way, key)))]


def altered(value: Any, draw: Draw) -> Any:
    """Return a value of JSON with one part dropped, replaced, renamed, or with something beside it."""
    found = copy.deepcopy(value)
    way = draw(st.sampled_from(places(found)))
    if not way:
        return draw(JUNK)
    holder = found
    for key in way[:-1]:
        holder = holder[key]
    match draw(st.sampled_from(["drop", "replace", "beside", "rename"])):
        case "drop":
            del holder[way[-1]]
        case "replace":
            holder[way[-1]] = draw(JUNK)
        case "rename" if isinstance(holder, dict):
            holder[draw(NAMES)] = holder.pop(way[-1])
        case "beside" if isinstance(holder, dict):
            holder[draw(NAMES)] = draw(JUNK)
        case _:
            holder.append(draw(JUNK)) if isinstance(holder, list) else holder.clear()
    return found


def damaged(content: bytes, draw: Draw) -> bytes:
    """Return bytes that are cut, have one bit turned, some others put in, or are others altogether."""
    place = draw(st.integers(0, max(0, len(content) - 1)))
    match draw(st.sampled_from(["cut", "turn", "put", "other"])):
        case "cut":
            return content[:place]
        case "turn" if content:
            return content[:place] + bytes([content[place] ^ (1 << draw(st.integers(0, 7)))]) + content[place + 1 :]
        case "put":
            return bytes(content[:place] + draw(BYTES) + content[place + draw(st.integers(0, 2)) :])
    return bytes(draw(st.binary(max_size=60)))


def spoilt_json(value: Any, draw: Draw) -> bytes:
    """Return the text of an altered value, or the damaged text of the value."""
    if draw(st.integers(0, 3)):
        return json.dumps(altered(value, draw)).encode()
    return damaged(json.dumps(value).encode(), draw)
