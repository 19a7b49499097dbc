"""Single images that tell their class by their names, from an archive that is written here."""

import io
import tarfile

import numpy as np
import pytest
from PIL import Image

from leaklab.data.readers.imagenet import NamedImages
from leaklab.records.errors import UserError


def archive(path, members):
    with tarfile.open(path, "w:gz") as tar:
        for name, (level, side) in members.items():
            buffer = io.BytesIO()
            Image.new("RGB", (side, side), (level, 2 * level, 0)).save(buffer, "WEBP", lossless=True)
            info = tarfile.TarInfo(name)
            info.size = len(buffer.getvalue())
            tar.addfile(info, io.BytesIO(buffer.getvalue()))
    return {"archive": path}


def members(numbers, side=4):
    return {f"{number:04d}_n{100 + number}.webp": (number, side) for number in numbers}


def test_every_so_many_classes_test_and_the_others_train(tmp_path):
    samples = NamedImages(every=3).read(archive(tmp_path / "a.tar.gz", members(reversed(range(7)))))
    assert samples.test_labels.tolist() == [0, 3, 6]
    assert samples.train_labels.tolist() == [1, 2, 4, 5]
    # the images are those of their labels
    for images, labels in ((samples.train_images, samples.train_labels), (samples.test_images, samples.test_labels)):
        assert images.shape[1:] == (3, 4, 4)
        assert images.dtype == np.uint8
        assert images[:, 0, 0, 0].tolist() == labels.tolist()
        assert images[:, 1, 3, 3].tolist() == (2 * labels).tolist()
    assert samples.class_names == tuple(f"n{100 + number}" for number in range(7))


@pytest.mark.parametrize(
    ("written", "problem"),
    [
        (members((0, 2)), "does not hold one image of each class"),
        ({}, "does not hold one image of each class"),
        (members((0,)) | members((1,), side=5), "holds images of 2 sizes"),
        (members((0,)) | {"notes.webp": (1, 4)}, "'notes.webp' is not called <class>_<wnid>"),
        ({"0000_n1.webp": (0, 4), "0_n2.webp": (0, 4)}, "does not hold one image of each class"),
    ],
)
def test_what_is_no_such_archive_is_one_line(tmp_path, written, problem):
    with pytest.raises(UserError) as caught:
        NamedImages().read(archive(tmp_path / "a.tar.gz", written))
    assert problem in str(caught.value)
    assert str(tmp_path / "a.tar.gz") in str(caught.value)
    assert "\n" not in str(caught.value)
