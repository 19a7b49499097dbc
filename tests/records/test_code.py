"""What reruns a step: a changed line that it reaches, and nothing else."""

import ast
import shutil

import pytest

from leaklab.records import code

ROOT = code.SOURCE
STEP = "leaklab.planning.code"  # imports records.expand, which imports records.ids, which imports records.specs
REACHED = "leaklab/records/ids.py"
NOT_REACHED = "leaklab/records/streams.py"


def forget():
    for cached in (code._tree, code._imports, code._fingerprint):
        cached.cache_clear()


@pytest.fixture
def tree(tmp_path, monkeypatch):
    """A copy of our own source that a test may edit."""
    for room in ("records", "planning"):
        shutil.copytree(ROOT / "leaklab" / room, tmp_path / "leaklab" / room)
    shutil.copy(ROOT / "leaklab/__init__.py", tmp_path / "leaklab/__init__.py")
    monkeypatch.setattr(code, "SOURCE", tmp_path)
    forget()
    yield tmp_path
    forget()


@pytest.fixture
def package(tmp_path, monkeypatch):
    """A package of single-line modules, written by the test."""
    monkeypatch.setattr(code, "SOURCE", tmp_path)

    def write(**modules):
        for name, text in modules.items():
            path = tmp_path / "leaklab" / f"{name.replace('__in__', '/')}.py"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        forget()
        return code.digest(["leaklab.step"])

    yield write
    forget()


def after(tree, file, edit, step=STEP):
    """Return the step's digest after ``edit`` changed the text of ``file``."""
    path = tree / file
    old = path.read_text(encoding="utf-8")
    new = edit(old)
    assert new != old
    path.write_text(new, encoding="utf-8")
    forget()
    return code.digest([step])


def replace(old, new):
    def edit(text):
        assert old in text
        return text.replace(old, new, 1)

    return edit


def docstrings_replaced(text):
    tree = ast.parse(text)
    found = 0
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) and ast.get_docstring(node):
            node.body[0] = ast.Expr(ast.Constant("Something else."))
            found += 1
    assert found >= 4
    return ast.unparse(ast.fix_missing_locations(tree))


NEUTRAL = {
    "comment": lambda text: f"# a remark\n{text}\n# another\n",
    "docstring": docstrings_replaced,
    "docstring removed": replace('    """Return ``<slug>-<hash8>``."""\n', ""),
    "blank lines": lambda text: text.replace("\n", "\n\n"),
    "reformatted": lambda text: ast.unparse(ast.parse(text)),
    "quotes": lambda text: text.replace('"train"', "'train'"),
}
TELLING = {
    "number": replace("HASH_LENGTH = 8", "HASH_LENGTH = 9"),
    "text": replace('Path("results/runs")', 'Path("results/jobs")'),
    "name": replace("RUNS = Path", "PLACE = Path"),
    "new line": lambda text: text + "\nANSWER = 42\n",
    "order": replace(
        '"train": TrainSpec,\n    "generator": GeneratorSpec', '"generator": GeneratorSpec,\n    "train": TrainSpec'
    ),
    "default": replace("def stage_of(spec: Spec)", "def stage_of(spec: Spec = None)"),
}


@pytest.mark.parametrize("kind", NEUTRAL)
@pytest.mark.parametrize("step", [STEP, "leaklab.records.ids"])
def test_what_does_not_run_does_not_count(tree, kind, step):
    before = code.digest([step])
    assert after(tree, REACHED, NEUTRAL[kind], step) == before


@pytest.mark.parametrize("kind", TELLING)
@pytest.mark.parametrize("step", [STEP, "leaklab.records.ids"])
def test_a_changed_line_counts_wherever_it_is_reached_from(tree, kind, step):
    before = code.digest([step])
    assert after(tree, REACHED, TELLING[kind], step) != before


def test_a_change_in_a_module_that_is_not_imported_does_not_count(tree):
    before = code.digest([STEP])
    assert after(tree, NOT_REACHED, lambda text: text + "\nANSWER = 42\n") == before
    assert after(tree, "leaklab/planning/plan.py", lambda text: text + "\nANSWER = 42\n") == before


def test_a_change_at_the_end_of_a_chain_of_imports_counts(tree):
    before = code.digest([STEP])
    assert "errors" not in (tree / "leaklab/planning/code.py").read_text(encoding="utf-8")
    assert after(tree, "leaklab/records/errors.py", lambda text: text + "\nANSWER = 42\n") != before


def test_a_checkout_in_another_place_has_the_same_digest(tree, monkeypatch):
    assert tree != ROOT
    copied = code.digest([STEP])
    monkeypatch.setattr(code, "SOURCE", ROOT)
    forget()
    assert code.digest([STEP]) == copied


def test_a_string_that_is_not_a_docstring_counts(package):
    before = package(step='def f():\n    """Say."""\n    return "a"\n')
    assert package(step='def f():\n    """Tell."""\n    return "a"\n') == before
    assert package(step='def f():\n    """Say."""\n    return "b"\n') != before


@pytest.mark.parametrize(
    "line",
    [
        "import leaklab.tool",
        "import leaklab.tool as t",
        "from leaklab import tool",
        "from leaklab.tool import f",
        "def g():\n    from leaklab.tool import f",
        "if True:\n    import leaklab.tool",
    ],
)
def test_every_form_of_import_is_followed(package, line):
    before = package(step=line, tool="f = 1", leaf="x = 1")
    assert package(step=line, tool="f = 2", leaf="x = 1") != before
    assert package(step=line, tool="f = 1", leaf="x = 2") == before


def test_the_packages_on_the_way_to_a_module_count(package):
    before = package(step="import leaklab.room.tool", room__in__tool="f = 1", room__in____init__="a = 1")
    assert package(room__in____init__="a = 2") != before


def test_modules_that_import_each_other_come_to_an_end(package):
    before = package(step="import leaklab.one", one="import leaklab.two", two="import leaklab.one\nx = 1")
    assert package(two="import leaklab.one\nx = 2") != before


def test_other_peoples_modules_do_not_count(package):
    before = package(step="import json, torch.nn\nfrom pathlib import Path")
    assert package(step="import json, torch.nn\nfrom pathlib import Path", json="x = 1", torch="x = 2") == before


def test_the_order_of_the_modules_does_not_matter(package):
    package(step="x = 1", tool="x = 2")
    both = code.digest(["leaklab.step", "leaklab.tool"])
    assert both == code.digest(["leaklab.tool", "leaklab.step"]) != code.digest(["leaklab.step"])
