"""What reruns a step: a changed line that it reaches, and nothing else."""

import ast
import shutil

import pytest

from leaklab.records import code

ROOT = code.SOURCE
STEP = "leaklab.specs.stages"  # uses specs.base, which uses records
STARTS = [f"{STEP}:folders_of"]
REACHED = "leaklab/specs/base.py"
NOT_REACHED = "leaklab/records/streams.py"


@pytest.fixture
def tree(tmp_path, monkeypatch):
    """A copy of our own source that a test may edit."""
    for room in ("records", "specs", "items", "planning"):
        shutil.copytree(ROOT / "leaklab" / room, tmp_path / "leaklab" / room)
    shutil.copy(ROOT / "leaklab/__init__.py", tmp_path / "leaklab/__init__.py")
    monkeypatch.setattr(code, "SOURCE", tmp_path)
    code.sources.cache_clear()
    yield tmp_path
    code.sources.cache_clear()


@pytest.fixture
def package(tmp_path, monkeypatch):
    """A package of single-line modules, written by the test."""
    monkeypatch.setattr(code, "SOURCE", tmp_path)

    def write(*starts, **modules):
        for name, text in modules.items():
            path = tmp_path / "leaklab" / f"{name.replace('__in__', '/')}.py"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        code.sources.cache_clear()
        return code.digest(*(starts or ["leaklab.step"]))

    yield write
    code.sources.cache_clear()


def after(tree, file, edit, starts=STARTS):
    """Return the digest after ``edit`` changed the text of ``file``."""
    path = tree / file
    old = path.read_text(encoding="utf-8")
    new = edit(old)
    assert new != old
    path.write_text(new, encoding="utf-8")
    code.sources.cache_clear()
    return digest_of(starts)


def digest_of(starts):
    return code.digest(starts[0], starts[1:])


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
    assert found >= 3
    return ast.unparse(ast.fix_missing_locations(tree))


NEUTRAL = {
    "comment": lambda text: f"# a remark\n{text}\n# another\n",
    "docstring": docstrings_replaced,
    "docstring removed": replace('    """Return ``<slug>-<hash8>``."""\n', ""),
    "blank lines": lambda text: text.replace("\n", "\n\n"),
    "reformatted": lambda text: ast.unparse(ast.parse(text)),
    "quotes": lambda text: text.replace('"results/runs"', "'results/runs'"),
}
TELLING = {
    "number": replace("HASH_LENGTH = 8", "HASH_LENGTH = 9"),
    "text": replace('Path("results/runs")', 'Path("results/jobs")'),
    "order": replace("spec.stage / run_id(spec)", "run_id(spec) / spec.stage"),
    "default": replace("def run_id(spec: Spec)", "def run_id(spec: Spec = None)"),
    "new statement": lambda text: text + "\nprint('imported')\n",
}
BESIDE = {
    "new constant": lambda text: text + "\nANSWER = 42\n",
    "new function": lambda text: text + "\n\n@cache\ndef answer() -> int:\n    return run_id(None)\n",
    "new class": lambda text: text + "\n\nclass Answer(Record):\n    value: int = 42\n",
    "new import": lambda text: "from leaklab.records.errors import UserError\n" + text,
}
ID_STARTS = ["leaklab.specs.base:run_folder", "leaklab.specs.base:run_id"]


@pytest.mark.parametrize("kind", NEUTRAL)
@pytest.mark.parametrize("starts", [STARTS, ID_STARTS])
def test_what_does_not_run_does_not_count(tree, kind, starts):
    before = digest_of(starts)
    assert after(tree, REACHED, NEUTRAL[kind], starts) == before


@pytest.mark.parametrize("kind", BESIDE)
@pytest.mark.parametrize("starts", [STARTS, ID_STARTS])
def test_what_stands_beside_does_not_count(tree, kind, starts):
    before = digest_of(starts)
    assert after(tree, REACHED, BESIDE[kind], starts) == before


@pytest.mark.parametrize("kind", TELLING)
@pytest.mark.parametrize("starts", [["leaklab.specs.base:*"], ID_STARTS])
def test_a_changed_line_counts_wherever_it_is_reached_from(tree, kind, starts):
    before = digest_of(starts)
    assert after(tree, REACHED, TELLING[kind], starts) != before


def test_a_change_in_a_module_that_is_not_imported_does_not_count(tree):
    before = digest_of(STARTS)
    assert after(tree, NOT_REACHED, lambda text: text + "\nprint(42)\n") == before
    assert after(tree, "leaklab/planning/plan.py", lambda text: text + "\nprint(42)\n") == before


def test_a_change_at_the_end_of_a_chain_of_references_counts(tree):
    starts = ["leaklab.planning.plan:Job"]  # its name is made of the id, which is made of the canonical text
    before = digest_of(starts)
    assert after(tree, "leaklab/records/record.py", replace("sort_keys=True", "sort_keys=False"), starts) != before


