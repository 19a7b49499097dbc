"""What a job pays before it begins: which heavy packages each step may import when it starts."""

import ast
import json
import subprocess
import sys
from pathlib import Path

import pytest

STEPS = Path(__file__).parents[2] / "src/leaklab/steps"
HEAVY = {"torch", "pandas", "matplotlib", "seaborn", "scipy", "sklearn", "skimage", "torchvision", "lpips", "timm",
         "transformers"}  # fmt: skip
SLOW = {"torchvision", "torch._dynamo", "torchmetrics", "transformers", "timm", "lpips", "seaborn"}
"""Packages, and a part of torch, that loading a plug-in does not need."""
NONE: set[str] = set()
DRAWING = {"seaborn", "matplotlib", "pandas", "scipy"}
"""Only what draws pays for seaborn: it takes longer to import than all else that such a step needs."""
TENSORS = {"torch"}
TABLES_OF_TENSORS = {"torch", "pandas"}
ALLOWED = {
    "attack_piece": TABLES_OF_TENSORS,
    "attack_text": TABLES_OF_TENSORS,
    "audit_provenance": NONE,
    "build_crate": NONE,
    "build_report": DRAWING,
    "capture_text": TENSORS,
    "capture_updates": TENSORS,
    "check_theory": TABLES_OF_TENSORS,
    "draw_partition": DRAWING,
    "fetch_dataset": TENSORS,
    "fetch_text": NONE,
    "join_pieces": TENSORS,
    "judge_claims": NONE,
    "learn_law": TABLES_OF_TENSORS,
    "make_figure": DRAWING,
    "make_table": {"pandas"},
    "map_landscape": TABLES_OF_TENSORS,
    "partition_data": NONE,
    "project_image": {"torch", "torchvision", "lpips", "scipy", "matplotlib"},
    "publish_runs": NONE,
    "publish_threat_models": {"pandas"},
    "run_attack": TABLES_OF_TENSORS,
    "score_attack": TABLES_OF_TENSORS,
    "score_text": {"pandas"},
    "text_piece": TABLES_OF_TENSORS,
    "train_federated": TABLES_OF_TENSORS,
    "train_generator": TENSORS,
    "train_piece": TABLES_OF_TENSORS,
}


def is_step(path):
    return any(isinstance(node, ast.FunctionDef) and node.name == "run" for node in ast.parse(path.read_text()).body)


def test_every_step_has_its_list():
    assert ALLOWED.keys() == {path.stem for path in STEPS.glob("*.py") if is_step(path)}


@pytest.mark.parametrize("allowed", sorted({tuple(sorted(one)) for one in ALLOWED.values()}), ids="-".join)
def test_a_step_starts_with_no_more_than_its_list(allowed):
    """Plug-ins and renderers that a spec names come later and bring what they need; steps of one list share a process.

    A list of several packages is not a licence for the steps of a shorter one, so each list has its own.
    """
    steps = [name for name, own in ALLOWED.items() if own == set(allowed)]
    look = (
        "import importlib, json, sys\n"
        f"for name in {steps}:\n"
        "    importlib.import_module(f'leaklab.steps.{name}')\n"
        f"    print(json.dumps([name, sorted(sys.modules.keys() & set({sorted(HEAVY)}))]))\n"
    )
    done = subprocess.run([sys.executable, "-c", look], capture_output=True, text=True, check=True)
    found = dict(map(json.loads, done.stdout.splitlines()))
    assert found.keys() == set(steps)
    assert {name: set(heavy) - set(allowed) for name, heavy in found.items()} == {name: set() for name in steps}


@pytest.mark.parametrize("room", ["models", "attacks", "defenses"])
def test_a_plug_in_is_loaded_without_packages_that_only_its_use_needs(room):
    """What a few plug-ins of a file need comes when they are used: torchvision took as long to import as torch."""
    folder = STEPS.parent / room
    names = [
        ".".join(path.relative_to(STEPS.parents[1]).with_suffix("").parts) for path in sorted(folder.rglob("*.py"))
    ]
    look = (
        "import importlib, json, sys\n"
        f"for name in {[name for name in names if not name.endswith('__init__')]}:\n"
        "    before = set(sys.modules)\n"
        "    importlib.import_module(name)\n"
        f"    print(json.dumps([name, sorted((sys.modules.keys() - before) & set({sorted(SLOW)}))]))\n"
    )
    done = subprocess.run([sys.executable, "-c", look], capture_output=True, text=True, check=True)
    found = dict(map(json.loads, done.stdout.splitlines()))
    assert {name: slow for name, slow in found.items() if slow} == {}
