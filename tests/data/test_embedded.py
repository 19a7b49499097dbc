"""The datasets that come inside installed packages: what the demo runs on."""

import socket
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from sklearn.datasets import load_digits

from leaklab.data.catalog import load_catalog
from leaklab.data.fetch import fetch
from leaklab.data.prepare import prepare

CATALOG = load_catalog(Path(__file__).parents[2] / "config/datasets.yaml")


@pytest.fixture(autouse=True)
def no_network(monkeypatch):
    def refuse(*arguments, **settings):
        raise AssertionError("the network was touched")

    monkeypatch.setattr(socket, "socket", refuse)
    monkeypatch.setattr(socket, "create_connection", refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)


def prepared(name):
    return prepare(name, CATALOG[name], fetch(CATALOG[name], None))


@pytest.mark.parametrize(
    ("name", "shape", "train", "test"),
    [
        ("digits", [1, 28, 28], 1433, 364),
        ("faces", [1, 32, 32], 160, 40),
        ("photographs", [3, 32, 32], 510, 130),
    ],
)
def test_sizes_card_and_split(name, shape, train, test):
    result = prepared(name)
    card, tensors = result.card, result.tensors
    assert (card["shape"], card["train_size"], card["test_size"]) == (shape, train, test)
    assert tensors["train_images"].shape == (train, *shape)
    assert tensors["train_images"].dtype == tensors["test_images"].dtype == torch.uint8
    assert tensors["test_labels"].unique().tolist() == list(range(card["num_classes"]))
    assert len(card["class_names"]) == card["num_classes"]
    assert card["substitute"] is None
    assert all(file["source"].startswith("package ") and len(file["sha256"]) == 64 for file in card["files"])
    counts = tensors["train_labels"].bincount() / (
        tensors["train_labels"].bincount() + tensors["test_labels"].bincount()
    )
    assert counts.min() > 0.78
    assert counts.max() <= 0.8


def test_the_same_split_every_time():
    first, second = prepared("faces").tensors, prepared("faces").tensors
    assert all(torch.equal(first[name], second[name]) for name in first)


def test_digits_are_scikit_learns_enlarged():
    tensors = prepared("digits").tensors
    images = torch.cat([tensors["train_images"], tensors["test_images"]])[:, 0].numpy()
    labels = torch.cat([tensors["train_labels"], tensors["test_labels"]])
    source = load_digits()
    assert labels.bincount().tolist() == np.bincount(source.target).tolist()
    # averaging blocks undoes the enlargement well enough to recognise the images (a few are near twins)
    small = np.stack([np.asarray(Image.fromarray(i).resize((8, 8), Image.Resampling.BOX), dtype=float) for i in images])
    small -= small.mean((1, 2), keepdims=True)
    wanted = source.images - source.images.mean((1, 2), keepdims=True)
    correlation = np.corrcoef(small.reshape(len(small), -1), wanted.reshape(len(wanted), -1))
    nearest = correlation[: len(small), len(small) :].argmax(1)
    assert len(set(nearest)) > 0.99 * len(wanted)
    assert source.target[nearest].tolist() == labels.tolist()


def test_crops_of_one_photograph_are_different_places():
    tensors = prepared("photographs").tensors
    crops = torch.cat([tensors["train_images"], tensors["test_images"]])[
        torch.cat([tensors["train_labels"], tensors["test_labels"]]) == 0
    ]
    assert len(crops) == 64
    assert len(crops.flatten(1).unique(dim=0)) == 64
    assert crops.double().std() > 50
