"""Tiny ImageNet's archive, from small photographs that are written here."""

import io
import tarfile
import zipfile

import numpy as np
import pytest
from PIL import Image

from leaklab.data.readers.folders import TinyImageNet
from leaklab.records.errors import UserError

ROOT = "tiny-imagenet-200"


def photograph(level, mode="RGB", side=64):
    buffer = io.BytesIO()
    Image.new("RGB", (side, side), (level, level, level)).convert(mode).save(buffer, "JPEG")
    return buffer.getvalue()


@pytest.fixture
def members():
    return {
        f"{ROOT}/wnids.txt": b"n02\nn01\n",
        f"{ROOT}/train/n02/images/n02_10.JPEG": photograph(50),
        f"{ROOT}/train/n02/images/n02_9.JPEG": photograph(40),
        f"{ROOT}/train/n02/n02_boxes.txt": b"n02_9.JPEG\t0\t0\t1\t1\n",
        f"{ROOT}/train/n01/images/n01_0.JPEG": photograph(30, mode="L"),
        f"{ROOT}/val/images/val_1.JPEG": photograph(70),
        f"{ROOT}/val/images/val_0.JPEG": photograph(60),
        f"{ROOT}/val/val_annotations.txt": b"val_0.JPEG\tn02\t0\t0\t9\t9\nval_1.JPEG\tn01\t0\t0\t9\t9\n",
        f"{ROOT}/test/images/test_0.JPEG": photograph(80),
    }


def as_zip(path, members):
    with zipfile.ZipFile(path, "w") as archive:
        archive.mkdir(f"{ROOT}/test")
        for name, content in members.items():
            archive.writestr(name, content)
    return {"archive": path}


def as_tar(path, members):
    with tarfile.open(path, "w:gz") as archive:
        for name, content in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    return {"archive": path}


@pytest.mark.parametrize("write", [as_zip, as_tar])
def test_images_stand_by_class_and_number(write, members, tmp_path):
    samples = TinyImageNet().read(write(tmp_path / "archive", members))
    assert samples.class_names == ("n01", "n02")
    assert samples.train_labels.tolist() == [0, 1, 1]
    assert samples.test_labels.tolist() == [0, 1]
    assert samples.train_images.shape == (3, 3, 64, 64)
    assert samples.train_images.dtype == np.uint8
    # by number, so n02_9 stands before n02_10; the validation images go by their listed classes
    assert samples.train_images.mean((1, 2, 3)) == pytest.approx([30, 40, 50], abs=1)
    assert samples.test_images.mean((1, 2, 3)) == pytest.approx([70, 60], abs=1)


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        (f"{ROOT}/val/val_annotations.txt", b"val_0.JPEG\tn02\n", "not the layout of tiny-imagenet-200"),
        (f"{ROOT}/val/val_annotations.txt", b"val_0.JPEG\tn02\nval_1.JPEG\tn03\n", "not the layout"),
        (f"{ROOT}/train/n01/images/n01_0.JPEG", b"no image", "n01_0.JPEG is no image of 64 x 64 pixels"),
        (f"{ROOT}/train/n01/images/n01_0.JPEG", photograph(0, side=32), "n01_0.JPEG is no image of 64 x 64 pixels"),
    ],
    ids=["unlisted", "untrained", "damaged", "small"],
)
def test_what_is_not_the_published_layout_ends_with_one_line(members, tmp_path, name, content, said):
    with pytest.raises(UserError, match=said):
        TinyImageNet().read(as_zip(tmp_path / "archive", {**members, name: content}))
