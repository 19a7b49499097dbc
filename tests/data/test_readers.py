"""Decoding: every format from files written here, byte by byte."""

import gzip
import io
import lzma
import pickle
import struct
import tarfile
import zipfile

import numpy as np
import pytest
from PIL import Image

from leaklab.data.readers.base import split_at_random, split_in_order
from leaklab.data.readers.cifar import LAYOUTS, CifarArchive, CifarStrips, loads
from leaklab.data.readers.folders import FaceArchive
from leaklab.data.readers.idx import EmnistZip, Idx, decode
from leaklab.records.errors import UserError
from leaklab.records.streams import stream

RANDOM = np.random.default_rng(0)


def pixels(*shape):
    return RANDOM.integers(0, 256, shape, dtype=np.uint8)


def idx(array):
    header = struct.pack(">HBB", 0, 8, array.ndim) + struct.pack(f">{array.ndim}I", *array.shape)
    return gzip.compress(header + array.tobytes(), mtime=0)


def write(path, content):
    path.write_bytes(content)
    return path


def write_tar(path, members, mode="w"):
    with tarfile.open(path, mode) as tar:
        for name, content in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))
    return path


def encoded(array, kind, **settings):
    buffer = io.BytesIO()
    Image.fromarray(array).save(buffer, kind, **settings)
    return buffer.getvalue()


class TestIdx:
    images, labels = pixels(5, 4, 3), np.array([0, 1, 2, 1, 0], dtype=np.uint8)

    def files(self, folder, *parts):
        return {
            f"{part}_{kind}": write(folder / f"{part}{kind}", idx(array))
            for part in parts
            for kind, array in (("images", self.images), ("labels", self.labels))
        }

    def test_images_and_labels(self, tmp_path):
        samples = Idx().read(self.files(tmp_path, "train", "test"))
        assert np.array_equal(samples.train_images[:, 0], self.images)
        assert samples.test_labels.tolist() == self.labels.tolist()
        assert samples.train_labels.dtype == np.int64

    def test_transposed_files_are_stored_upright(self, tmp_path):
        samples = Idx(transposed=True).read(self.files(tmp_path, "train", "test"))
        assert samples.train_images.shape == (5, 1, 3, 4)
        assert np.array_equal(samples.train_images[2, 0], self.images[2].T)

    def test_a_single_part_is_split(self, tmp_path):
        samples = Idx().read(self.files(tmp_path, "all"))
        assert sorted([*samples.train_labels, *samples.test_labels]) == [0, 0, 1, 1, 2]

    def test_a_missing_role_is_named(self, tmp_path):
        with pytest.raises(UserError, match="needs a file called 'test_images', it has train_images, train_labels"):
            Idx().read(self.files(tmp_path, "train"))

    @pytest.mark.parametrize(
        "content",
        [
            b"nothing",
            idx(pixels(3, 3))[:-9],
            gzip.compress(b"\0\0\x08", mtime=0),
            gzip.compress(struct.pack(">HBBI", 0, 8, 1, 7) + b"abc", mtime=0),
            gzip.compress(struct.pack(">HBBI", 0, 9, 1, 3) + b"abc", mtime=0),
        ],
    )
    def test_what_is_no_idx_file_is_refused(self, content):
        with pytest.raises(UserError, match=r"some\.gz is no"):
            decode(content, "some.gz")


def test_emnist_zip_picks_its_split_and_turns_the_images(tmp_path):
    arrays = {}
    with zipfile.ZipFile(tmp_path / "gzip.zip", "w") as archive:
        for split in ("balanced", "byclass"):
            for part in ("train", "test"):
                images, labels = pixels(4, 28, 28), RANDOM.integers(0, 47, 4, dtype=np.uint8)
                arrays[split, part] = images, labels
                archive.writestr(f"gzip/emnist-{split}-{part}-images-idx3-ubyte.gz", idx(images))
                archive.writestr(f"gzip/emnist-{split}-{part}-labels-idx1-ubyte.gz", idx(labels))
    samples = EmnistZip("byclass").read({"archive": tmp_path / "gzip.zip"})
    assert np.array_equal(samples.test_images[3, 0], arrays["byclass", "test"][0][3].T)
    assert samples.train_labels.tolist() == arrays["byclass", "train"][1].tolist()
    with pytest.raises(UserError, match="check the reader's split 'letters'"):
        EmnistZip("letters").read({"archive": tmp_path / "gzip.zip"})


class TestCifarStrips:
    def tar(self, path, images, labels):
        table = "fine,name\n" + "".join(f"{label},x.png\n" for label in labels)
        strips = {
            f"{start:05d}.webp": encoded(images[start : start + 2].reshape(-1, 32, 3), "WEBP", lossless=True)
            for start in range(0, len(images), 2)
        }
        # strips stand in any order in the tar; their names tell where they belong
        return write_tar(path, {**dict(reversed(strips.items())), "meta.csv.xz": lzma.compress(table.encode())})

    def test_strips_become_images_in_order(self, tmp_path):
        images = pixels(6, 32, 32, 3)
        files = {
            "train_1": self.tar(tmp_path / "a", images[:4], [3, 1, 2, 0]),
            "train_2": self.tar(tmp_path / "b", images[4:], [9, 8]),
            "test_1": self.tar(tmp_path / "c", images[:2], [5, 5]),
        }
        samples = CifarStrips(label="fine").read(files)
        assert np.array_equal(samples.train_images.transpose(0, 2, 3, 1), images)
        assert samples.train_labels.tolist() == [3, 1, 2, 0, 9, 8]
        assert samples.test_labels.tolist() == [5, 5]

    def test_labels_that_do_not_fit_are_refused(self, tmp_path):
        path = self.tar(tmp_path / "a", pixels(4, 32, 32, 3), [1, 2, 3])
        with pytest.raises(UserError, match="4 images but 3 labels"):
            CifarStrips(label="fine").read({"train_1": path, "test_1": path})


