"""Rules of the house that hold for every module: layers, sizes, what must never be called, schemas up to date."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

from leaklab.planning.schema import schema_texts

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src/leaklab"
MODULES = sorted(SOURCE.rglob("*.py"))
LONGEST = 300
# the one reader of the official CIFAR archives, which lets nothing but arrays and plain containers in
RESTRICTED_UNPICKLER = "data/readers/restricted_pickle.py"
LOADERS_OF_PICKLES = {"pickle", "cPickle", "_pickle", "dill", "cloudpickle", "joblib", "shelve", "marshal"}
# torch's own default is strict; written out here it would make every published training stale, so it waits for their
# next run
STRICT_BY_DEFAULT = {"defenses/base.py"}
GLOBAL_GENERATORS = {"manual_seed", "manual_seed_all", "set_rng_state", "seed_all", "default_generator"}


def name_of(path):
    return path.relative_to(SOURCE).as_posix()


def trees():
    for path in MODULES:
        yield name_of(path), ast.parse(path.read_text(encoding="utf-8"))


def calls(tree):
    """Yield (dotted name, keywords that are literals) of every call."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            literal = {k.arg: k.value.value for k in node.keywords if isinstance(k.value, ast.Constant)}
            yield ast.unparse(node.func), literal


def imported(tree):
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.module or ""


def test_there_is_something_to_look_at():
    assert len(MODULES) > 90
    assert SOURCE / RESTRICTED_UNPICKLER in MODULES


def test_imports_run_downwards_only():
    command = Path(sys.executable).with_name("lint-imports")
    if not command.exists():
        pytest.skip("needs import-linter")
    done = subprocess.run([command, "--no-cache"], capture_output=True, text=True, check=False, cwd=ROOT)
    assert done.returncode == 0, done.stdout[-3000:]
    assert "4 kept, 0 broken" in done.stdout


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_a_module_has_one_idea_and_says_which(path):
    text = path.read_text(encoding="utf-8")
    assert len(text.splitlines()) <= LONGEST
    assert ast.get_docstring(ast.parse(text))


def test_steps_are_thin():
    longest = {path.name: len(path.read_text(encoding="utf-8").splitlines()) for path in SOURCE.glob("steps/*.py")}
    del longest["base.py"]
    assert max(longest.values()) <= 60, longest


def test_nothing_is_unpickled_but_by_the_restricted_reader():
    found = {name for name, tree in trees() if LOADERS_OF_PICKLES & {i.split(".")[0] for i in imported(tree)}}
    assert found == {RESTRICTED_UNPICKLER}


def test_the_restricted_reader_calls_no_plain_unpickler():
    tree = ast.parse((SOURCE / RESTRICTED_UNPICKLER).read_text(encoding="utf-8"))
    assert not {"pickle.load", "pickle.loads", "pickle.Unpickler"} & {name for name, _ in calls(tree)}


def test_files_that_may_hold_code_are_read_as_data_only():
    """torch.load reads weights only; numpy and pandas read no pickles."""
    for name, tree in trees():
        for call, keywords in calls(tree):
            if call == "torch.load":
                assert keywords.get("weights_only") is True, name
            assert keywords.get("allow_pickle", False) is False, name
            assert not call.endswith(("read_pickle", "to_pickle")), name
            assert call not in ("torch.save", "yaml.load", "yaml.unsafe_load"), name


def test_no_text_is_handed_to_the_interpreter():
    """Checks of claims are text too; their syntax tree is walked."""
    assert {name for name, tree in trees() if {"eval", "exec"} & {call for call, _ in calls(tree)}} == set()


def test_weights_fit_their_network_or_are_refused():
    """``strict=False`` leaves what does not fit at its random start; for ``zip`` it only lets lengths differ."""
    for name, tree in trees():
        for call, keywords in calls(tree):
            if call.rpartition(".")[2] == "load_state_dict":
                assert keywords.get("strict", name in STRICT_BY_DEFAULT) is True, name
            assert call == "zip" or keywords.get("strict", True) is True, (name, call)


def test_no_module_touches_a_global_generator():
    for name, tree in trees():
        used = {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
        used |= {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
        assert not GLOBAL_GENERATORS & used, name
        called = {call for call, _ in calls(tree)}
        assert not {"torch.seed", "np.random.seed", "random.seed", "np.random.default_rng"} & called, name
        assert "random" not in set(imported(tree)), name


def test_the_attackers_step_is_never_given_the_truth():
    """Neither the step's text nor the rule's inputs name the private side of a capture."""
    tree = ast.parse((SOURCE / "steps/run_attack.py").read_text(encoding="utf-8"))
    assert not {i for i in imported(tree) if i.startswith(("leaklab.data", "leaklab.metrics", "leaklab.federated"))}
    assert not any(isinstance(node, ast.Constant) and node.value == "truth" for node in ast.walk(tree))
    rule = (ROOT / "workflow/rules/attack.smk").read_text(encoding="utf-8").partition("rule run_attack:")[2]
    inputs = rule.partition("    output:")[0]
    assert "observation" in inputs
    assert "truth" not in inputs


@pytest.mark.parametrize("path", schema_texts(), ids=lambda path: path.name)
def test_the_schemas_are_those_of_the_models(path):
    """If this fails: ``leaklab schema`` writes them anew."""
    assert (ROOT / path).read_text(encoding="utf-8") == schema_texts()[path]
