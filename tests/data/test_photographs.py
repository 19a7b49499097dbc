"""Photographs that stay in their files: the images of a whole reader, opened late, and refused where they changed."""

import numpy as np
import pytest
import torch
from PIL import Image
from torchvision.transforms import functional as torchvisions

from leaklab.data.augmentations import CropFlipCutout, RandomResizedCrop
from leaklab.data.catalog import Entry
from leaklab.data.dataset import Dataset
from leaklab.data.fetch import fetch
from leaklab.data.labels import Labels
from leaklab.data.photographs import Photographs
from leaklab.data.prepare import prepare
from leaklab.federated.engine import train
from leaklab.records.errors import UserError
from leaklab.records.files import read_tensors, write_json, write_tensors
from leaklab.records.streams import stream
from leaklab.specs.training import TrainSpec

SIDE = 16
ENTRY = {
    "title": "Photographs",
    "num_classes": 3,
    "licence": "none",
    "citation": "nobody",
    "instructions": "make them",
}


@pytest.fixture
def mirror(tmp_path, monkeypatch):
    """Two folders of pictures of different sizes in three classes."""
    for part, count in (("train", 24), ("val", 6)):
        draws = np.random.default_rng(count)
        for number in range(count):
            width, height = draws.integers(SIDE, 40, 2)
            path = tmp_path / f"data/Photos/{part}/n0{number % 3}/{number:03d}.png"
            path.parent.mkdir(parents=True, exist_ok=True)
            pixels = draws.integers(0, 80, (height, width, 3)) + 80 * (number % 3)
            Image.fromarray(pixels.astype(np.uint8)).save(path)
    monkeypatch.setenv("LEAKLAB_MIRROR", str(tmp_path))
    return tmp_path


def prepared(mirror, folder, **reader):
    files = {
        role: {"path": f"data/Photos/{part}", "sha256": None} for role, part in (("train", "train"), ("test", "val"))
    }
    entry = Entry.model_validate({**ENTRY, "mirror": {"reader": reader, "files": files}})
    made = prepare("photos", entry, fetch(entry, mirror))
    write_tensors(folder / "photos.safetensors", made.tensors)
    write_json(folder / "photos.json", made.card)
    return Dataset.load(folder / "photos.safetensors")


@pytest.fixture
def lazy(mirror, tmp_path):
    return prepared(mirror, tmp_path / "lazy", name="lazy-folders", side=SIDE, shorter=20)


def test_labels_and_shape_are_those_of_the_whole_reader(mirror, tmp_path, lazy):
    whole = prepared(mirror, tmp_path / "whole", name="image-folders", side=SIDE)
    assert torch.equal(lazy.train_labels, whole.train_labels)
    assert torch.equal(lazy.test_labels, whole.test_labels)
    assert lazy.shape == whole.shape == (3, SIDE, SIDE)
    assert isinstance(lazy.train_images, Photographs)
    assert (len(lazy.train_images), len(lazy.test_images)) == (24, 6)
    # a list of files and no pixels
    assert (tmp_path / "lazy/photos.safetensors").stat().st_size < 24 * SIDE * SIDE


def test_the_middle_is_that_of_torchvision(lazy):
    images = lazy.train_images
    opened = images.opened(torch.arange(24))
    for place, name in enumerate(images.names):
        picture = Image.open(images.folder / name)
        width, height = picture.size
        size = (max(SIDE, round(20 / min(width, height) * height)), max(SIDE, round(20 / min(width, height) * width)))
        shrunk = torchvisions.resize(picture, size)
        left, top = (shrunk.width - SIDE) // 2, (shrunk.height - SIDE) // 2
        wanted = torchvisions.pil_to_tensor(torchvisions.crop(shrunk, top, left, SIDE, SIDE))
        assert torch.equal((255 * opened[place]).round().to(torch.uint8), wanted), name


def test_normalised_parts_come_in_order(lazy):
    images = lazy.normalised(lazy.test_images, torch.float64)
    parts = list(images.split(4))
    assert [len(part) for part in parts] == [4, 2]
    plain = lazy.test_images.to("cpu").opened(torch.arange(6)).double()
    mean, std = (value.double()[:, None, None] for value in (lazy.mean, lazy.std))
    torch.testing.assert_close(torch.cat(parts), (plain - mean) / std, rtol=0, atol=1e-6)
    assert parts[0].dtype == torch.float64
    chosen = torch.tensor([5, 0])
    assert torch.equal(images[chosen].opened(torch.tensor([1])), images.opened(torch.tensor([0])))


def test_a_drawn_part_is_cut_out_of_the_whole_photograph(lazy):
    images, crop = lazy.train_images, RandomResizedCrop(smallest=0.2)
    chosen = torch.tensor([3, 8, 1])
    opened = images.opened(chosen, crop, stream(0, "draws"))
    pictures = [Image.open(images.folder / images.names[place]) for place in chosen]
    boxes, mirrored = crop.windows(torch.tensor([picture.size for picture in pictures]), stream(0, "draws"))
    for place, (picture, box, flipped) in enumerate(zip(pictures, boxes.tolist(), mirrored.tolist(), strict=True)):
        left, top, right, bottom = map(int, box)
        part = torchvisions.resized_crop(picture, top, left, bottom - top, right - left, [SIDE, SIDE])
        wanted = torchvisions.pil_to_tensor(torchvisions.hflip(part) if flipped else part)
        # PIL looks over the edge of a part where it is told of a box, torchvision cuts first
        assert ((255 * opened[place]) - wanted).abs().median() <= 2, place


