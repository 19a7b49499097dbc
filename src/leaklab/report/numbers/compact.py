"""How a result table lies in its file without saying a thing many times.

* Lists that many rows share (``substitutes``, ``runs``) are written out where they first stand, ``[2] first; second``,
  and as ``[2]`` after that.
* The points of a curve that follow each other are one line: ``index`` is ``"0-60"`` in the row's keys, and the numbers
  stand beside each other in their cells, divided by spaces, ``-`` for none. A number that is the same at all points
  stands once. The coordinates of the points are a list in the row's keys.
* So are the images of one setting that follow each other, or its updates: ``image`` or ``update`` is a list in the
  row's keys.
"""

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from itertools import groupby
from typing import Any

SHARED_COLUMNS = ("substitutes", "runs")
POINT_COLUMNS = ("value", "std", "ci_low", "ci_high", "n", "clusters")
INDEX, IMAGE, UPDATE = "index", "image", "update"
SINGLES = (IMAGE, UPDATE)
"""Keys of rows that stand in one line with those of the same setting."""
COORDINATES = ("alpha", "beta")
NO_NUMBER = "-"
MOST_POINTS = 10**5
"""Of a curve in one line: hundreds of times what any run has, and read within seconds."""
_SHARED = re.compile(r"\[(\d+)\](?: (.+))?")
_SPAN = re.compile(r"(\d+)-(\d+)")

Cells = dict[str, str]


def packed(lines: Iterable[Cells]) -> Iterator[Cells]:
    """Yield the lines of a file for lines of one number each."""
    numbers: dict[tuple[str, str], int] = {}
    for line in _with_singles(_with_curves(lines)):
        for name in SHARED_COLUMNS:
            line[name] = _numbered(name, line[name], numbers)
        yield line


def unpacked(lines: Iterable[tuple[int, Cells]]) -> Iterator[tuple[int, Cells]]:
    """Yield one line per number for the lines of a file, each with the number of its line there.

    Raises:
        ValueError: a list or a point is missing; the message begins with the line.
    """
    known: dict[tuple[str, str], str] = {}
    rows = cache(_rows)  # lines of several metrics have the same keys
    for place, line in lines:
        try:
            for name in SHARED_COLUMNS:
                line[name] = _written_out(name, line[name], known)
            yield from ((place, point) for point in _points(line, rows(line["row"])))
        except RecursionError:
            raise ValueError(f"line {place}: row is nested too deeply") from None
        except ValueError as error:
            raise ValueError(f"line {place}: {error}") from None


def _numbered(name: str, text: str, numbers: dict[tuple[str, str], int]) -> str:
    if not text:
        return text
    known = (name, text) in numbers
    number = numbers.setdefault((name, text), sum(column == name for column, _ in numbers))
    return f"[{number}]" if known else f"[{number}] {text}"


def _written_out(name: str, text: str, known: dict[tuple[str, str], str]) -> str:
    found = _SHARED.fullmatch(text)
    if found is None:
        return text
    number, written = found.groups()
    if written is None and (name, number) not in known:
        raise ValueError(f"{name} [{number}] is written out nowhere above it")
    return known.setdefault((name, number), written)


def _with_curves(lines: Iterable[Cells]) -> Iterator[Cells]:
    """Yield the lines with those of a curve in one, where they follow each other."""
    placed = ((_index(line), line) for line in lines)
    # points of one curve keep what they share and index minus place
    numbered = ((place, *pair) for place, pair in enumerate(placed))
    for key, group in groupby(numbered, key=lambda one: _curve(*one)):
        members = [line for _, _, line in group]
        yield from [_curve_line(members)] if key is not None and len(members) > 1 else members


def _with_singles(lines: Iterable[Cells]) -> Iterator[Cells]:
    """Yield the lines with those of several images or updates of one setting in one, where they follow each other."""
    for setting, group in groupby(lines, key=_of_single):
        members = list(group)
        if setting is None or len(members) == 1:
            yield from members
            continue
        key, rows = setting[0], [json.loads(line["row"]) for line in members]
        yield members[0] | {"row": _text({**rows[0], key: [row[key] for row in rows]})} | _numbers(members)


def _of_single(line: Cells) -> tuple[Any, ...] | None:
    """Return what a line shares with those of other images or updates, its key first; None for any other line."""
    row = json.loads(line["row"])
    key = next((name for name in SINGLES if isinstance(row.get(name), int)), None)
    if INDEX in row or key is None:
        return None
    return key, _text({**row, key: key}), _shared(line)