def test_a_checkout_in_another_place_has_the_same_digest(tree, monkeypatch):
    assert tree != ROOT
    copied = digest_of(ID_STARTS)
    monkeypatch.setattr(code, "SOURCE", ROOT)
    assert digest_of(ID_STARTS) == copied


def test_a_string_that_is_not_a_docstring_counts(package):
    before = package("leaklab.step:f", step='def f():\n    """Say."""\n    return "a"\n')
    assert package("leaklab.step:f", step='def f():\n    """Tell."""\n    return "a"\n') == before
    assert package("leaklab.step:f", step='def f():\n    """Say."""\n    return "b"\n') != before


USES = [
    "import leaklab.tool\nleaklab.tool.f()",
    "import leaklab.tool as t\nt.f()",
    "from leaklab import tool\ntool.f()",
    "from leaklab import tool as t\nx = t.f\nx()",
    "from leaklab.tool import f\nf()",
    "from leaklab.tool import f as g\ng()",
    "def g():\n    from leaklab.tool import f\n    return f\ng()",
    "def g():\n    import leaklab.tool\n    return leaklab.tool.f\ng()",
    "if True:\n    import leaklab.tool\nleaklab.tool.f",
    "try:\n    from leaklab.tool import f\nexcept ImportError:\n    f = None\nprint(f)",
    "from leaklab.other import f\nf()",  # which imports it
    "from leaklab.tool import *\nf()",
    "from leaklab import tool\ngetattr(tool, 'f')()",
    "from leaklab import tool\nprint(tool)",
    "from leaklab.tool import Base\nclass C(Base):\n    pass\nC()",
    "from leaklab.tool import decorator\n@decorator\ndef unused():\n    pass",
    "from leaklab.tool import default\ndef g(x=default):\n    pass\ng()",
    "from leaklab.tool import Base\ndef g(x: 'Base'):\n    pass\ng()",
    "class C:\n    def method(self):\n        from leaklab.tool import f\n        return f()\nC()",
    "from leaklab.tool import f\ntable = {1: [lambda: f()]}\nprint(table)",
]
TOOL = """
def f():
    return deep()
def deep():
    return {constant}
CONSTANT = 1
class Base:
    x = {constant}
def decorator(function):
    f()
    return function
default = {constant}
def beside():
    return {beside}
"""


@pytest.mark.parametrize("use", USES)
def test_every_form_of_use_is_followed_and_what_stands_beside_is_not(package, use):
    other, leaf = "from leaklab.tool import f", "x = 1"
    before = package(step=use, tool=TOOL.format(constant=1, beside=1), other=other, leaf=leaf)
    assert package(tool=TOOL.format(constant=2, beside=1)) != before
    assert package(tool=TOOL.format(constant=1, beside=1), leaf="x = 2") == before
    whole = any(form in use for form in ("import *", "getattr", "print(tool)"))
    assert (package(tool=TOOL.format(constant=1, beside=2)) != before) == whole


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("def f(x=1): return x", "def f(x=2): return x"),
        ("K = 1\ndef f(): return K", "K = 2\ndef f(): return K"),
        ("class B:\n    k = 1\nclass f(B): pass", "class B:\n    k = 2\nclass f(B): pass"),
        ("def d(g): return g\n@d\ndef f(): pass", "def d(g): return 1\n@d\ndef f(): pass"),
        ("def g(): return 1\ndef f(): return g()", "def g(): return 2\ndef f(): return g()"),
        ("K = []\ndef f(): return K", "K = []\nK.append(1)\ndef f(): return K"),
        ("def f(): return 1", "def f(): return 1\nif True:\n    f = None"),
        ("def f(): return 1", "def f(): return 1\ndef f(): return 2"),
        ("A, B = 1, 2\ndef f(): return A", "A, B = 1, 3\ndef f(): return A"),
    ],
)
def test_a_default_a_constant_a_base_a_decorator_or_a_statement_of_what_is_reached_counts(package, one, other):
    before = package("leaklab.tool:f", tool=one)
    assert package("leaklab.tool:f", tool=other) != before


def test_a_name_that_means_something_else_counts(package):
    """The same text, another function behind it."""
    before = package(step="from leaklab.one import f\nf()", one="def f(): return 1", two="def f(): return 2")
    assert package(step="from leaklab.two import f\nf()") != before


def test_a_definition_may_move_to_another_module_unless_it_asks_where_it_is(package):
    tool = "from leaklab.low import K\ndef f(): return g() + K\ndef g(): return {}"
    before = package(step="from leaklab.one import f\nf()", one=tool.format("1"), two="", low="K = 1")
    assert package(step="from leaklab.two import f\nf()", one="", two=tool.format("1")) == before
    placed = package(step="from leaklab.one import f\nf()", one=tool.format("__file__"))
    assert package(step="from leaklab.two import f\nf()", two=tool.format("__file__")) != placed


