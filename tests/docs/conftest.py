"""What the published results say, gathered once for all tests of documents; programs that draw their pictures."""

import importlib.util
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


@pytest.fixture(scope="session")
def drawing():
    """Load one of the programs that draw the pictures of the pages, by its name."""

    def load(name):
        spec = importlib.util.spec_from_file_location(name, ROOT / f"docs/{name}.py")
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module

    return load
