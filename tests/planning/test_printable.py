"""What others wrote is shown on a terminal and not obeyed."""

import json
import subprocess
import sys

from leaklab.records.printing import printable


def test_escape_sequences_and_half_characters_are_written_out():
    assert printable("a\x1b[2Jb\r\n\ud800ü") == r"a\x1b[2Jb\r\n\ud800ü"


def test_a_record_that_names_a_file_like_markup_is_audited(tmp_path):
    """Square brackets are part of a name; a command that took them for markup would end in a traceback."""
    file = tmp_path / "results/small/[/b].csv"
    file.parent.mkdir(parents=True)
    file.write_text("x")
    content = {
        "rule": "make_table", "spec": {}, "code": "abc", "facts": {}, "device": "cpu", "inputs": {},
        "outputs": {"results/small/[/b].csv": "0" * 64}, "started": "2026-01-02T03:04:05+00:00", "wall_seconds": 1,
        "cpu_seconds": 1, "peak_memory_mb": 1,
    }  # fmt: skip
    (tmp_path / "results/small/b.run.json").write_text(json.dumps(content))
    command = (
        "import leaklab.items.items as items; items.load_items = dict; from leaklab import cli; "
        "import sys; sys.argv = ['leaklab', 'audit']; cli.main()"
    )
    done = subprocess.run([sys.executable, "-c", command], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "results/small/[/b].csv: changed since results/small/b.run.json recorded it" in done.stdout
    assert "Traceback" not in done.stderr
