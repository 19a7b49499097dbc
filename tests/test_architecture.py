"""Rules of the house that hold for every module: layers, sizes, what must never be called, schemas up to date."""

import ast
import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from leaklab.planning.schema import schema_texts

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src/leaklab"
MODULES = sorted(SOURCE.rglob("*.py"))
LONGEST, LONGEST_FUNCTION = 300, 50
# the one reader of the official CIFAR archives, which lets nothing but arrays and plain containers in
RESTRICTED_UNPICKLER = "data/readers/cifar.py"
LOADERS_OF_PICKLES = {"pickle", "cPickle", "_pickle", "dill", "cloudpickle", "joblib", "shelve", "marshal"}
# the frozen tensors, whose names were held against the model's before; the others stay as they are until a round begins
FROZEN_ALONE = {"federated/forms/network.py"}
# what a contract on imports cannot see, because it needs none
OPENERS = {"open", "__import__", "torch.load", "torch.from_file", "np.load", "np.fromfile", "np.memmap", "np.loadtxt"}
ATTACKS, CAPTURES = re.compile(r"leaklab\.attacks\b"), re.compile(r"leaklab\.captures\b")
# what iterates until it converges, which LAPACK's usual drivers do not on a few finite matrices
SECOND_DRIVERS = {"records/linear_algebra.py", "records/tensor_algebra.py"}
RAW_DRIVER = re.compile(
    r"linalg\.(svd\w*|eig\w*|lstsq|pinv|matrix_rank|cond|matrix_norm|orth|null_space)$|"
    r"^(torch|np)\.(svd\w*|polyfit|pinverse|pca_lowrank)$"
)
# a line through a few finite points: two columns, no trial of an attack, and a claim that has no number if it fails
ONE_DRIVER = {
    "theory/hyperfl_bound.py": {"np.polyfit"},
    "theory/convergence_bound.py": {"np.polyfit"},
}
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


def linted(place, environment=None):
    """Return what import-linter says of the package in a place; it takes the first one on the path."""
    command = Path(sys.executable).with_name("lint-imports")
    if not command.exists():
        pytest.skip("needs import-linter")
    return subprocess.run(
        [command, "--no-cache"], capture_output=True, text=True, check=False, cwd=place, env=environment
    )


def test_imports_run_downwards_only():
    done = linted(ROOT)
    assert done.returncode == 0, done.stdout[-3000:]
    assert "6 kept, 0 broken" in done.stdout


TRUTH = "attacks never come to the truth of a capture, on no way"
FOR_GUESTS = {"guests/calls.py", "guests/lint.py", "guests/networks.py", "guests/attempt.py", "probing/owned.py"}
"""These seed the global generators, which a guest or an owner's network may draw from: in a process of their own, or
for a while, after which they are as they were."""
FILES = "attacks open no files"
PEEKING = {
    "attacks/peek.py": ("from leaklab.captures.truth import load_truth", {TRUTH}),
    "attacks/text/peek.py": ("from leaklab.captures.truth import load_text_truth", {TRUTH}),
    "attacks/adaptive/peek.py": ("from leaklab.captures.capture import capture", {TRUTH}),
    "attacks/run.py": ("from pathlib import Path", {FILES}),
    "attacks/dlg.py": ("from leaklab.records.files import read_tensors", {FILES}),
    "steps/run_attack.py": ("from leaklab.captures.truth import load_truth", {TRUTH}),
    # an attack may import this one, so that what it imports counts as well
    "observations/base.py": ("from leaklab.captures.private_images import choose_images", {TRUTH}),
}


@pytest.mark.parametrize("name", PEEKING)
def test_an_attack_that_peeks_breaks_a_contract(name, tmp_path):
    line, contracts = PEEKING[name]
    shutil.copytree(SOURCE, tmp_path / "leaklab", ignore=shutil.ignore_patterns("__pycache__", "templates"))
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    file = tmp_path / "leaklab" / name
    own = file.read_text(encoding="utf-8") if file.exists() else '"""An attack that peeks."""\n'
    file.write_text(f"{own}\n{line}\n", encoding="utf-8")
    done = linted(tmp_path, {**os.environ, "PYTHONPATH": str(tmp_path)})
    assert done.returncode != 0
    broken = set(re.findall(r"^(.*) BROKEN$", done.stdout, re.MULTILINE))
    assert contracts <= broken


def test_no_attack_opens_a_file_without_an_import():
    opened = {
        name: OPENERS & {call for call, _ in calls(tree)} for name, tree in trees() if name.startswith("attacks/")
    }
    assert len(opened) > 50
    assert not {name: found for name, found in opened.items() if found}


