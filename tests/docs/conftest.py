"""What the published results say, gathered once for all tests of documents."""

from pathlib import Path

import pytest

from leaklab.report.site.checkout import published_data

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="session")
def published():
    """The data of the pages of scale ``small``; the folder is this checkout while it is read."""
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(ROOT)
        return published_data("small")
