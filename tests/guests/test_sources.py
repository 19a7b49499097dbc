"""Defenses that are given as Python objects: the file that is judged defends as they do."""

import functools
import importlib
import linecache
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest
import torch

from leaklab.defenses.base import ClientContext
from leaklab.defenses.noise import GradientClipping
from leaklab.guests import judging
from leaklab.guests.calls import Subject
from leaklab.guests.files import find
from leaklab.guests.sources import source_of
from leaklab.records.errors import UserError

FILE = """
import torch
from dataclasses import dataclass
from leaklab.defenses.base import Defense

@dataclass(frozen=True)
class Scaling(Defense):
    factor: float = 2.0
    def gradient(self, gradients, context):
        return {name: self.factor * value for name, value in gradients.items()}

def halving(gradients):
    return {name: value / 2 for name, value in gradients.items()}

def negative(gradients, context):
    return {name: -value for name, value in gradients.items()}

three = Scaling(3.0)
class Mine: pass
"""
CELLS = (
    """
import math
import torch.nn.functional as F
from collections.abc import Mapping
from dataclasses import dataclass
from leaklab.defenses.base import Defense as Base
FACTOR, NAMES = 4.0, {"weight": (1, 2)}
model = object()
value = model  # a name that a defense uses for something of its own
""",
    """
def even(n): return n == 0 or odd(n - 1)
def odd(n): return n != 0 and even(n - 1)
def scaled(value: float) -> float:
    return F.relu(value) * FACTOR * math.exp(0) * even(4)
alias = scaled
""",
    """
def plain(gradients: Mapping):
    return {name: alias(value) for name, value in gradients.items()}
def of_model(gradients):
    return model
def closed():
    factor = 3
    def inside(gradients):
        return {name: factor * value for name, value in gradients.items()}
    return inside
inside = closed()
nameless = lambda gradients: gradients
""",
    """
@dataclass(frozen=True)
class Scaling(Base):
    factor: float = 2.0
    def gradient(self, gradients, context):
        return {name: self.factor * alias(value) for name, value in gradients.items()}
class Keeping(Base):
    def __init__(self, *kept): object.__setattr__(self, "kept", kept)
    def gradient(self, gradients, context):
        assert super().gradient(gradients, context) is gradients
        return {name: self.kept[0] * value for name, value in gradients.items()}
five, keeping, six = Scaling(factor=1.25), Keeping(model), Keeping(6)
class Bare: pass
""",
)
GIVEN = {"weight": torch.tensor([-1.0, 2.0])}


def defended(source):
    """Return what a file's defense makes of a gradient."""
    guest = find(source.file, source.offered)
    defense = Subject.load(source.file, guest.sha256, source.offered).new()
    return defense.gradient(GIVEN, ClientContext(scaled_rate=0.1, seed=0, client=0))["weight"].tolist()


@pytest.fixture
def module(tmp_path, monkeypatch):
    (tmp_path / "several_defenses.py").write_text(FILE)
    monkeypatch.syspath_prepend(str(tmp_path))
    yield importlib.import_module("several_defenses")
    sys.modules.pop("several_defenses", None)


@pytest.fixture
def notebook(monkeypatch):
    """Cells as a notebook keeps them: in ``__main__``, with lines but no file."""
    main = ModuleType("__main__")
    monkeypatch.setitem(sys.modules, "__main__", main)
    for number, cell in enumerate(CELLS):
        name = f"/nowhere/ipykernel_1/{number}.py"
        monkeypatch.setitem(linecache.cache, name, (len(cell), None, cell.splitlines(keepends=True), name))
        exec(compile(cell, name, "exec"), vars(main))
    return main


@pytest.mark.parametrize(
    ("name", "found"), [("Scaling", [-2, 4]), ("halving", [-0.5, 1]), ("negative", [1, -2]), ("three", [-3, 6])]
)
def test_of_a_file_with_several_the_one_that_is_meant_is_judged_there(module, tmp_path, name, found):
    source = source_of(getattr(module, name), tmp_path)
    assert source.file == tmp_path / "several_defenses.py"
    assert not source.written
    assert defended(source) == found


def test_an_object_without_a_name_is_made_again_with_its_settings(module, tmp_path):
    (tmp_path / "out").mkdir()
    source = source_of(module.Scaling(7.0), tmp_path / "out")
    assert source.written
    assert defended(source) == [-7, 14]


@pytest.mark.parametrize(
    ("name", "found"), [("plain", [0, 8]), ("Scaling", [0, 16]), ("five", [0, 10]), ("six", [-6, 12])]
)
def test_what_stands_in_cells_is_written_down_with_what_it_uses(notebook, tmp_path, name, found):
    source = source_of(getattr(notebook, name), tmp_path)
    assert source.written
    assert "NAMES" not in source.file.read_text()
    assert defended(source) == found


REFUSED = {
    "of_model": "it uses 'model', a object that cannot be written down: put it into a file",
    "inside": "inside closes over 'factor' of the function that it was made in",
    "nameless": "a lambda has no name",
    "keeping": "the Keeping that is given keeps 'kept', which cannot be written down",
    "Bare": "the source of Bare cannot be had from here: put it into a file",
    "even.__call__": "is no plain function",
    "partial": "a partial cannot be written down: define a function with def",
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_written_down_is_refused_in_one_line(notebook, tmp_path, name):
    given = {"partial": functools.partial(notebook.plain), "even.__call__": notebook.even.__call__}
    with pytest.raises(UserError) as refused:
        source_of(given.get(name) or getattr(notebook, name), tmp_path)
    assert REFUSED[name] in str(refused.value)
    assert "\n" not in str(refused.value)


def test_a_defense_of_the_house_is_judged_where_it_stands(tmp_path):
    source = source_of(GradientClipping, tmp_path)
    assert find(source.file, source.offered).offered == "GradientClipping"
    assert source.file.name == "noise.py"


def test_at_a_prompt_without_lines_the_advice_is_one_line():
    program = "import leaklab\ndef defend(gradients): return gradients\ntry: leaklab.judge(defend)\n"
    program += "except Exception as error: print(type(error).__name__, error)\n"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    wanted = "the source of defend cannot be had from here: put it into a file, and give its path\n"
    assert done.stdout == f"UserError {wanted}"


def test_a_name_that_a_file_has_not_is_refused(module):
    with pytest.raises(UserError, match="has no Other at its top level: define it there"):
        find(Path(module.__file__), "Other")


def test_an_error_in_what_was_written_down_names_its_line_in_words(notebook, monkeypatch):
    def in_child(task, file, arguments, **limits):
        number = file.read_text().splitlines().index("def scaled(value: float) -> float:") + 2
        raise UserError(f"{file}, line {number}: TypeError while it defends a gradient: no")

    monkeypatch.setattr(judging, "in_child", in_child)
    with pytest.raises(UserError) as refused:
        judging.judge(notebook.plain)
    said = str(refused.value)
    assert said.startswith("plain.py, line ")
    assert said.endswith(" no (the line is: return F.relu(value) * FACTOR * math.exp(0) * even(4))")