def test_crossed_wires_between_functions_of_the_same_text_count(package):
    """Both ``g`` say the same and mean different things; who calls which is all that changes."""
    one, two = "def g(): return K\nK = 1", "def g(): return K\nK = 2"
    step = "from leaklab.{} import g as a\nfrom leaklab.{} import g as b\nprint(a(), b())"
    before = package(step=step.format("one", "two"), one=one, two=two)
    assert package(step=step.format("two", "one")) != before


def test_definitions_that_name_each_other_come_to_an_end_and_all_count(package):
    text = "def f(): return g()\ndef g(): return h()\ndef h(): return f() or {}"
    before = package("leaklab.tool:f", tool=text.format(1))
    assert package("leaklab.tool:f", tool=text.format(2)) != before
    assert package("leaklab.tool:g", tool=text.format(1)) != before


def test_what_modules_do_on_import_counts_their_packages_included(package):
    quiet = {"room__in__tool": "f = 1", "room__in____init__": "", "far": "x = 1"}
    before = package(step="from leaklab.room import tool\ndef unused(): tool.f", **quiet)
    for module in ("room__in__tool", "room__in____init__"):
        assert package(**{**quiet, module: "print(1)"}) != before
    assert package(**{**quiet, "room__in__tool": "f = 1\nfrom leaklab import far", "far": "print(1)"}) != before
    assert package(**quiet) == before


def test_a_class_that_is_told_of_its_subclasses_reaches_them(package):
    base = "class Base:\n    def __init_subclass__(cls):\n        print(cls.x)"
    before = package(
        step="import leaklab.tool", base=base, tool="from leaklab.base import Base\nclass C(Base):\n    x = 1"
    )
    assert package(tool="from leaklab.base import Base\nclass C(Base):\n    x = 2") != before


def test_modules_that_import_each_other_come_to_an_end(package):
    before = package(step="import leaklab.one", one="import leaklab.two", two="import leaklab.one\nprint(1)")
    assert package(two="import leaklab.one\nprint(2)") != before


def test_other_peoples_modules_do_not_count(package):
    before = package(step="import json, torch.nn\nfrom pathlib import Path\nprint(json, Path)")
    assert package(json="print(1)", torch="print(2)") == before


def test_a_start_that_is_not_defined_is_all_of_its_module(package):
    before = package("leaklab.tool:PLUGIN", tool="def f(): return 1")
    assert package("leaklab.tool:PLUGIN", tool="def f(): return 2") != before


def test_the_order_of_the_starts_does_not_matter(package):
    package(step="print(1)", tool="print(2)", other="print(3)")
    both = code.digest("leaklab.step", ["leaklab.tool", "leaklab.other"])
    assert both == code.digest("leaklab.step", ["leaklab.other", "leaklab.tool"]) != code.digest("leaklab.step")


def test_a_plug_in_that_joins_a_family_keeps_its_digest(tmp_path):
    one = tmp_path / "one/leaklab/defenses"
    other = tmp_path / "other/leaklab/defenses"
    classes = {name: f"class {name}:\n    def gradient(self):\n        return {name!r}\n" for name in ("Lsp", "Bsp")}
    for folder in (one, other):
        folder.mkdir(parents=True)
        (folder.parent / "__init__.py").write_text("")
        (folder / "__init__.py").write_text("")
    for name, text in classes.items():
        (one / f"{name.lower()}.py").write_text(f"{text}\n\nPLUGIN = {name}\n")
    family = other / "lrp.py"
    family.write_text("\n\n".join(classes.values()) + '\n\nPLUGINS = {"lsp": Lsp, "bsp": Bsp}\n')

    def digests(folder, starts):
        return [code.Sources(folder).digest("leaklab.none", [start]) for start in starts]

    alone = digests(tmp_path / "one", ["leaklab.defenses.lsp:PLUGIN", "leaklab.defenses.bsp:PLUGIN"])
    starts = ["leaklab.defenses.lrp:PLUGINS[lsp]", "leaklab.defenses.lrp:PLUGINS[bsp]"]
    together = digests(tmp_path / "other", starts)
    assert together == alone
    family.write_text(family.read_text().replace("return 'Bsp'", "return None"))
    edited = digests(tmp_path / "other", starts)
    assert edited[0] == alone[0]
    assert edited[1] != alone[1]


TRAITS = "class Kind:\n    pass\n"
SAID = "from leaklab.traits import Kind\nclass Tool:\n    {0} = Kind({1})\n    def run(self):\n        return {2}\n"
ANNOTATED = "traits: Kind"


def test_what_a_class_says_to_plans_does_not_count_and_all_else_does(package):
    """A time that is measured anew, or said for the first time, makes nothing stale."""

    def after(*parts):
        return package("leaklab.tool:Tool", traits=TRAITS, tool=SAID.format(*parts))

    said = after(ANNOTATED, "1", "2")
    assert after(ANNOTATED, "10", "2") == said
    assert package("leaklab.tool:Tool", tool="class Tool:\n    def run(self):\n        return 2\n") == said
    assert after(ANNOTATED, "1", "3") != said
    assert after("other: Kind", "1", "2") != said
