"""Archives of data sets and downloads: read, or refused in one line, with no code run and nothing written."""

import gzip
import hashlib
import io
import lzma
import os
import pickle
import struct
import tarfile
import urllib.request
import zipfile
from email.message import Message
from http.client import IncompleteRead
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from leaklab.data.catalog import Entry, OfficialFile
from leaklab.data.download import download
from leaklab.data.fetch import fetch
from leaklab.data.readers.cifar import LAYOUTS, CifarArchive, CifarStrips, loads
from leaklab.data.readers.embedded import Digits, FacePatches, Photographs
from leaklab.data.readers.folders import FaceArchive, ImageFolders, Leaf, TinyImageNet
from leaklab.data.readers.idx import EmnistZip, Idx, decode
from leaklab.data.text.corpus import read_cola
from leaklab.records.errors import UserError
from leaklab.records.files import sha256

UNTRUSTED = settings.get_profile("untrusted")
RANDOM = np.random.default_rng(0)
LABELS = np.arange(5, dtype=np.uint8)


def pixels(*shape):
    return RANDOM.integers(0, 256, shape, dtype=np.uint8)


def idx(array):
    header = struct.pack(">HBB", 0, 8, array.ndim) + struct.pack(f">{array.ndim}I", *array.shape)
    return header + array.tobytes()


def zipped(content):
    return gzip.compress(content, mtime=0)


def picture(kind, *shape, **more):
    buffer = io.BytesIO()
    Image.fromarray(pixels(*shape)).save(buffer, kind, **more)
    return buffer.getvalue()


def plain_tar(members):
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as opened:
        for name, content in members.items():
            member = tarfile.TarInfo(name)
            if isinstance(content, str):
                member.type, member.linkname = tarfile.SYMTYPE, content
                content = b""
            member.size = len(content)
            opened.addfile(member, io.BytesIO(content))
    return buffer.getvalue()


def tar(members):
    return zipped(plain_tar(members))


def packed(members):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as opened:
        for name, content in members.items():
            opened.writestr(zipfile.ZipInfo(name), content, zipfile.ZIP_DEFLATED)
    return buffer.getvalue()


def batch():
    """Return a batch as protocol 3 writes it: Python 2's, as the official ones are, is in ``test_readers.py``."""
    return pickle.dumps({"data": pixels(4, 3072), "fine_labels": [0, 1, 2, 3]}, protocol=3)


LAYOUT = LAYOUTS[100]
CIFAR = {LAYOUT.train[0]: batch(), LAYOUT.test[0]: batch()}
STRIPS = {"meta.csv.xz": lzma.compress(b"label\n1\n1\n1\n"), "00000.webp": picture("WEBP", 96, 32, 3, lossless=True)}
EMNIST = {
    f"gzip/emnist-balanced-{part}-{kind}-ubyte.gz": zipped(idx(array))
    for part in ("train", "test")
    for kind, array in (("images-idx3", pixels(5, 28, 28)), ("labels-idx1", LABELS))
}
FACES = {f"lfw/{who}/{who}_{k:04d}.jpg": picture("JPEG", 40, 40, 3) for who in ("A", "B") for k in range(3)}
TINY = {
    **{f"t/train/{c}/images/{c}_{k}.JPEG": picture("JPEG", 64, 64, 3) for c in ("n1", "n2") for k in range(2)},
    "t/val/images/val_0.JPEG": picture("JPEG", 64, 64, 3),
    "t/val/val_annotations.txt": b"val_0.JPEG\tn1\t0\n",
}
SENTENCES = b"a\t1\t\thello world\nb\t0\t*\tno\n"
PARTS = ("in_domain_train", "in_domain_dev", "out_of_domain_dev")
IDX = {"all_images": idx(pixels(5, 4, 3)), "all_labels": idx(LABELS)}
PICTURES = [picture(kind, 40, 40, 3) for kind in ("JPEG", "PNG", "WEBP")]
COLA = {f"cola_public/raw/{part}.tsv": SENTENCES for part in PARTS}
ARCHIVES = {
    "cifar": (CIFAR, tar, lambda path: CifarArchive(100).read({"archive": path})),
    "strips": (STRIPS, plain_tar, lambda path: CifarStrips().read({"train": path, "test": path})),
    "emnist": (EMNIST, packed, lambda path: EmnistZip("balanced").read({"archive": path})),
    "faces": (FACES, tar, lambda path: FaceArchive().read({"archive": path})),
    "tiny-zip": (TINY, packed, lambda path: TinyImageNet().read({"archive": path})),
    "tiny-tar": (TINY, tar, lambda path: TinyImageNet().read({"archive": path})),
    "cola": (COLA, packed, read_cola),
}  # fmt: skip


