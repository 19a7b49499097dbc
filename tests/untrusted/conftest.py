"""How files of others are spoilt, and what may come of reading them."""

import copy
import json
import resource
from time import monotonic

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

from leaklab.records.errors import UserError

settings.register_profile(
    "untrusted", deadline=None, database=None, derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow, HealthCheck.data_too_large],
)  # fmt: skip
LONGEST_SECONDS = 10
MOST_MEGABYTES = 500
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


def places(value, way=()):
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [way, *(place for key, part in inner for place in places(part, (*way, key)))]


def _altered(value, draw):
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


def _damaged(content, draw):
    place = draw(st.integers(0, max(0, len(content) - 1)))
    match draw(st.sampled_from(["cut", "turn", "put", "other"])):
        case "cut":
            return content[:place]
        case "turn" if content:
            return content[:place] + bytes([content[place] ^ (1 << draw(st.integers(0, 7)))]) + content[place + 1 :]
        case "put":
            return content[:place] + draw(BYTES) + content[place + draw(st.integers(0, 2)) :]
    return draw(st.binary(max_size=60))


def _spoilt_json(value, draw):
    if draw(st.integers(0, 3)):
        return json.dumps(_altered(value, draw)).encode()
    return _damaged(json.dumps(value).encode(), draw)


class Reading:
    """Reads what was spoilt; a traceback fails, and so does reading that takes long or much memory."""

    altered, damaged, spoilt_json = staticmethod(_altered), staticmethod(_damaged), staticmethod(_spoilt_json)

    def __call__(self, load, *arguments):
        """Return what was read, or the one line of the refusal as an error."""
        started = monotonic()
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        try:
            found = load(*arguments)
        except UserError as error:
            found = error
        assert not isinstance(found, UserError) or (str(found) and "\n" not in str(found))
        assert monotonic() - started < LONGEST_SECONDS
        grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
        assert grown < MOST_MEGABYTES * 1024, grown
        return found


@pytest.fixture(scope="session")
def reading():
    return Reading()