def test_another_augmentation_changes_the_middle_squares(lazy):
    images, plain = lazy.train_images, CropFlipCutout(padding=2, cutout=4)
    opened = images.opened(torch.arange(5), plain, stream(0, "draws"))
    assert torch.equal(opened, plain.apply(images.opened(torch.arange(5)), stream(0, "draws")))


def test_a_training_on_them_is_the_training_on_the_same_images_in_memory(lazy):
    held = {
        part: (255 * images.opened(torch.arange(len(images)))).round().to(torch.uint8)
        for part, images in (("train_images", lazy.train_images), ("test_images", lazy.test_images))
    }
    dense = Dataset(
        "photos", 3, held["train_images"], lazy.train_labels, held["test_images"], lazy.test_labels, lazy.mean, lazy.std
    )
    spec = TrainSpec(
        dataset="photos",
        partition={"name": "two-clients", "validation": 0.1},
        model="mlp",
        rates=((0.05,),),
        rounds=2,
        local_steps=3,
        batch_size=4,
        seeds=(1, 2),
        evaluate=("test", "train", "validation"),
        augmentation={"name": "crop-flip-cutout", "padding": 1, "cutout": 2},
    )
    clients, aside = [torch.arange(10), torch.arange(10, 20)], [torch.arange(20, 24)]
    ours, theirs = (train(spec, data, clients, validation=aside) for data in (lazy, dense))
    for name, value in theirs.weights.items():
        torch.testing.assert_close(ours.weights[name], value, rtol=0, atol=1e-6)
    assert ours.table["validation_accuracy"].tolist() == theirs.table["validation_accuracy"].tolist()


def test_a_training_with_drawn_parts_goes_on_after_an_interruption(lazy, tmp_path):
    spec = TrainSpec(
        dataset="photos", partition="two-clients", model="mlp", rates=((0.05,),), rounds=3, local_steps=2, batch_size=4,
        seeds=(1,), augmentation="random-resized-crop",
    )  # fmt: skip
    clients, checkpoint = [torch.arange(12), torch.arange(12, 24)], tmp_path / "checkpoint.safetensors"

    def stopped(rounds, total, label):
        for index in rounds:
            if index == 2:
                raise KeyboardInterrupt
            yield index

    with pytest.raises(KeyboardInterrupt):
        train(spec, lazy, clients, checkpoint=checkpoint, checkpoint_seconds=0, track=stopped)
    resumed = train(spec, lazy, clients, checkpoint=checkpoint)
    assert resumed.client_steps == 4
    whole = train(spec, lazy, clients)
    assert all(torch.equal(value, whole.weights[name]) for name, value in resumed.weights.items())


def test_a_deal_needs_neither_the_files_nor_their_folder(lazy, tmp_path, monkeypatch):
    monkeypatch.delenv("LEAKLAB_MIRROR")
    labels = Labels.load(tmp_path / "lazy/photos.safetensors")
    assert labels.train_labels.tolist() == lazy.train_labels.tolist()
    tensors = read_tensors(tmp_path / "lazy/photos.safetensors")
    tensors["train_sums"] = tensors["train_sums"][:, :16].contiguous()
    write_tensors(tmp_path / "lazy/photos.safetensors", tensors)
    wrong = line(lambda: Labels.load(tmp_path / "lazy/photos.safetensors"))
    assert "train_sums are U8 [24, 16], the card says U8 [N, *[32]]" in wrong


def line(action):
    with pytest.raises(UserError) as caught:
        action()
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_a_file_that_changed_or_went_is_named(lazy):
    images = lazy.train_images
    path = images.folder / images.names[2]
    Image.new("RGB", (20, 20)).save(path)
    assert f"{path} is another file than the one that was prepared" in line(lambda: images.opened(torch.tensor([1, 2])))
    path.unlink()
    assert f"{path} cannot be read (No such file" in line(lambda: images.opened(torch.tensor([2])))


def test_what_needs_all_images_at_once_is_refused(lazy, monkeypatch, tmp_path):
    assert "stay in their files, for trainings alone" in line(lambda: lazy.part("train"))
    monkeypatch.delenv("LEAKLAB_MIRROR")
    assert "set LEAKLAB_MIRROR" in line(lambda: Dataset.load(tmp_path / "lazy/photos.safetensors"))


def test_a_middle_larger_than_its_photograph_is_refused(mirror, tmp_path):
    with pytest.raises(ValueError, match="shorter is 8, less than side 16"):
        prepared(mirror, tmp_path / "x", name="lazy-folders", side=SIDE, shorter=8)