def spoilt(members, pack, draw, damaged):
    """Return an archive that is damaged itself, or a member of which is, or is another's or a link."""
    found = dict(members)
    name = draw(st.sampled_from(sorted(found)))
    match draw(st.sampled_from(["archive", "member", "member", "lost", "moved", "link"])):
        case "archive":
            return damaged(pack(found), draw)
        case "member":
            found[name] = damaged(found[name], draw)
        case "lost":
            del found[name]
        case "moved":
            found[draw(st.sampled_from(["../../outside", "/tmp/outside", "x" * 90]))] = found.pop(name)
        case "link" if pack is not packed:
            found[name] = draw(st.sampled_from(["/etc/passwd", name, "../outside", "nowhere"]))
    return pack(found)


@pytest.mark.parametrize("kind", ARCHIVES)
@settings(UNTRUSTED, max_examples=100)
@given(data=st.data())
def test_archive(tmp_path_factory, reading, kind, data):
    folder = tmp_path_factory.mktemp(kind)
    members, pack, read = ARCHIVES[kind]
    path = folder / "archive"
    path.write_bytes(spoilt(members, pack, data.draw, reading.damaged))
    reading(read, path)
    assert [file.name for file in folder.iterdir()] == ["archive"]
    assert not Path(folder, "../../outside").exists()
    assert not Path("/tmp/outside").exists()


@settings(UNTRUSTED, max_examples=200)
@given(data=st.data())
def test_idx(tmp_path_factory, reading, data):
    folder = tmp_path_factory.getbasetemp()
    role = data.draw(st.sampled_from(sorted(IDX)))
    files = {name: folder / name for name in IDX}
    for name, content in IDX.items():
        inner = reading.damaged(content, data.draw) if name == role else content
        files[name].write_bytes(zipped(inner))
    if data.draw(st.booleans()):
        files[role].write_bytes(reading.damaged(files[role].read_bytes(), data.draw))
    reading(Idx().read, files)


@settings(UNTRUSTED, max_examples=120)
@given(data=st.data())
def test_folder_of_json(tmp_path_factory, reading, data):
    folder = tmp_path_factory.getbasetemp() / "leaf"
    folder.mkdir(exist_ok=True)
    content = {"users": ["a"], "num_samples": [2], "user_data": {"a": {"x": [[0.5] * 784] * 2, "y": [1, 2]}}}
    short = {**content, "user_data": {"a": {"x": [[0.5] * 4] * 2, "y": [1, 2]}}}
    (folder / "a.json").write_bytes(reading.spoilt_json(data.draw(st.sampled_from([content, short])), data.draw))
    reading(Leaf().read, {"train": folder, "test": folder})


@settings(UNTRUSTED, max_examples=120)
@given(data=st.data())
def test_folder_of_pictures(tmp_path_factory, reading, data):
    folder = tmp_path_factory.getbasetemp() / "pictures"
    (folder / "a").mkdir(parents=True, exist_ok=True)
    (folder / "a/1.jpg").write_bytes(reading.damaged(data.draw(st.sampled_from(PICTURES)), data.draw))
    reading(ImageFolders(32).read, {"train": folder, "test": folder})


@settings(UNTRUSTED, max_examples=100)
@given(data=st.data())
def test_a_file_with_another_checksum_is_never_read(tmp_path_factory, reading, data):
    folder = tmp_path_factory.getbasetemp() / "mirror"
    folder.mkdir(exist_ok=True)
    whole = tar(CIFAR)
    (folder / "c").write_bytes(whole)
    file = {"path": "c", "sha256": sha256(folder / "c")}
    mirror = {"reader": {"name": "cifar-archive", "classes": 100}, "files": {"archive": file}}
    entry = Entry(title="CIFAR", num_classes=100, licence="-", citation="-", mirror=mirror)
    content = reading.damaged(whole, data.draw)
    (folder / "c").write_bytes(content)
    found = reading(fetch, entry, folder)
    assert isinstance(found, UserError) == (content != whole)


class Exploit:
    def __reduce__(self):
        return os.system, ("touch leaklab-was-here",)


GADGETS = st.sampled_from([
    pickle.dumps(Exploit()), pickle.dumps({"data": Exploit()}, protocol=2), b"cos\nsystem\n(S'touch x'\ntR.",
    b"\x80\x04\x8c\x08builtins\x8c\x04eval\x93\x8c\x031+1\x85R.", b"\x80\x04\x8c\x05numpy\x8c\x0fndarray.__new__\x93.",
    b"cnumpy\nndarray\n(J\xff\xff\xff\x7fJ\xff\xff\xff\x7ftR.", b"\x80\x04" + b"]" * 3000 + b"a" * 3000,
])  # fmt: skip


@settings(UNTRUSTED, max_examples=100)
@given(data=st.data())
def test_pickles_run_nothing(tmp_path_factory, monkeypatch, reading, data):
    monkeypatch.chdir(tmp_path_factory.getbasetemp())
    gadget = data.draw(GADGETS)
    reading(loads, data.draw(st.sampled_from([gadget, reading.damaged(gadget, data.draw)])), "batch")
    assert not Path("leaklab-was-here").exists()


