"""Result rows of checks: the numbers as the check gives them, under the item's row keys and the numbers' own."""

import math
from collections.abc import Iterator, Sequence
from typing import Any

from leaklab.items.expand import PlannedRun
from leaklab.records import plugins
from leaklab.report.collect.source import Source
from leaklab.report.numbers.results import ResultRow
from leaklab.specs.attack import CheckSpec
from leaklab.specs.base import run_folder, run_id
from leaklab.theory.base import read_numbers


def check_rows(source: Source, runs: Sequence[PlannedRun]) -> Iterator[ResultRow]:
    """Yield one row per number; a number of a curve carries its place as ``index``."""
    for run in runs:
        assert isinstance(run.spec, CheckSpec)
        keys, substitutes = source.row(run), source.substitutes(run.spec)
        for one in read_numbers(run_folder(run.spec) / "numbers.csv"):
            place = {} if one.index is None else {"index": one.index}
            yield source.number(
                one.metric,
                row={**keys, **one.row, **place},
                value=None if math.isnan(one.value) else one.value,
                std=one.std,
                n=one.n,
                clusters=one.n,
                variant=run.variant,
                substitutes=substitutes,
                runs=(run_id(run.spec),),
            )


# Result rows that describe networks: one row per layer and property, read from the network that the attacks use.

AGREES = "agrees_with_print"
WHOLE = "whole network"


def architecture_rows(source: Source, runs: Sequence[PlannedRun]) -> Iterator[ResultRow]:
    """Yield the properties of every layer that has parameters, and whether they are the printed ones."""
    from leaklab.models.base import describe

    for run in runs:
        settings = {key: value for key, value in run.choice["model"].items() if key != "name"}
        network = plugins.load("models", run.choice["model"]["name"], settings)
        module = network.build(tuple(run.choice["input_shape"]), run.choice["num_classes"])
        layers = [layer for layer in describe(module, tuple(run.choice["input_shape"])) if layer["parameters"]]
        row = source.row(run)
        for layer in layers:
            for name, value in _numbers(layer).items():
                yield source.number(name, row={**row, "layer": layer["layer"]}, value=float(value), n=1, clusters=1)
        agrees = _agrees(layers, source.item.expected, run.choice["dataset"])
        yield source.number(AGREES, row={**row, "layer": WHOLE}, value=float(agrees), n=1, clusters=1)


def _numbers(layer: dict[str, Any]) -> dict[str, Any]:
    names = {
        "kernel_size": "kernel_size",
        "stride": "stride",
        "padding": "padding",
        "in_channels": "inputs",
        "in_features": "inputs",
        "out_channels": "outputs",
        "out_features": "outputs",
        "parameters": "parameters",
    }
    return {shown: _side(layer[key]) for key, shown in names.items() if layer.get(key) is not None}


def _side(value: Any) -> Any:
    """Return the side of a square window; other values as they are."""
    return value[0] if isinstance(value, tuple) else value


def _agrees(layers: list[dict[str, Any]], expected: dict[str, Any], dataset: str) -> bool:
    """Compare with the printed facts: number of convolutions, kernel, channels, width of the last layer."""
    convolutions = [layer for layer in layers if layer.get("kernel_size") is not None]
    return (
        len(convolutions) == expected["convolutions"]
        and {layer["kernel_size"] for layer in convolutions} == {(expected["kernel_size"], expected["kernel_size"])}
        and {layer["out_channels"] for layer in convolutions} == {expected["channels"]}
        and layers[-1]["out_features"] == expected["outputs"][dataset]
    )
