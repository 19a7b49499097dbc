"""Result rows that describe networks: one row per layer and property, read from the network that the attacks use."""

from collections.abc import Iterator, Sequence
from typing import Any

from leaklab.items.expand import PlannedRun
from leaklab.records import plugins
from leaklab.report.collect.source import Source
from leaklab.report.numbers.results import ResultRow

AGREES = "agrees_with_print"
WHOLE = "whole network"


def architecture_rows(source: Source, runs: Sequence[PlannedRun]) -> Iterator[ResultRow]:
    """Yield the properties of every layer that has parameters, and whether they are the printed ones."""
    from leaklab.models.description import describe  # the one collector that needs torch

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
