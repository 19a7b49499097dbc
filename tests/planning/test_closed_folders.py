"""A folder that may not be written is one line before any job starts."""

import os
import subprocess

import pytest

from leaklab.planning.closed_folders import refuse_closed_folders
from leaklab.records.errors import UserError


@pytest.fixture
def closed(tmp_path):
    """A folder that even root may not write."""
    folder = tmp_path / "results/closed"
    folder.mkdir(parents=True)
    if os.geteuid():
        folder.chmod(0o555)
        yield folder
        folder.chmod(0o755)
        return
    mounted = subprocess.run(["mount", "--bind", folder, folder], check=False, capture_output=True)
    if mounted.returncode:
        pytest.skip("root may write everywhere, and nothing can be mounted here")
    subprocess.run(["mount", "-o", "remount,ro,bind", folder], check=True)
    yield folder
    subprocess.run(["umount", "--lazy", folder], check=True)


def test_a_closed_folder_is_named_and_what_is_made_within_it(closed, tmp_path):
    for path in (closed / "scores.csv", closed / "new/folder/scores.csv"):
        with pytest.raises(UserError, match=f"^{closed} may not be written: .* nothing was started$"):
            refuse_closed_folders([str(path), tmp_path / "results/open.csv"])


def test_open_folders_and_those_that_are_yet_to_be_made_are_fine(closed, tmp_path):
    refuse_closed_folders([tmp_path / "results/open.csv", tmp_path / "figures/new/open.png"])
    refuse_closed_folders([])
