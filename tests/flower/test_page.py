"""The Flower app of record.md, run as the page says, and what its second program prints."""

import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

MISSING = [name for name in ("flwr", "ray") if importlib.util.find_spec(name) is None]
pytestmark = [
    pytest.mark.workflow,
    pytest.mark.skipif(
        bool(MISSING), reason=f"without {', '.join(MISSING)}: `make test-flower` installs it and runs this"
    ),
]
PAGE = Path(__file__).parents[2] / "docs/record.md"
QUIET = {"RAY_worker_niceness": "0", "RAY_USAGE_STATS_ENABLED": "0", "FLWR_TELEMETRY_ENABLED": "0"}


def test_the_app_of_the_page_is_recorded_and_its_private_images_are_read(tmp_path):
    text = PAGE.read_text(encoding="utf-8")
    for block in re.findall(r"^```python\n(.*?)^```$", text, re.MULTILINE | re.DOTALL):
        (tmp_path / block.partition("\n")[0].removeprefix("# ").split()[0]).write_text(block, encoding="utf-8")
    known = {**os.environ, **QUIET, "FLWR_HOME": str(tmp_path / "flwr"), "LEAKLAB_RECORD": str(tmp_path / "leaves")}
    for program in ("app.py", "read.py"):
        done = subprocess.run([sys.executable, program], cwd=tmp_path, env=known, capture_output=True, text=True,
                              check=False, timeout=900)  # fmt: skip
        assert done.returncode == 0, done.stderr[-3000:]
    lines = done.stdout.splitlines()
    assert lines[0] == "4 exchanges recorded, of 2 nodes, rounds 1 to 2; sent: weights."
    errors = [float(line.rpartition(" ")[2]) for line in lines if line.startswith("round ")]
    assert len(errors) == 4
    assert max(errors) < 1e-2
    command = next(line for line in text.splitlines() if line.startswith("leaklab probe leaves"))
    options = command.replace("--budget 1m", "--budget 10s").split()[1:]
    gate = subprocess.run([sys.executable, "-m", "leaklab.cli", *options], cwd=tmp_path, env=known,
                          capture_output=True, text=True, check=False, timeout=300)  # fmt: skip
    assert gate.returncode == 3, gate.stdout[-3000:] + gate.stderr[-3000:]
    assert gate.stdout.count("read: 1 of 1 samples, 1 of them exactly") == 4
    assert len(list((tmp_path / "probed").glob("*/card.html"))) == 4
