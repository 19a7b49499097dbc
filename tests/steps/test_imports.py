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


@pytest.mark.parametrize("step", ALLOWED)
def test_a_step_starts_with_no_more_than_its_list(step):
    """Plug-ins and renderers that a spec names come later and bring what they need."""
    look = (
        f"import json, sys, leaklab.steps.{step}; print(json.dumps(sorted(sys.modules.keys() & set({sorted(HEAVY)}))))"
    )
    done = subprocess.run([sys.executable, "-c", look], capture_output=True, text=True, check=True)
    assert set(json.loads(done.stdout)) <= ALLOWED[step]