def test_least_squares_have_one_place_that_finds_the_rank_on_every_device():
    """GPUs take full rank for granted and return any numbers otherwise."""
    found = {name for name, tree in trees() if "tensor_algebra.least_squares_of" in {call for call, _ in calls(tree)}}
    assert found == {"attacks/least_squares.py"}


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_a_decomposition_that_may_not_converge_has_a_second_driver(path):
    if name_of(path) in SECOND_DRIVERS:
        return
    tree = ast.parse(path.read_text(encoding="utf-8"))
    used = {ast.unparse(node) for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    assert not {name for name in used if RAW_DRIVER.search(name)} - ONE_DRIVER.get(name_of(path), set())
    assert not {name for name in imported(tree) if "linalg" in name.split(".")}


def test_every_step_that_attacks_is_kept_from_the_truth():
    """A new one has to be named in the contract; what reads the truth beside attacks (``map_landscape``) is none."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["importlinter"]
    (contract,) = [contract for contract in settings["contracts"] if contract["name"] == TRUTH]
    assert contract["forbidden_modules"] == ["leaklab.captures"]
    steps = {name[:-3].replace("/", "."): set(imported(tree)) for name, tree in trees() if name.startswith("steps/")}
    attacking = {f"leaklab.{name}" for name, found in steps.items() if any(map(ATTACKS.match, found))}
    attacking |= {f"leaklab.{name}" for name, found in steps.items() if attacking & found}
    attacking -= {f"leaklab.{name}" for name, found in steps.items() if any(map(CAPTURES.match, found))}
    assert attacking == set(contract["source_modules"]) - {"leaklab.attacks"}


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_a_module_has_one_idea_and_says_which(path):
    text = path.read_text(encoding="utf-8")
    assert len(text.splitlines()) <= LONGEST
    assert ast.get_docstring(ast.parse(text))


def length(function):
    """Return the lines of a function without its docstring."""
    said = function.body[0] if ast.get_docstring(function) is not None else None
    return function.end_lineno - function.lineno + 1 - (said.end_lineno - said.lineno + 1 if said else 0)


def test_functions_are_short():
    long = [
        (path.name, node.name, length(node))
        for path in MODULES
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.FunctionDef) and length(node) > LONGEST_FUNCTION
    ]
    assert not long


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
                assert name in FROZEN_ALONE or keywords.get("strict") is True, name
            allowed = call == "zip" or name in FROZEN_ALONE
            assert allowed or keywords.get("strict", True) is True, (name, call)


def test_no_module_touches_a_global_generator():
    for name, tree in trees():
        if name in FOR_GUESTS:
            continue
        used = {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
        used |= {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
        assert not GLOBAL_GENERATORS & used, name
        called = {call for call, _ in calls(tree)}
        assert not {"torch.seed", "np.random.seed", "random.seed", "np.random.default_rng"} & called, name
        assert "random" not in set(imported(tree)), name


def test_all_mends_of_snakemake_stand_in_one_file():
    """The others say in its words what is wrong or read the command line as it does, and change nothing of it."""
    found = {}
    for name, tree in trees():
        if taken := [one for one in imported(tree) if one.split(".")[0].startswith("snakemake")]:
            found[name] = set(taken)
    mends = found.pop("planning/snakemake_patches.py")
    assert mends
    assert set().union(*found.values()) == {"snakemake.exceptions", "snakemake.cli"}


def test_rules_are_eight_files_and_leave_looking_up_to_typed_modules():
    files = {path.stem: path.read_text(encoding="utf-8") for path in (ROOT / "workflow/rules").glob("*.smk")}
    assert set(files) == {"common", "data", "train", "attack", "pieces", "evaluate", "report", "provenance"}
    assert {name for name, text in files.items() if re.search(r"^def |\blambda ", text, re.MULTILINE)} == {"common"}
    assert not [name for name, text in files.items() if re.search(r"\{(input|output)\b", text)]


def test_no_function_asks_again_and_again_what_a_spec_is():
    """What differs from stage to stage stands on the spec's class, or is dispatched by it."""
    ladders = set()
    for name, tree in trees():
        for function in (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)):
            asked = [ast.unparse(node) for node in ast.walk(function) if isinstance(node, ast.Call)]
            if len([text for text in asked if re.match(r"isinstance\(.*Spec\b", text)]) > 1:
                ladders.add(f"{name}::{function.name}")
    assert not ladders


@pytest.mark.parametrize(
    ("file", "rule"),
    [("attack", "run_attack"), ("pieces", "attack_piece"), ("attack", "attack_text"), ("pieces", "text_piece")],
)
def test_the_rule_of_an_attack_reads_an_observation_and_what_is_made_of_public_images_only(file, rule):
    text = (ROOT / f"workflow/rules/{file}.smk").read_text(encoding="utf-8").partition(f"rule {rule}:")[2]
    inputs = text.partition("    input:\n")[2].partition("    output:")[0]
    stage = "attack-text" if "text" in rule else "attack"
    own = {f'observed("{stage}", "{name}")' for name in ("observation.safetensors", "facts.json")}
    prior = {f'if_needed("{stage}", "generator", "{name}")' for name in ("generator.safetensors", "generator.json")}
    entries = (line.partition("=")[2].strip().rstrip(",") for line in inputs.splitlines() if line.strip())
    found = {re.sub("^(runs|pieces)[.]", "", entry) for entry in entries}
    pieces = {"part_before()" if rule == "attack_piece" else f'after("{stage}", "checkpoint.safetensors")'}
    law = {f'if_needed("{stage}", "law", "{name}")' for name in ("law.safetensors", "law.json")}
    assert own <= found <= own | prior | law | pieces


@pytest.mark.parametrize("path", schema_texts(), ids=lambda path: path.name)
def test_the_schemas_are_those_of_the_models(path):
    """If this fails: ``leaklab schema`` writes them anew."""
    assert (ROOT / path).read_text(encoding="utf-8") == schema_texts()[path]


def test_parts_of_attacks_never_import_plug_ins():
    """A plug-in may build on another one; what several share is a part, and knows none of them.

    The base of a room may offer what does nothing.
    """
    found = {f"leaklab.{name_of(path)[:-3].replace('/', '.')}": path for path in MODULES}
    offering = {
        module
        for module, path in found.items()
        if path.stem != "base" and re.search(r"^PLUGINS?\b", path.read_text(encoding="utf-8"), re.MULTILINE)
    }
    parts = {module: path for module, path in found.items() if module.startswith("leaklab.attacks.")}
    assert len(offering & set(parts)) > 20
    known = {
        module: sorted(offering.intersection(imported(ast.parse(path.read_text(encoding="utf-8")))) & set(parts))
        for module, path in parts.items()
        if module not in offering
    }
    assert {module: plugins for module, plugins in known.items() if plugins} == {}
