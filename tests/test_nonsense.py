"""What is said wrongly is refused in one line that names the file, however wrong it is: thousands of mutations."""

import copy
import random
from pathlib import Path

import pytest
import yaml

from leaklab.data.catalog import load_catalog
from leaklab.items.items import load_item
from leaklab.planning.plan import build_plan
from leaklab.records.config import load_config
from leaklab.records.errors import UserError
from leaklab.report.judge.claims import read_claims
from leaklab.report.judge.printed import read_in_text
from leaklab.report.judge.tolerances import Tolerances
from leaklab.report.numbers.results import ResultTable

ROOT = Path(__file__).parents[1]
# a training, attacks with overrides and labels, sentences, a landscape, checks
ITEMS = ("lrp/table2", "lrp/table5", "lrp/figure2", "lrp/figure6", "lrp/table7", "lrp/figure5", "lrp/theorem1")
NONSENSE = (
    None, True, False, 0, -1, 1, 2, 7, 10**9, 10**30, -0.0, 0.5, -0.5, 1e308, -1e308, float("nan"), float("inf"), "",
    " ", "x", "7", "none", "../x", "a.b", ".", "a\nb", "{", "{0}", "{model", "ü", [], [[]], [None], [1, 1], ["x"],
    [[1.0]], ["x", "x"], {}, {"": 1}, {"name": "x"}, {"name": []}, {"name": "lrp", "settings": []}, {"grid": 1},
    {"grid": [[]]}, {"grid": [["x", float("-inf")]]}, {"when": 1, "set": 2}, {"a.b": [1, 2]}, "0" * 1000,
)  # fmt: skip
KEYS = ("like", "rate", "name", "", "overrides", "skip")
BYTES = (
    b"\xff", b"\x00", b"\xef\xbb\xbf", b"[" * 300, b"{" * 60, b"- " * 80, b"9" * 5000, b"\n\n---\n", b": ",
    b"&a *a", b"!!binary x", b"!!timestamp x", b"%", b"\t", b".nan", b"-.inf", b"2020-01-01", b"<<: 1", b"? 1", b"'",
    b'"', b"no: 1\n", b"1: 1\n",
)  # fmt: skip


def places(value, path=()):
    """Yield the path of everything in a tree."""
    if isinstance(value, dict | list):
        for key, inner in value.items() if isinstance(value, dict) else enumerate(value):
            yield (*path, key)
            yield from places(inner, (*path, key))


def mutated(tree, draw):
    """Return a copy of the tree with one to three places changed, dropped, renamed, doubled or moved."""
    tree = copy.deepcopy(tree)
    for _ in range(draw.choice((1, 1, 1, 2, 3))):
        paths = list(places(tree))
        if not paths:
            break
        *way, last = draw.choice(paths)
        parent = tree
        for key in way:
            parent = parent[key]
        what = draw.randrange(6)
        if what == 0:
            del parent[last]
        elif what == 1 and isinstance(parent, dict):
            parent[draw.choice((f"{last}x", f"{last}.x", *KEYS))] = parent.pop(last)
        elif what == 2 and isinstance(parent, list):
            parent.append(copy.deepcopy(parent[last]))
        elif what == 3:
            parent[last] = copy.deepcopy(draw.choice(list(_values(tree))))
        else:
            parent[last] = copy.deepcopy(draw.choice(NONSENSE))
    return tree


def _values(tree):
    for path in places(tree):
        value = tree
        for key in path:
            value = value[key]
        yield value


def damaged(content, draw):
    """Return bytes with something foreign in them, or cut off, or a line twice."""
    place = draw.randrange(len(content))
    if draw.randrange(4) == 0:
        return content[:place]
    if draw.randrange(4) == 0:
        lines = content.split(b"\n")
        lines.insert(draw.randrange(len(lines)), draw.choice(lines))
        return b"\n".join(lines)
    return content[:place] + draw.choice(BYTES) + content[place + draw.randrange(3) :]


def plan_of(path):
    item = load_item(path)
    build_plan({item.key: item})


@pytest.fixture
def outcome(tmp_path):
    """Write a file and read it: True where it is accepted, False where it is refused as it should be."""

    def judge(content, read, name):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        try:
            read(path)
        except UserError as error:
            message = str(error)
            assert "\n" not in message
            assert str(path) in message or f"config/items/{Path(name).with_suffix('')}.yaml" in message
            return False
        return True

    return judge


def written(tree):
    return yaml.dump(tree, Dumper=getattr(yaml, "CSafeDumper", yaml.SafeDumper), allow_unicode=True).encode()


def small(tree):
    """An item whose blocks are planned once: what the other scales change is checked by the same code."""
    scales = tree["scales"]
    return {**tree, "scales": {"demo": scales["demo"]}}


@pytest.mark.parametrize("name", ITEMS)
def test_a_mutated_item_is_planned_or_refused_in_one_line(outcome, name):
    draw = random.Random(name)
    tree = small(yaml.safe_load((ROOT / f"config/items/{name}.yaml").read_text(encoding="utf-8")))
    assert outcome(written(tree), plan_of, f"{name}.yaml")
    judged = [outcome(written(mutated(tree, draw)), plan_of, f"{name}.yaml") for _ in range(200)]
    judged += [outcome(damaged(written(tree), draw), plan_of, f"{name}.yaml") for _ in range(40)]
    assert 0.3 < judged.count(False) / len(judged) < 0.98  # mutations hit, and not every one is fatal


CATALOGS = {
    "config.yaml": load_config,
    "datasets.yaml": load_catalog,
    "texts.yaml": load_catalog,
    "papers/tolerances.yaml": Tolerances.load,
}


@pytest.mark.parametrize(("name", "read"), CATALOGS.items())
def test_a_mutated_configuration_is_read_or_refused_in_one_line(outcome, name, read):
    draw = random.Random(name)
    tree = yaml.safe_load((ROOT / f"config/{name}").read_text(encoding="utf-8"))
    if name == "datasets.yaml":
        tree = {key: tree[key] for key in list(tree)[:6]}
    assert outcome(written(tree), read, name)
    judged = [outcome(written(mutated(tree, draw)), read, name) for _ in range(150)]
    judged += [outcome(damaged(written(tree), draw), read, name) for _ in range(80)]
    assert 0.3 < judged.count(False) / len(judged) < 0.98


TABLES = {
    "papers/claims.csv": read_claims,
    "papers/targets.csv": ResultTable.read_printed,
    "papers/sentences.csv": read_in_text,
}


def table_with_other_cells(content, draw):
    """Return the bytes of a CSV table with one cell or line changed."""
    lines = content.split(b"\n")
    number = draw.randrange(len(lines))
    cells = lines[number].split(b",")
    place = draw.randrange(len(cells))
    cells[place : place + draw.randrange(3)] = [
        draw.choice((b"", b"nan", b"1e999", b"{}", b"[" * 2000, b"x()", b'"', *BYTES))
    ]
    return b"\n".join([*lines[:number], b",".join(cells), *lines[number + 1 :]])


@pytest.mark.parametrize(("name", "read"), TABLES.items())
def test_a_mutated_table_of_a_paper_is_read_or_refused_in_one_line(outcome, name, read):
    draw = random.Random(name)
    content = b"\n".join((ROOT / "config" / name).read_bytes().split(b"\n")[:40])
    assert outcome(content + b"\n", read, name)
    judged = [outcome(draw.choice((damaged, table_with_other_cells))(content, draw), read, name) for _ in range(150)]
    assert 0.1 < judged.count(False) / len(judged) < 0.98