def _curve(place: int, index: int | None, line: Cells) -> tuple[Any, ...] | None:
    if index is None:
        return None
    row = json.loads(line["row"])
    rest = {key: key if key in COORDINATES else value for key, value in row.items() if key != INDEX}
    # longer curves are cut: a line holds no more than is read back
    return index // MOST_POINTS, index - place, json.dumps(rest, sort_keys=True), _shared(line)


def _shared(line: Cells) -> tuple[str, ...]:
    return tuple(value for name, value in line.items() if name not in (*POINT_COLUMNS, "row"))


def _index(line: Cells) -> int | None:
    if f'"{INDEX}": ' not in line["row"]:
        return None
    index = json.loads(line["row"]).get(INDEX)
    return index if isinstance(index, int) and not isinstance(index, bool) else None


def _curve_line(points: Sequence[Cells]) -> Cells:
    rows = [json.loads(point["row"]) for point in points]
    row = {**rows[0], INDEX: f"{rows[0][INDEX]}-{rows[-1][INDEX]}"}
    row |= {name: [one[name] for one in rows] for name in COORDINATES if name in row}
    return points[0] | {"row": _text(row)} | _numbers(points)


def _numbers(points: Sequence[Cells]) -> Cells:
    return {name: _together([point[name] for point in points]) for name in POINT_COLUMNS}


def _together(numbers: Sequence[str]) -> str:
    if len(set(numbers)) == 1:
        return numbers[0]
    return " ".join(number or NO_NUMBER for number in numbers)


def _points(line: Cells, rows: Sequence[str] | None) -> Iterator[Cells]:
    if rows is None:
        yield line
        return
    columns = {name: _apart(line[name], len(rows), name) for name in POINT_COLUMNS}
    for number, row in enumerate(rows):
        yield line | {name: values[number] for name, values in columns.items()} | {"row": row}


def _rows(text: str) -> list[str] | None:
    """Return the keys of all points in a line; None where the line is of one number."""
    begins = (f'"{INDEX}": "', *(f'"{key}": [' for key in SINGLES))
    row = json.loads(text) if any(begin in text for begin in begins) else {}
    if not isinstance(row, dict):
        raise ValueError("row is not a JSON object")
    places: list[dict[str, Any]]
    if span := _SPAN.fullmatch(str(row.get(INDEX))):
        places = _along(row, *map(int, span.groups()))
    elif key := next((name for name in SINGLES if isinstance(row.get(name), list)), None):
        places = [{key: single} for single in row[key]]
    else:
        return None
    return [_text(row | place) for place in places]


def _along(row: dict[str, Any], first: int, last: int) -> list[dict[str, Any]]:
    """Return what the points of a curve have in their keys: index, and coordinates."""
    count = last - first + 1
    if count > MOST_POINTS:
        raise ValueError(f"{INDEX} speaks of {count:,} points, more than {MOST_POINTS:,}")
    own = {name: row[name] for name in COORDINATES if isinstance(row.get(name), list)}
    if any(len(values) != count for values in own.values()):
        raise ValueError(f"{', '.join(own)} has not {count} numbers for as many points")
    return [{INDEX: first + number} | {name: values[number] for name, values in own.items()} for number in range(count)]


def _text(row: dict[str, Any]) -> str:
    return json.dumps(row, sort_keys=True, separators=(", ", ": "), ensure_ascii=False)


def _apart(text: str, count: int, name: str) -> list[str]:
    parts = ["" if part == NO_NUMBER else part for part in text.split(" ")]
    if len(parts) == 1:
        return parts * count
    if len(parts) != count:
        raise ValueError(f"{name} has {len(parts)} numbers for {count} points")
    return parts


# The same for who reads many tables (``reading.py``): keys as mappings, each line's numbers apart.


def keys_in_line(text: str) -> list[dict[str, Any]]:
    """Return the keys of every number in a line; one, where the line is of one number.

    Raises:
        ValueError: they are not sorted, as only a file that was not written here has them; or see ``unpacked``.
    """
    row = json.loads(text)
    if not isinstance(row, dict) or list(row) != sorted(row) or any(isinstance(one, dict) for one in row.values()):
        raise ValueError("row is not as it is written")
    if span := _SPAN.fullmatch(row[INDEX]) if isinstance(row.get(INDEX), str) else None:
        return [row | place for place in _along(row, *map(int, span.groups()))]
    key = next((name for name in SINGLES if isinstance(row.get(name), list)), None)
    return [row] if key is None else [row | {key: single} for single in row[key]]


def numbers_in_line(text: str, count: int) -> list[str]:
    """Return the numbers of a cell, as many as the line has keys.

    Raises:
        ValueError: there are others.
    """
    return [text] if count == 1 else _apart(text, count, "a cell")
