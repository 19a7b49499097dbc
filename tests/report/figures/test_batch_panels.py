"""The batch that a server's one image comes from: which images it has, which are marked, and where it is drawn."""

import numpy as np
import pytest
import torch
from matplotlib.patches import Ellipse

from leaklab.captures.private_images import choose_images
from leaklab.data.dataset import unit_range
from leaklab.items.expand import expand
from leaklab.items.items import Item
from leaklab.records.files import write_json, write_tensors
from leaklab.report.figures import batch_panels
from leaklab.report.figures.batch_panels import BatchPanel
from leaklab.report.figures.image_grid import GridRow, Picture, image_grid

ITEM = Item.model_validate(
    {
        "paper": "outpost",
        "item": "figure5",
        "title": "A title",
        "number": 1,
        "kind": "figure",
        "renderer": "defense-grid",
        "runs": {
            "attack": {
                "stage": "attack",
                "dataset": "digits",
                "row": {"collision": [False, True], "modified": [True, False]},
                "images": {"count": 16, "label": 3, "of_label": 1, "seed": [4, 5]},
                "server": {"name": "fishing", "target": 3},
                "model": "dlg-lenet",
                "batch_size": 16,
                "threat_model": "malicious-server",
                "attack": {"name": "ig", "label_rule": "target"},
                "iterations": 5,
                "metrics": ["mse"],
                "overrides": [{"when": {"row.collision": True}, "set": {"images.of_label": 2}}],
            }
        },
        "cells": {"row": {"collision": "row.collision", "modified": "row.modified"}},
        "pictures": {
            "columns": ["modified"],
            "sections": ["collision"],
            "scores": ["mse"],
            "batches": True,
            "labels": {"collision": {"false": "one of the class", "true": "two of the class"}},
        },
        "scales": {"small": {}},
    }
)


@pytest.fixture
def prepared(tmp_path, monkeypatch, dataset):
    monkeypatch.chdir(tmp_path)
    named = ("train_images", "train_labels", "test_images", "test_labels")
    write_tensors(batch_panels.dataset_files("digits")[0], {name: getattr(dataset, name) for name in named})
    card = {"name": "digits", "num_classes": 10, "shape": list(dataset.shape), "mean": dataset.mean.tolist(),
            "std": dataset.std.tolist(), "substitute": None}  # fmt: skip
    write_json(batch_panels.dataset_files("digits")[1], card)
    return dataset


def test_each_section_has_the_whole_batch_of_its_first_update_with_the_class_marked(prepared):
    panels = batch_panels.gather(ITEM, "small")
    assert [panel.title for panel in panels] == ["Batch, one of the class", "Batch, two of the class"]
    assert [len(panel.marked) for panel in panels] == [1, 2]
    specs = [run.spec.attack.capture for run in expand(ITEM, "small")]
    for panel, collision in zip(panels, (1, 2), strict=True):
        capture = next(spec for spec in specs if spec.images.of_label == collision and spec.images.seed == 4)
        chosen = choose_images(capture.images, *prepared.part("test"))
        assert torch.equal(panel.images, unit_range(prepared.test_images[chosen]))
        assert {int(prepared.test_labels[chosen[place]]) for place in panel.marked} == {3}


def panels():
    return [
        BatchPanel(title, torch.rand(5, 3, 4, 4, generator=torch.Generator().manual_seed(place)), (1, 4))
        for place, title in enumerate(("left", "right", "below"))
    ]


def test_panels_stand_above_a_figure_and_leave_it_as_it_was():
    rows = [GridRow("a row", (Picture(torch.zeros(1, 4, 4)), Picture(torch.ones(1, 4, 4))))]
    plain, figure = (image_grid(rows, ["one", "two"]) for _ in range(2))
    batch_panels.draw_above(figure, panels())
    (width, height), (same_width, larger) = plain.get_size_inches(), figure.get_size_inches()
    assert (same_width, larger > height) == (width, True)
    for before, after in zip(plain.axes, figure.axes, strict=False):
        old, new = before.get_position(original=True), after.get_position(original=True)
        assert np.allclose(np.array(old.bounds) * ([width, height] * 2), np.array(new.bounds) * ([width, larger] * 2))
    lowest = [axes.get_position(original=True).y0 * larger for axes in figure.axes[len(plain.axes) :]]
    assert min(lowest) >= height


def test_every_image_is_there_and_the_marked_ones_have_a_ring():
    (panel, *_), figure = panels(), image_grid([GridRow("", (Picture(None),))], [""])
    batch_panels.draw_above(figure, [panel])
    axes = figure.axes[-1]
    mosaic = np.asarray(axes.images[0].get_array())
    rings = [patch for patch in axes.patches if isinstance(patch, Ellipse)]
    assert len(rings) == 2
    across, side = 3, 4
    for place, image in enumerate(panel.images.permute(0, 2, 3, 1).numpy()):
        top, left = (
            batch_panels.SEPARATOR + index * (side + batch_panels.SEPARATOR) for index in divmod(place, across)
        )
        assert np.allclose(mosaic[top : top + side, left : left + side], image)
        inside = [ring for ring in rings if abs(ring.center[0] - left - side / 2 + 0.5) < 1e-9
                  and abs(ring.center[1] - top - side / 2 + 0.5) < 1e-9]  # fmt: skip
        assert len(inside) == (place in panel.marked)


def test_what_is_kept_beside_the_figure_are_the_pictures_and_the_marked_places():
    kept = batch_panels.arrays(panels()[:1])
    assert kept["left"].shape == (5, 4, 4, 3)
    assert kept["left"].dtype == np.uint8
    assert kept["left, marked"].tolist() == [1, 4]
