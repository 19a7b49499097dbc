"""Functions of wildcards that Snakemake may ask as often as it likes."""

import inspect
from types import SimpleNamespace

from leaklab.planning.lookups import of_run, signed


def test_a_run_is_looked_up_once():
    asked = []
    path = of_run(lambda wildcards: asked.append(wildcards.run) or f"{wildcards.run}.csv")
    pieces = [SimpleNamespace(run=run, piece=str(piece)) for piece in range(3) for run in ("a", "b")]
    assert [path(piece) for piece in pieces] == ["a.csv", "b.csv"] * 3
    assert asked == ["a", "b"]


def test_what_a_function_takes_is_what_it_says():
    """Snakemake gives a function by name what it says that it takes."""

    def memory(wildcards, attempt, input):
        return attempt * len(input) * int(wildcards.run)

    plain = inspect.signature(memory)
    assert inspect.signature(signed(memory)) == plain
    assert memory.__signature__ == plain
    assert list(inspect.signature(of_run(lambda wildcards: 1)).parameters) == ["wildcards"]
