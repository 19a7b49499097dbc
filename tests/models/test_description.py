"""A network described in rows."""

import torch

from leaklab.models.base import describe
from leaklab.records import plugins


def test_table_4_from_the_code():
    network = plugins.load("models", "dlg-lenet").build((3, 32, 32), 100)
    rows = {row["layer"]: row for row in describe(network, (3, 32, 32))}
    assert rows["conv1"] == {
        "layer": "conv1",
        "kind": "Conv2d",
        "kernel_size": (5, 5),
        "stride": (2, 2),
        "padding": (2, 2),
        "in_channels": 3,
        "out_channels": 12,
        "output_shape": (12, 16, 16),
        "parameters": 912,
    }
    assert [rows[f"conv{index}"]["output_shape"][1] for index in (1, 2, 3, 4)] == [16, 8, 8, 8]
    assert rows["fc"] == {
        "layer": "fc",
        "kind": "Linear",
        "in_features": 768,
        "out_features": 100,
        "output_shape": (100,),
        "parameters": 76900,
    }


def test_pooling_and_dropout_rows_and_no_side_effect():
    network = plugins.load("models", "cnn-small").initialised((1, 28, 28), 10, seed=0, dtype=torch.float64).train()
    before = {name: value.clone() for name, value in network.state_dict().items()}
    rows = {row["layer"]: row for row in describe(network, (1, 28, 28))}
    assert rows["pool1"]["kernel_size"] == (2, 2)
    assert rows["dropout1"] == {"layer": "dropout1", "kind": "Dropout", "output_shape": (50,), "parameters": 0}
    assert sum(row["parameters"] for row in rows.values()) == sum(p.numel() for p in network.parameters())
    assert network.training
    assert all(torch.equal(value, before[name]) for name, value in network.state_dict().items())
