"""What counts as the same when a run is repeated to be adopted."""

import zipfile
from types import SimpleNamespace

import numpy as np
import pytest

from leaklab.provenance.repeat import differences
from leaklab.records.files import sha256, write_arrays

ARRAYS = {"value": np.array([1.0, np.nan, -0.0]), "place": np.array([3, 4])}
PATH = "figures/small/p/i.npz"


@pytest.fixture
def repeated(tmp_path, monkeypatch):
    """Return what is said of a repeated run whose npz has these arrays, in an archive with other headers."""
    monkeypatch.chdir(tmp_path)

    def of(arrays, path=PATH, recorded=None):
        old, new = tmp_path / path, tmp_path / "scratch" / path
        for place, content in ((old, ARRAYS), (new, arrays)):
            place.parent.mkdir(parents=True, exist_ok=True)
            write_arrays(place, content)
        with zipfile.ZipFile(new, "a") as archive:
            archive.comment = b"another patch version of Python"
        run = SimpleNamespace(
            entry=SimpleNamespace(outputs={path: recorded or sha256(old)}, path="figures/small/p/i.run.json"), timed=()
        )
        assert sha256(old) != sha256(new)
        return list(differences(run, tmp_path / "scratch"))

    return of


def test_arrays_in_another_archive_are_the_same(repeated):
    assert repeated(ARRAYS) == []


@pytest.mark.parametrize(
    "changed",
    [
        {"value": np.array([1.0, np.nan, 0.0])},
        {"value": np.array([1.0, np.nan, -0.0], dtype=np.float32)},
        {"place": np.array([[3, 4]])},
        {"more": np.array([1])},
    ],
)
def test_other_arrays_are_not(repeated, changed):
    (said,) = repeated({**ARRAYS, **changed})
    assert said.endswith("is not the same any more")


def test_other_archives_and_a_file_that_is_not_the_recorded_one_are_not(repeated):
    assert len(repeated(ARRAYS, "figures/small/p/i.zip")) == 1
    assert len(repeated(ARRAYS, recorded="0" * 64)) == 1
