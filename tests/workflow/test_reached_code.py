"""The digest of code sees what runs: held against every function that steps of the demo really call."""

import ast
import json
import random
from pathlib import Path

import pytest

from leaklab.planning.code import _starts, code_of, code_of_record
from leaklab.provenance.audit import spec_of
from leaklab.records.code import Sources
from leaklab.records.definitions import STATEMENTS, Module
from leaklab.records.ledger import Ledger

pytestmark = pytest.mark.workflow
# training, capture, attack, score; a check that trains; a table that asks a network itself
ITEMS = ("outpost/table1", "hyperfl/procedure", "lrp/table4")
TARGETS = [f"figures/demo/{item}.png" for item in ITEMS]
EDITS, WHOLE = 200, 15
"""Edits, and those for which all hashes are made anew."""
WATCH = """
import atexit, json, os, sys

if "--serve" in sys.orig_argv:  # each step is a fork of this process
    called = set()

    def imports(frame):  # what runs while a module is imported is made, and not used yet
        while frame is not None:
            if frame.f_code.co_name == "<module>" and frame.f_globals.get("__name__") != "__main__":
                return True
            frame = frame.f_back
        return False

    def watch(frame, event, argument):
        if event == "call" and frame.f_code not in called:
            if frame.f_code.co_name == "<module>" or not imports(frame.f_back):
                called.add(frame.f_code)

    def begin():
        sys.setprofile(watch)
        atexit.register(save)

    def save():
        sys.setprofile(None)
        rows = {(c.co_filename, c.co_firstlineno, c.co_name) for c in called}
        rows = sorted(row for row in rows if "/src/leaklab/" in row[0] and not row[0].endswith("/fork_server.py"))
        file = os.path.join(os.environ["LEAKLAB_WATCHED"], f"{os.getpid()}.json")
        with open(file, "w") as out:
            json.dump({"argv": sys.argv, "called": rows}, out)

    os.register_at_fork(after_in_child=begin)
"""


class Watched:
    """One execution of a step: where it begins, and the definitions whose code it really ran."""

    def __init__(self, roots, called):
        self.roots, self.called = roots, called


def place_of(sources, folder, file, line, name):
    """Return module and definition of a piece of code that was called."""
    path = Path(file).relative_to(folder / "src").with_suffix("")
    module = ".".join(path.parts).removesuffix(".__init__")
    if name == "<module>":
        return module, STATEMENTS
    for known, nodes in sources.module(module).definitions.items():
        for node in nodes:
            first = min([node.lineno, *(one.lineno for one in getattr(node, "decorator_list", ()))])
            if first <= line <= node.end_lineno:
                # the body of a class, and a constant, are made when the module is imported, whoever uses them
                made_on_import = isinstance(node, ast.Assign | ast.AnnAssign) or (
                    isinstance(node, ast.ClassDef) and name == known
                )
                return (module, STATEMENTS) if made_on_import else (module, known)
    return module, STATEMENTS


@pytest.fixture(scope="module")
def watched(checkout, tmp_path_factory):
    """The executions of all steps behind the targets."""
    work = checkout.clone(tmp_path_factory.mktemp("watched") / "clone").only(*ITEMS)
    hook, out = tmp_path_factory.mktemp("hook"), tmp_path_factory.mktemp("called")
    (hook / "sitecustomize.py").write_text(WATCH, encoding="utf-8")
    path = f"{work.folder / 'src'}:{hook}"
    more = {"PYTHONPATH": path, "LEAKLAB_WATCHED": str(out)}
    call = ("snakemake", "--cores", "2", "--quiet", "rules", "progress", "--", *TARGETS)
    work.must(*call, timeout=1200, forked=False, **more)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(work.folder)
        ledger, sources, found = Ledger.scan(), Sources(work.folder / "src"), []
        for file in sorted(out.glob("*.json")):
            seen = json.loads(file.read_text())
            record = next((word[4:] for word in seen["argv"] if word.startswith("run=")), "")
            entry = next((one for one in ledger.entries if one.path.as_posix() == record), None)
            if entry is None:
                continue
            spec = spec_of(entry, ledger)
            code = code_of(spec) if spec else code_of_record(entry.rule, entry.content["spec"])
            assert code.digest == entry.content["code"]
            roots = sources.roots(f"leaklab.steps.{code.rule}", _starts(code.plugins), _starts(code.loaded))
            found.append(Watched(roots, {place_of(sources, work.folder, *row) for row in seen["called"]}))
    return sources, found


def test_every_function_that_a_step_calls_is_reached(watched):
    sources, executions = watched
    assert len(executions) > 15
    for one in executions:
        assert len(one.called) > 20
        missed = one.called - sources.reached(one.roots)
        assert not missed


def test_200_random_edits_of_definitions_change_the_digests_of_all_who_run_them(watched):
    """Each edit in memory, of what a definition says: who ran it is found stale, who does not reach it is not."""
    sources, executions = watched
    chance = random.Random(20261125)
    reached = [sources.reached(one.roots) for one in executions]
    every = sorted({place for places in reached for place in places if place[1] not in (STATEMENTS, "*")})
    # no edit changes what is reached, so what acts on import is sought once
    starts = [
        {*one.roots, *(place for place in places if place[1] == STATEMENTS and sources._acts(place))}
        for one, places in zip(executions, reached, strict=True)
    ]
    before = [digest(sources, own) for own in starts]
    users = used_by(sources)
    for number, place in enumerate(chance.sample(every, EDITS)):
        edited = with_edit(sources, place)
        if number >= WHOLE:  # what does not reach the edit keeps its hash, as the first ones show
            touched = users_of(place, users)
            edited._hashes |= {other: one for other, one in sources._hashes.items() if other not in touched}
        sampled = chance.sample(range(len(executions)), 4)
        ran = [k for k, one in enumerate(executions) if place in one.called][:2]
        for k in {*sampled, *ran}:
            changed = digest(edited, starts[k]) != before[k]
            assert changed == (place in reached[k]), place


def used_by(sources):
    """Return who names a definition, for all that have been looked at."""
    users = {}
    for place, definition in sources._definitions.items():
        for _, to in definition.named:
            users.setdefault(to, set()).add(place)
    return users


def users_of(place, users):
    """Return all who reach a definition, itself too."""
    found, waiting = {place}, [place]
    while waiting:
        waiting += (new := users.get(waiting.pop(), set()) - found)
        found |= new
    return found


def digest(sources, starts):
    """Return the digest from where it starts."""
    return sorted({sources._hash(place) for place in starts})


def with_edit(sources, place):
    """Return the sources with one definition that says something else."""
    module, name = place
    old = sources.module(module)
    nodes = [ast.parse(ast.unparse(ast.fix_missing_locations(node))).body[0] for node in old.definitions[name]]
    if isinstance(nodes[-1], ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
        nodes[-1].body.append(ast.Pass())
    else:
        nodes[-1].value = ast.Tuple(elts=[nodes[-1].value or ast.Constant(0), ast.Constant(42)], ctx=ast.Load())
    changed = Module(old.name, old.tree, {**old.definitions, name: nodes}, old.statements, old.imports, old.stars)
    definitions = {key: value for key, value in sources._definitions.items() if key != place}
    return Sources(sources.folder, {**sources._modules, module: changed}, definitions)
