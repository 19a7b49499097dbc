"""The container's recipe: what it copies is here, its scripts are shell, and it says nothing that Apptainer ignores."""

import re
import subprocess
from pathlib import Path

ROOT = Path(__file__).parents[1]
RECIPE = ROOT / "workflow/envs/leaklab.def"
SCRIPTS = ("post", "environment", "runscript", "test")
SECTIONS = {*SCRIPTS, "files", "help"}
"""Of those that Apptainer knows, the ones that are used here."""


def sections() -> tuple[str, dict[str, str]]:
    head, *parts = re.split(r"^%(\w+)$", RECIPE.read_text(encoding="utf-8"), flags=re.MULTILINE)
    return head, dict(zip(parts[::2], parts[1::2], strict=True))


def test_a_recipe_has_a_base_and_no_unknown_section() -> None:
    head, found = sections()
    keys = [line.split(":")[0] for line in head.splitlines() if line and not line.startswith("#")]
    assert keys == ["Bootstrap", "From"]
    assert set(found) == SECTIONS


def test_what_is_copied_is_here_and_what_is_used_was_copied() -> None:
    _, found = sections()
    copied = dict(line.split() for line in found["files"].splitlines() if line.strip())
    assert all((ROOT / source).exists() for source in copied)
    folder = re.search(r"cd (\S+)", found["post"])
    assert folder is not None
    here = {target.removeprefix(f"{folder[1]}/") for target in copied.values()}
    assert {"requirements.lock", "install_lock.py", "pyproject.toml", "README.md", "src"} == here
    # what the metadata of the package name has to be there, or it cannot be installed
    assert 'readme = "README.md"' in (ROOT / "pyproject.toml").read_text(encoding="utf-8")


def test_scripts_are_shell() -> None:
    _, found = sections()
    for name in SCRIPTS:
        subprocess.run(["sh", "-n"], input=found[name], text=True, check=True)
