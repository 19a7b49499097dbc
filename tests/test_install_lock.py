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


@pytest.fixture
def installing():
    place = importlib.util.spec_from_file_location("install_lock", ROOT / ".ci/install_lock.py")
    module = importlib.util.module_from_spec(place)
    place.loader.exec_module(module)
    return module


def test_it_counts_to_what_this_machine_takes(installing, tmp_path, monkeypatch, capsys):
    lock, pip = tmp_path / "lock.txt", tmp_path / "pip"
    lock.write_text(LOCK)
    pip.write_text(PIP)
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


def test_every_package_of_the_lock_is_counted_or_for_other_machines(installing):
    text = (ROOT / "requirements.lock").read_text(encoding="utf-8")
    lines = re.findall(r"^[A-Za-z0-9].*==.*", text, re.MULTILINE)
    unmarked = sum(";" not in line for line in lines)
    assert unmarked <= installing.wanted(text) < len(lines)
