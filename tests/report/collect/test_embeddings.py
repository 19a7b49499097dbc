"""Embeddings in the plane, and distances within and between groups of classes."""

from pathlib import Path

import numpy as np
import pytest
import torch

from leaklab.items.expand import expand
from leaklab.items.items import load_item
from leaklab.records.errors import UserError
from leaklab.records.files import write_json, write_tensors
from leaklab.report.collect.embeddings import chance, distances, embedding_rows, plane
from leaklab.report.collect.source import Source
from leaklab.specs.base import run_folder

ITEM = """
paper: p
item: i
number: 1
kind: figure
title: Embeddings
renderer: scatter
runs:
  training:
    stage: train
    dataset: digits
    partition: {name: class-groups, clients: 7, samples: 10, tests: 4}
    model: mlp
    algorithm: hyperfl
    rates: [[0.01]]
    rounds: 1
    local_steps: 1
    batch_size: 4
    seeds: [1, 2]
    evaluate: [own-test]
cells:
  row: {dataset: dataset}
  embedding: embedding
scatter: {x: embedding_x, y: embedding_y, groups: [group]}
scales: {small: {}}
"""


def draws(*shape):
    return torch.from_numpy(np.random.default_rng(0).normal(size=shape))


@pytest.fixture
def source(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_json(Path("data/prepared/digits.json"), {"name": "digits", "num_classes": 10, "substitute": None})

    def made(text=ITEM):
        path = Path("config/items/p/i.yaml")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        item = load_item(path)
        (run,) = expand(item, "small")
        return Source(item, "small", frozenset(), {}, {}), run

    return made


def test_every_client_has_a_point_under_its_group_and_distances_are_over_all_seeds(source):
    given, run = source()
    kept = draws(2, 7, 5)
    write_tensors(run_folder(run.spec) / "weights.safetensors", {"clients/embedding": kept})
    rows = list(embedding_rows(given, run, "embedding"))
    points = {(row.row["client"], row.metric): row for row in rows if "client" in row.row}
    groups = ["0, 1, 2", "2, 3, 4", "4, 5, 6", "6, 7, 8", "8, 9, 0", "0, 1, 2", "2, 3, 4"]
    assert [points[client, "embedding_x"].row["group"] for client in range(7)] == groups
    wanted = plane(kept[0].numpy())
    assert [points[client, "embedding_y"].value for client in range(7)] == pytest.approx(wanted[:, 1])
    both = [distances(kept[seed].numpy(), groups) for seed in range(2)]
    (within,) = [row for row in rows if row.metric == "cosine_within"]
    assert within.value == pytest.approx(np.mean([one[0] for one in both]))
    assert within.n == 2


def test_distances_are_means_over_pairs():
    embeddings = np.array([[1.0, 0.0], [2.0, 0.0], [0.0, 3.0], [0.0, -1.0]])
    assert distances(embeddings, ["a", "a", "b", "b"]) == pytest.approx(((0 + 2) / 2, 1.0))


def test_chance_tells_groups_that_lie_together_from_those_that_do_not():
    groups = ["a"] * 5 + ["b"] * 5
    centers = np.repeat([[3.0, 0, 0, 0], [0, 3.0, 0, 0]], 5, 0)
    assert chance(centers + 0.3 * draws(10, 4).numpy(), groups) < 0.05
    shuffled = [groups[place] for place in (0, 5, 1, 6, 2, 7, 3, 8, 4, 9)]
    assert chance(centers + 0.3 * draws(10, 4).numpy(), shuffled) > 0.2


def test_the_plane_keeps_what_lies_in_a_plane():
    flat = draws(6, 2).numpy() @ draws(2, 9).numpy() + 3.0
    found = plane(flat)
    apart = lambda points: np.linalg.norm(points[:, None] - points[None], axis=2)  # noqa: E731
    assert apart(found) == pytest.approx(apart(flat))
    assert all(column[np.abs(column).argmax()] > 0 for column in found.T)


def test_what_has_no_embeddings_or_groups_is_refused(source):
    given, run = source()
    write_tensors(run_folder(run.spec) / "weights.safetensors", {"clients/fc2.bias": draws(2, 7, 5)})
    with pytest.raises(UserError, match="clients of these runs keep no 'embedding'"):
        list(embedding_rows(given, run, "embedding"))
    given, run = source(ITEM.replace("{name: class-groups, clients: 7, samples: 10,", "{name: iid, clients: 7,"))
    write_tensors(run_folder(run.spec) / "weights.safetensors", {"clients/embedding": draws(2, 7, 5)})
    with pytest.raises(UserError, match="partition 'iid' has no groups of classes: use class-groups"):
        list(embedding_rows(given, run, "embedding"))
    with pytest.raises(UserError, match="clients of one group and of several are needed"):
        distances(draws(3, 2).numpy(), ["a", "b", "c"])
