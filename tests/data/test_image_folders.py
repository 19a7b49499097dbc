"""ImageNet's folders, from small photographs that are written here."""

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from leaklab.data.catalog import load_catalog
from leaklab.data.fetch import fetch
from leaklab.data.prepare import prepare
from leaklab.data.readers.folders import ImageFolders
from leaklab.records.errors import UserError

ENTRY = load_catalog(Path(__file__).parents[2] / "config/datasets.yaml")["imagenet"]
RED, GREEN, BLUE = (200, 10, 20), (10, 200, 40), (20, 10, 200)


def photograph(path, color, size=(24, 16), mode="RGB"):
    path.parent.mkdir(parents=True, exist_ok=True)
    image = Image.new("RGB", size, color)
    middle = [length // 2 for length in size]
    image.paste(tuple(level + 30 for level in color), (middle[0] - 2, middle[1] - 2, middle[0] + 2, middle[1] + 2))
    image.convert(mode).save(path)


@pytest.fixture
def files(tmp_path):
    root = tmp_path / "data/ImageNet"
    photograph(root / "train/n02/n02_7.JPEG", GREEN)
    photograph(root / "train/n02/n02_3.JPEG", GREEN, size=(16, 40))
    photograph(root / "train/n01/n01_9.JPEG", RED, mode="CMYK")
    photograph(root / "val/n02/ILSVRC2012_val_00000001.JPEG", BLUE)
    photograph(root / "val/n01/ILSVRC2012_val_00000002.JPEG", RED, mode="L")
    return {"train": root / "train", "test": root / "val"}


def test_classes_and_images_in_alphabetical_order(files):
    samples = ImageFolders(side=8).read(files)
    assert samples.class_names == ("n01", "n02")
    assert samples.train_labels.tolist() == [0, 1, 1]
    assert samples.test_labels.tolist() == [0, 1]
    assert samples.train_images.shape == (3, 3, 8, 8)
    assert np.abs(samples.train_images.mean((2, 3)) - [RED, GREEN, GREEN]).max() < 5
    # a grey photograph has three equal channels
    assert (samples.test_images[0] == samples.test_images[0, :1]).all()


def test_the_middle_square_is_shrunk_by_averaging(tmp_path):
    """A lossless picture of 4 x 8 pixels: only the columns 2 to 5 count, in blocks of 2 x 2."""
    pixels = np.random.default_rng(0).integers(0, 256, (4, 8, 3), dtype=np.uint8)
    for part in ("train", "test"):
        (tmp_path / part / "one").mkdir(parents=True)
        Image.fromarray(pixels).save(tmp_path / part / "one/a.png")
    image = ImageFolders(side=2).read({"train": tmp_path / "train", "test": tmp_path / "test"}).train_images[0]
    blocks = pixels[:, 2:6].reshape(2, 2, 2, 2, 3).astype(float).mean((1, 3))
    # Pillow rounds after the columns and again after the rows
    assert np.abs(image.transpose(1, 2, 0) - blocks).max() <= 1


def test_prepared_from_a_mirror(files, tmp_path):
    entry = ENTRY.model_copy(update={"num_classes": 2})
    prepared = prepare("imagenet", entry, fetch(entry, tmp_path))
    assert prepared.card["shape"] == [3, 64, 64]
    assert "shrunk to 64x64" in prepared.card["substitute"]
    assert [file["path"] for file in prepared.card["files"]] == ["data/ImageNet/train", "data/ImageNet/val"]


def test_without_the_data_the_message_says_what_to_do(tmp_path):
    with pytest.raises(
        UserError, match=r"register at image-net.org, .* then set LEAKLAB_MIRROR to .* data/ImageNet/train"
    ):
        fetch(ENTRY, None, tmp_path)


def test_what_does_not_fit_into_memory_names_the_largest_side(files):
    per_pixel = 5 * 3
    limit = (per_pixel * 70**2 + 1) / 1e9
    with pytest.raises(UserError, match=r"5 images of 224 x 224 pixels .* set side to at most 70, or raise limit_gb"):
        ImageFolders(side=224, limit_gb=limit).read(files)
    assert ImageFolders(side=70, limit_gb=limit).read(files).train_images.shape == (3, 3, 70, 70)
    with pytest.raises(UserError, match="at most 70"):
        ImageFolders(side=71, limit_gb=limit).read(files)


def test_all_of_imagenet_fits_as_the_catalog_says():
    reader = ImageFolders(**ENTRY.mirror.reader.settings)
    reader._check_size(1_281_167 + 50_000)
    with pytest.raises(UserError, match="1,331,167 images of 224 x 224 pixels are 200 GB, more than limit_gb 20"):
        ImageFolders(side=224)._check_size(1_281_167 + 50_000)


@pytest.mark.parametrize("place", ["val/ILSVRC2012_val_00000003.JPEG", "val/n03/a.JPEG", "train/n01/more/a.JPEG"])
def test_images_outside_the_folders_of_the_classes(files, tmp_path, place):
    photograph(tmp_path / "data/ImageNet" / place, RED)
    with pytest.raises(UserError, match="lies in no folder of a trained class: put each class's images into a folder"):
        ImageFolders(side=8).read(files)


def test_a_damaged_image_is_named(files):
    path = files["train"] / "n01/n01_9.JPEG"
    path.write_bytes(path.read_bytes()[:100])
    with pytest.raises(UserError, match=r"n01_9\.JPEG cannot be read as an image"):
        ImageFolders(side=8).read(files)


def test_a_part_without_images(files, tmp_path):
    (tmp_path / "empty").mkdir()
    with pytest.raises(UserError, match="empty has no images"):
        ImageFolders(side=8).read({**files, "test": tmp_path / "empty"})
