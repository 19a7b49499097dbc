"""``results/dvc.lock`` speaks of the results and figures that are published in git, and of no others."""

import hashlib
import json
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[2]
PUBLISHED = ("results/small", "figures/small")


def in_lock(name):
    """Return what ``results/dvc.lock`` says of a folder: its digest and number of files."""
    outputs = yaml.safe_load((ROOT / "results/dvc.lock").read_text(encoding="utf-8"))["stages"]["small"]["outs"]
    (found,) = [output for output in outputs if output["path"] == name]
    return found["md5"], found["nfiles"]


def as_dvc_sees(root, names, folder):
    """Return the same of files below a folder: DVC's digest is that of the list of their names and MD5s."""
    files = sorted(Path(name).relative_to(folder).as_posix() for name in names)
    lines = [{"md5": hashlib.md5((root / folder / name).read_bytes()).hexdigest(), "relpath": name} for name in files]
    return f"{hashlib.md5(json.dumps(lines).encode()).hexdigest()}.dir", len(files)


def published(folder):
    listed = subprocess.run(["git", "ls-files", "-z", folder], cwd=ROOT, capture_output=True, text=True, check=True)
    return [name for name in listed.stdout.split("\0") if name]


@pytest.mark.parametrize("folder", PUBLISHED)
def test_what_is_published_is_what_the_lock_says(folder):
    assert as_dvc_sees(ROOT, published(folder), folder) == in_lock(folder), (
        "run `make publish`, and commit results/dvc.lock"
    )


@pytest.mark.parametrize("change", ["a byte", "a file more", "a file less", "another name"])
def test_a_difference_is_seen(tmp_path, change):
    folder = PUBLISHED[0]
    names = published(folder)
    for name in names:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(ROOT / name, tmp_path / name)
    before = as_dvc_sees(tmp_path, names, folder)
    first, more = tmp_path / names[0], f"{folder}/more.csv"
    if change == "a byte":
        first.write_bytes(first.read_bytes()[:-1] + b"?")
    elif change == "a file less":
        names = names[1:]
    else:
        shutil.copyfile(first, tmp_path / more)
        names = [*(names if change == "a file more" else names[1:]), more]
    assert as_dvc_sees(tmp_path, names, folder) != before
