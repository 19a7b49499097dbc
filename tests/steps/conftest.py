"""What the tests of several steps share: a step run as its rule runs it."""

import json

import pytest

from leaklab.steps.base import main


@pytest.fixture(scope="session")
def step():
    """Return a function that runs a step's module and gives its output files by name."""

    def run(module, folder, spec, inputs, outputs):
        rule = module.__name__.rpartition(".")[2]
        files = {name: folder / file for name, file in outputs.items()}
        arguments = ["--spec", json.dumps(spec), "--input", *(f"{name}={path}" for name, path in inputs.items())]
        arguments += ["--output", *(f"{name}={path}" for name, path in files.items()), f"run={folder}/run.json"]
        main(rule, module.run, arguments)
        return files

    return run


@pytest.fixture(scope="session")
def changed_at():
    """Return a function that says when a file was changed last, in nanoseconds; 0 for one that is not there.

    A file that is asked about first (``exists``) may be replaced or removed before it is looked at.
    """

    def changed(path):
        try:
            return path.stat().st_mtime_ns
        except FileNotFoundError:
            return 0

    return changed
