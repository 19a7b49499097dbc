"""From YAML text to plain data: text, finite numbers, true, false, null, lists, and mappings whose keys are text.

PyYAML takes more than a configuration can mean: of two equal keys the last one wins, ``.nan`` is a number, ``no`` may
be a key, a date is an object. Such things are refused here, with line and key.
"""

import math
from collections.abc import Iterator
from typing import Any

import yaml

LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # libyaml reads all items in a sixth of the time
DEEPEST = 50
MOST_NODES = 100_000
LARGEST = 2**63
_STANDARD = "tag:yaml.org,2002:"
_ALLOWED = {_STANDARD + kind for kind in ("str", "int", "float", "bool", "null", "seq", "map", "merge")}

Place = tuple[str, ...]


def plain_data(text: str) -> Any:
    """Return the one document of ``text``, None where it is empty.

    Raises:
        yaml.YAMLError: the text is not YAML.
        ValueError: it is, but holds what a configuration cannot; one line with line number and key.
    """
    _refuse_depth(text)  # on events: libyaml composes and Python visits nodes recursively
    loader = LOADER(text)
    try:
        node = loader.get_single_node()
        if node is None:
            return None
        for number, (inner, place) in enumerate(_nodes(node, ())):
            if number == MOST_NODES:
                raise ValueError(f"more than {MOST_NODES:,} values: anchors and aliases repeat too much")
            _check(loader, inner, place)
        return loader.construct_document(node)
    finally:
        loader.dispose()


def _refuse_depth(text: str) -> None:
    depth = 0
    for event in yaml.parse(text, Loader=LOADER):
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        if depth > DEEPEST:
            raise ValueError(f"{_line(event)}: nested more than {DEEPEST} levels deep")


def _nodes(node: yaml.Node, place: Place) -> Iterator[tuple[yaml.Node, Place]]:
    """Yield a node and all below it, aliases written out, each with the keys that lead to it."""
    if len(place) > DEEPEST:
        raise ValueError(f"{_at(node, place[:3])}: an anchor that contains itself")
    yield node, place
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            yield from _nodes(value, (*place, str(key.value)))
    elif isinstance(node, yaml.SequenceNode):
        for number, value in enumerate(node.value):
            yield from _nodes(value, (*place, str(number)))


def _check(loader: Any, node: yaml.Node, place: Place) -> None:
    if node.tag not in _ALLOWED:
        shown = node.tag.replace(_STANDARD, "!!")
        advice = "write a number, true, false, null, or text (in quotes where it looks otherwise)"
        raise ValueError(f"{_at(node, place)}: {shown} has no meaning here: {advice}")
    if isinstance(node, yaml.MappingNode):
        _check_keys(node, place)
    elif node.tag in (f"{_STANDARD}int", f"{_STANDARD}float"):
        _check_number(loader, node, place)


def _check_keys(node: yaml.MappingNode, place: Place) -> None:
    seen: set[str] = set()
    for key, _ in node.value:
        if key.tag == f"{_STANDARD}merge":
            continue
        if key.tag != f"{_STANDARD}str":
            raise ValueError(f"{_at(key, place)}: the key {key.value} is not text: put it in quotes")
        if key.value in seen:
            raise ValueError(f"{_at(key, (*place, key.value))}: the key stands here twice: keep one of them")
        seen.add(key.value)


def _check_number(loader: Any, node: yaml.Node, place: Place) -> None:
    try:
        value = loader.construct_object(node)
    except (ValueError, OverflowError):
        value = math.nan
    if not (math.isfinite(value) if isinstance(value, float) else abs(value) < LARGEST):
        raise ValueError(f"{_at(node, place)}: {str(node.value)[:20]} is not a number to calculate with: correct it")


def _at(node: yaml.Node, place: Place) -> str:
    return f"{_line(node)}: {'.'.join(place) or '(top)'}"


def _line(marked: Any) -> str:
    return f"line {marked.start_mark.line + 1}"