class Answer(io.BytesIO):
    """What a server sends: bytes, a header, and perhaps an error on the way."""

    def __init__(self, content, length, error):
        super().__init__(content)
        self.headers, self.error = Message(), error
        if length is not None:
            self.headers["Content-Length"] = length

    def read(self, size=-1):
        if self.error and self.tell():
            raise self.error
        return super().read(size)


@settings(UNTRUSTED, max_examples=100)
@given(data=st.data())
def test_download(tmp_path_factory, monkeypatch, reading, data):
    folder = tmp_path_factory.mktemp("download")
    whole = zipped(idx(LABELS))
    content = data.draw(st.sampled_from([whole, reading.damaged(whole, data.draw)]))
    length = data.draw(st.sampled_from([None, str(len(whole)), "0", "-1", "9" * 30, "many", "1.5"]))
    error = data.draw(st.sampled_from([None, None, OSError(104, "reset"), IncompleteRead(b""), TimeoutError()]))
    monkeypatch.setattr(urllib.request, "urlopen", lambda *_, **__: Answer(content, length, error))
    (folder / "whole").write_bytes(whole)
    file = OfficialFile(url="https://localhost/f", path="f", sha256=sha256(folder / "whole"))
    found = reading(download, file, folder / "f", "put it there")
    assert (folder / "f").exists() == (found is None)
    assert sorted(path.name for path in folder.iterdir()) == (["f", "f.dvc", "whole"] if found is None else ["whole"])


class TestNamed:
    """Each ends in one line that names the file and what to do."""

    @pytest.mark.parametrize("kind", ["cifar", "strips", "emnist", "faces", "tiny-zip", "tiny-tar"])
    def test_archive_that_is_cut_short(self, tmp_path, kind):
        members, pack, read = ARCHIVES[kind]
        content = pack(members)
        (tmp_path / "archive").write_bytes(content[: len(content) // 2])
        with pytest.raises(UserError, match=rf"^{tmp_path}/archive.*get"):
            read(tmp_path / "archive")

    @pytest.mark.parametrize(
        ("reader", "role"), [(Digits(), "table"), (FacePatches(), "patches"), (Photographs(), "x")]
    )
    def test_file_of_a_package(self, tmp_path, reader, role):
        (tmp_path / "file").write_bytes(b"nothing")
        with pytest.raises(UserError, match=rf"^{tmp_path}/file cannot be read.*: get"):
            reader.read({role: tmp_path / "file"})

    def test_photographs_of_nobody(self, tmp_path):
        (tmp_path / "archive").write_bytes(tar({"lfw/readme": b"x"}))
        with pytest.raises(UserError, match="archive holds no photographs: get"):
            FaceArchive().read({"archive": tmp_path / "archive"})

    @pytest.mark.parametrize(
        ("images", "labels", "said"),
        [
            (pixels(5, 4, 3), LABELS[:4], r"images \[5, 4, 3\] for labels \[4\]"),
            (pixels(5, 4), LABELS, r"images \[5, 4\] for labels \[5\]"),
            (pixels(0, 4, 3), LABELS[:0], "holds no images"),
        ],
    )
    def test_images_without_a_label_each(self, tmp_path, images, labels, said):
        (tmp_path / "images").write_bytes(zipped(idx(images)))
        (tmp_path / "labels").write_bytes(zipped(idx(labels)))
        with pytest.raises(UserError, match=rf"^{tmp_path}/images .*{said}.*: delete it"):
            Idx().read({"all_images": tmp_path / "images", "all_labels": tmp_path / "labels"})

    @pytest.mark.parametrize("shape", [(0, 2**32 - 1, 2**32 - 1, 2**32 - 1), (1,) * 65])
    def test_sides_that_no_array_has(self, shape):
        header = struct.pack(">HBB", 0, 8, len(shape)) + struct.pack(f">{len(shape)}I", *shape)
        with pytest.raises(UserError, match=r"some\.gz is no idx file of bytes .*: delete it"):
            decode(zipped(header + b"\0" * int(np.prod(shape, dtype=float))), "some.gz")

    def test_json_nested_deeply(self, tmp_path):
        (tmp_path / "a.json").write_text("[" * 100_000)
        with pytest.raises(UserError, match=rf"^{tmp_path}/a.json is no FEMNIST file in LEAF's format"):
            Leaf().read({"train": tmp_path, "test": tmp_path})

    @pytest.mark.parametrize("length", ["many", "-1", "1.5"])
    def test_length_of_a_download_that_is_none(self, tmp_path, monkeypatch, length):
        """It shows how far a download is; the checksum alone decides."""
        monkeypatch.setattr(urllib.request, "urlopen", lambda *_, **__: Answer(b"x", length, None))
        wrong = OfficialFile(url="https://localhost/f", path="f", sha256="0" * 64)
        with pytest.raises(UserError, match="what https://localhost/f sent"):
            download(wrong, tmp_path / "f", "put it there")
        download(wrong.model_copy(update={"sha256": hashlib.sha256(b"x").hexdigest()}), tmp_path / "f", "put it there")
        assert (tmp_path / "f").read_bytes() == b"x"