def python2_batch(images, labels, key):
    """Write a batch as Python 2's pickle wrote the official ones: old module names, byte strings as text."""
    data = images.reshape(len(images), -1)
    array = b"cnumpy.core.multiarray\n_reconstruct\n(cnumpy\nndarray\n(K\x00tU\x01btR(K\x01(K" + bytes([len(data)])
    array += b"M" + struct.pack("<H", data.shape[1]) + b"tcnumpy\ndtype\n(U\x02u1K\x00K\x01tR(K\x03U\x01|NNN"
    array += b"J\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tb\x89T" + struct.pack("<i", data.size) + data.tobytes() + b"tb"
    ints = b"".join(b"K" + bytes([label]) for label in labels)
    return b"\x80\x02}(U\x04data" + array + b"U" + bytes([len(key)]) + key.encode() + b"](" + ints + b"eu."


class TestCifarArchive:
    @pytest.mark.parametrize("classes", [10, 100])
    def test_official_layout(self, tmp_path, classes):
        layout = LAYOUTS[classes]
        batches = {name: (pixels(2, 3, 32, 32), RANDOM.integers(0, 10, 2)) for name in layout.train + layout.test}
        members = {name: python2_batch(*batch, layout.label) for name, batch in reversed(batches.items())}
        path = write_tar(tmp_path / "a.tar.gz", {"other/readme.html": b"hello", **members}, "w:gz")
        samples = CifarArchive(classes).read({"archive": path})
        assert np.array_equal(samples.train_images, np.concatenate([batches[name][0] for name in layout.train]))
        assert samples.train_labels.tolist() == [int(x) for name in layout.train for x in batches[name][1]]
        assert np.array_equal(samples.test_images, batches[layout.test[0]][0])

    def test_a_missing_member_is_named(self, tmp_path):
        path = write_tar(tmp_path / "a.tar.gz", {}, "w:gz")
        with pytest.raises(UserError, match="has no member cifar-100-python/test"):
            CifarArchive(100).read({"archive": path})


class Exploit:
    def __reduce__(self):
        return (print, ("code was run",))


class TestRestrictedPickle:
    @pytest.mark.parametrize("protocol", [2, 3, 4])
    def test_plain_containers_pass(self, protocol):
        plain = {"list": [1, 2.5, None], "text": "é", "flags": (True, False)}
        assert loads(pickle.dumps(plain, protocol=protocol), "x") == plain

    @pytest.mark.parametrize("protocol", [3, 4])
    def test_arrays_of_today_pass(self, protocol):
        array = pixels(3, 4)
        assert np.array_equal(loads(pickle.dumps(array, protocol=protocol), "x"), array)

    @pytest.mark.parametrize(
        "content",
        [
            pickle.dumps(Exploit()),
            pickle.dumps([{"data": Exploit()}], protocol=2),
            b"cos\nsystem\n(S'true'\ntR.",
            b"\x80\x04\x8c\x08builtins\x8c\x04eval\x93.",
            b"\x80\x04\x8c\x05numpy\x8c\x0fndarray.__new__\x93.",
        ],
    )
    def test_anything_that_runs_code_is_refused(self, content, capsys):
        with pytest.raises(UserError, match=r"batch is refused .* is not allowed"):
            loads(content, "batch")
        assert capsys.readouterr().out == ""

    @pytest.mark.parametrize("content", [b"", b"\x80", b"K\x01", b"}(K\x01u."])
    def test_damaged_pickles_are_one_clear_line(self, content):
        with pytest.raises(UserError, match="batch is refused"):
            loads(content, "batch")


def test_faces_are_shrunk_by_averaging_and_split_by_person(tmp_path):
    members = {}
    for shade, person in ((200, "Bea_B"), (40, "Al_A")):
        for number in range(1, 6):
            photograph = np.full((250, 250, 3), shade + number, dtype=np.uint8)
            members[f"lfw/{person}/{person}_{number:04d}.jpg"] = encoded(photograph, "JPEG", quality=100)
    members["lfw/readme.txt"] = b"hello"
    path = write_tar(tmp_path / "faces.tgz", members, "w:gz")
    samples = FaceArchive(side=32).read({"archive": path})
    assert samples.class_names == ("Al_A", "Bea_B")
    assert samples.train_images.shape == (8, 3, 32, 32)
    assert samples.train_labels.tolist() == [0] * 4 + [1] * 4
    assert samples.train_images.mean((1, 2, 3)) == pytest.approx([41, 42, 43, 44, 201, 202, 203, 204], abs=1)
    assert samples.test_images.mean((1, 2, 3)) == pytest.approx([45, 205], abs=1)


class TestSplits:
    labels = np.array([2] * 39 + [0] * 10 + [1])

    def test_in_order_takes_the_first_80_percent_of_each_class(self):
        train, test = split_in_order(self.labels)
        assert train.tolist() == [*range(39, 47), 49, *range(31)]
        assert test.tolist() == [47, 48, *range(31, 39)]

    def test_at_random_keeps_the_class_shares(self):
        train, test = split_at_random(self.labels, stream(0, "test"))
        assert sorted([*train, *test]) == list(range(50))
        assert np.bincount(self.labels[train]).tolist() == [8, 1, 31]
        assert test.tolist() != split_in_order(self.labels)[1].tolist()
        assert np.array_equal(train, split_at_random(self.labels, stream(0, "test"))[0])
        assert not np.array_equal(train, split_at_random(self.labels, stream(1, "test"))[0])
