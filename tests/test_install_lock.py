"""What `make setup` says while it installs: it counts to what it really installs."""

import importlib.util
import re
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
LOCK = """\
here==1.0 \\
    --hash=sha256:00
elsewhere==1.0 ; sys_platform == 'no such system' \\
    --hash=sha256:00
newer==2.0 ; python_full_version >= '3.11' \\
    --hash=sha256:11 \\
    --hash=sha256:22
older==2.0 ; python_full_version < '3.11' \\
    --hash=sha256:00
local[extra]==3.0 \\
    --hash=sha256:00
"""
PIP = """#!/bin/sh
echo 'Looking in indexes: somewhere'
echo 'Collecting here==1.0 (from -r lock.txt (line 1))'
echo '  Downloading here-1.0-py3-none-any.whl (1 kB)'
echo "Ignoring elsewhere: markers 'sys_platform ...' don't match your environment"
echo 'Requirement already satisfied: newer==2.0 in ./lib (from -r lock.txt (line 5))'
echo 'Processing /some/files/local-3.0-py3-none-any.whl (from -r lock.txt (line 10))'
echo 'Collecting needed (from local==3.0->-r lock.txt (line 10))'
echo 'Installing collected packages: here, local'
"""


OLDER = re.sub(r" \(from -r lock\.txt \(line \d+\)\)", "", PIP)


def of_ci(name):
    place = importlib.util.spec_from_file_location(name, ROOT / f".ci/{name}.py")
    module = importlib.util.module_from_spec(place)
    place.loader.exec_module(module)
    return module


@pytest.fixture
def installing():
    return of_ci("install_lock")


@pytest.mark.parametrize("said", [PIP, OLDER], ids=["pip", "older pip"])
def test_it_counts_to_what_this_machine_takes(installing, tmp_path, monkeypatch, capsys, said):
    lock, pip = tmp_path / "lock.txt", tmp_path / "pip"
    lock.write_text(LOCK)
    pip.write_text(said)
    pip.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(pip))
    monkeypatch.setattr(installing, "EVERY_SECONDS", -1)
    assert installing.main(str(lock)) == 0
    said = capsys.readouterr().out
    assert f"2 of 3: 3 packages of {lock}" in said
    assert "  1 of 3 packages collected\n" in said
    assert said.endswith("  3 of 3 packages are here, installing them\n")


def test_a_failure_shows_what_pip_said(installing, tmp_path, monkeypatch, capsys):
    lock, pip = tmp_path / "lock.txt", tmp_path / "pip"
    lock.write_text(LOCK)
    pip.write_text("#!/bin/sh\necho 'Collecting here==1.0'\necho 'ERROR: no such hash'\nexit 2\n")
    pip.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(pip))
    assert installing.main(str(lock)) == 2
    assert capsys.readouterr().err == "ERROR: no such hash\n"


def test_a_failure_that_a_warning_goes_before_shows_why_too(installing, tmp_path, monkeypatch, capsys):
    lock, pip = tmp_path / "lock.txt", tmp_path / "pip"
    lock.write_text(LOCK)
    said = [
        "WARNING: The cache has been disabled.", "  error: subprocess-exited-with-error",
        "      ValueError: invalid variable b", "  note: likely not a problem with pip.", "╰─> connection-pool",
    ]  # fmt: skip
    pip.write_text("#!/bin/sh\n" + "\n".join(f"echo '{line}'" for line in said) + "\nexit 1\n")
    pip.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(pip))
    assert installing.main(str(lock)) == 1
    assert capsys.readouterr().err == "".join(f"{said[k]}\n" for k in (1, 2, 4))
    pip.write_text("#!/bin/sh\necho 'WARNING: old'\necho 'Killed'\nexit 1\n")
    installing.main(str(lock))
    assert capsys.readouterr().err == "WARNING: old\nKilled\n"


def test_what_would_end_the_installation_is_refused_before_it(tmp_path):
    refusal = of_ci("before_setup").refusal
    assert refusal((3, 11), str(tmp_path), ".venv") == ""
    assert "Python 3.11 or newer" in refusal((3, 9), str(tmp_path), ".venv")
    assert "rename the folder" in refusal((3, 12), str(tmp_path / "my {b}"), ".venv")
    assert "rename the folder" not in refusal((3, 12), str(tmp_path / "my (lab) ü"), ".venv")


def test_a_folder_of_somebody_else_is_refused_before_the_installation_and_a_ready_one_is_not(tmp_path, monkeypatch):
    before = of_ci("before_setup")
    monkeypatch.setattr(before.os, "access", lambda place, mode: place != str(tmp_path))
    assert "not yours to write" in before.refusal((3, 11), str(tmp_path), ".venv")
    (tmp_path / ".venv").mkdir()
    assert before.refusal((3, 11), str(tmp_path), ".venv") == ""


def test_every_package_of_the_lock_is_counted_or_for_other_machines(installing):
    text = (ROOT / "requirements.lock").read_text(encoding="utf-8")
    lines = re.findall(r"^[A-Za-z0-9].*==.*", text, re.MULTILINE)
    unmarked = sum(";" not in line for line in lines)
    assert unmarked <= installing.wanted(text) < len(lines)
