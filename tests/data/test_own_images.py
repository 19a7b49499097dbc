"""Images as people bring them: of any kind, with whatever lies beside them, under names that are any bytes."""

import json
import os
import struct
import zlib

import numpy as np
import pytest
import tifffile
import torch
from PIL import Image
from torchvision import io

from leaklab.data.catalog import Entry
from leaklab.data.dataset import Dataset
from leaklab.data.fetch import fetch
from leaklab.data.prepare import check_readers, prepare
from leaklab.data.readers.folders import ImageFolders
from leaklab.data.readers.imagenet import LazyFolders
from leaklab.data.tree import shown
from leaklab.records.errors import UserError
from leaklab.records.files import write_json, write_tensors

SIDE = 16
DRAWS = np.random.default_rng(0)
# smooth, so that JPEG keeps it, and different at each corner, so that no turn is missed
ACROSS, DOWN = np.meshgrid(np.linspace(0, 1, SIDE), np.linspace(0, 1, SIDE))
GRAY = np.rint(255 * (ACROSS + 2 * DOWN) / 3).astype(np.uint8)
DEEP = np.rint(65535 * (ACROSS + 2 * DOWN) / 3).astype(np.uint16)
COLOR = np.stack([GRAY, np.rint(200 * ACROSS), np.rint(150 * DOWN)], 2).astype(np.uint8)
HALF = np.rint(255 * ACROSS).astype(np.uint8)
SCREEN = np.where((DOWN * 4).astype(int) % 2, 255, 0).astype(np.uint8)


def palette(clear=None):
    image = Image.fromarray(COLOR).quantize(16)
    return image, {} if clear is None else {"transparency": clear}


# what another library reads, as red, green and blue from 0 to 255


def decoded(path, mode=io.ImageReadMode.UNCHANGED, **more):
    return io.decode_image(io.read_file(str(path)), mode, **more).permute(1, 2, 0).double().numpy()


def rgb(path):
    return decoded(path, io.ImageReadMode.RGB, apply_exif_orientation=True)


def on_white(path):
    *color, alpha = np.moveaxis(decoded(path, io.ImageReadMode.RGB_ALPHA), 2, 0)
    return np.stack(color, 2) * alpha[..., None] / 255 + (255 - alpha[..., None])


def gray_on_white(path):
    level, alpha = np.moveaxis(decoded(path), 2, 0)
    return (level * alpha / 255 + 255 - alpha)[..., None]


def clear_color(path):
    """One color is transparent: torchvision shows it all the same, so this is by hand."""
    return np.where((COLOR[3, 5] == COLOR).all(2, keepdims=True), 255.0, COLOR)


def bitmap(path):
    """Of a BMP the rows stand from below, blue first; 48 bytes a row of 16 pixels need no filling."""
    content = path.read_bytes()
    (start,) = struct.unpack_from("<I", content, 10)
    return np.frombuffer(content, np.uint8, 3 * SIDE**2, start).reshape(SIDE, SIDE, 3)[::-1, :, ::-1].astype(float)


def sixteenth(array):
    return np.asarray(array, dtype=float).reshape(SIDE, SIDE, -1) / 257


KINDS = {
    "deep gray.png": (Image.fromarray(DEEP), {}, lambda path: sixteenth(decoded(path))),
    "gray.png": (Image.fromarray(GRAY), {}, rgb),
    "palette.png": (*palette(), rgb),
    "clear palette.png": (*palette(clear=3), on_white),
    "clear color.png": (Image.fromarray(COLOR), {"transparency": tuple(map(int, COLOR[3, 5]))}, clear_color),
    "rgba.png": (Image.fromarray(np.dstack([COLOR, HALF])), {}, on_white),
    "la.png": (Image.fromarray(np.dstack([GRAY, HALF])), {}, gray_on_white),
    "one bit.png": (Image.fromarray(SCREEN).convert("1"), {}, rgb),
    "cmyk.jpg": (Image.fromarray(COLOR).convert("CMYK"), {"quality": 95}, rgb),
    **{f"turned {turn}.jpg": (Image.fromarray(COLOR), {"quality": 95, "exif": turn}, rgb) for turn in range(2, 9)},
    "bitmap.bmp": (Image.fromarray(COLOR), {}, bitmap),
    "color.tif": (Image.fromarray(COLOR), {"compression": "tiff_adobe_deflate"}, tifffile.imread),
    "deep.TIFF": (Image.fromarray(DEEP), {}, lambda path: sixteenth(tifffile.imread(path))),
    "float.tiff": (Image.fromarray(DEEP / np.float32(65535)), {}, lambda path: 255 * tifffile.imread(path)[..., None]),
    "picture.gif": (Image.fromarray(COLOR).quantize(64), {}, rgb),
    "picture.webp": (Image.fromarray(COLOR), {"lossless": True}, rgb),
    "clear.webp": (Image.fromarray(np.dstack([COLOR, HALF])), {"lossless": True}, on_white),
}  # fmt: skip


def save(path, image, settings):
    path.parent.mkdir(parents=True, exist_ok=True)
    if turn := settings.get("exif"):
        exif = Image.Exif()
        exif[0x0112] = turn
        settings = {**settings, "exif": exif}
    image.save(path, **settings)


def picture(path, shade=0):
    save(path, Image.fromarray(np.uint8(COLOR + shade)), {"format": "PNG"})


@pytest.fixture
def folders(tmp_path):
    """Two classes of two pictures each in either part."""
    for number, (part, name) in enumerate((part, name) for part in ("train", "test") for name in ("a", "b")):
        for copy in range(2):
            picture(tmp_path / f"mine/{part}/{name}/{copy}.png", 20 * number + copy)
    return {part: tmp_path / "mine" / part for part in ("train", "test")}


def read(folders, **settings):
    return ImageFolders(side=SIDE, **settings).read(folders)


def line(action, *arguments, **settings):
    with pytest.raises(UserError) as caught:
        action(*arguments, **settings)
    assert "\n" not in str(caught.value)
    str(caught.value).encode()
    return str(caught.value)


class TestEveryKind:
    def test_is_what_another_library_reads(self, folders):
        for name, (image, settings, _) in KINDS.items():
            save(folders["train"] / "odd" / name, image, settings)
        picture(folders["test"] / "odd/0.png")
        samples = read(folders)
        images = samples.train_images[samples.train_labels == 2].transpose(0, 2, 3, 1).astype(float)
        assert len(images) == len(KINDS) >= 14
        for image, name in zip(images, sorted(KINDS), strict=True):
            expected = np.broadcast_to(KINDS[name][2](folders["train"] / "odd" / name), image.shape)
            # decoders of JPEG differ by their rounding, and blends of transparent pixels likewise
            assert np.abs(image - expected).max() <= (3 if name.endswith("jpg") else 1), name
        assert samples.notes["noticed"] == {
            "CMYK, made RGB": {"count": 1, "example": "train/odd/cmyk.jpg"},
            "gray beyond 8 bits, scaled to 8": {"count": 3, "example": "train/odd/deep gray.png"},
            "transparent, put on white": {"count": 5, "example": "train/odd/clear color.png"},
            "turned as EXIF says": {"count": 7, "example": "train/odd/turned 2.jpg"},
        }
        assert "left_out" not in samples.notes

    def test_that_pillow_writes_without_loss_is_what_was_written(self, folders):
        """Endings that few have met, too."""
        color, screen = Image.fromarray(COLOR), Image.fromarray(SCREEN).convert("1")
        settings = {"webp": {"lossless": True}, "jp2": {"irreversible": False}, "ico": {"sizes": [color.size]}}
        endings = ("bmp", "dds", "dib", "ico", "im", "jp2", "pcx", "png", "ppm", "qoi", "rgb", "tga", "tif", "webp")
        for ending in endings:
            save(folders["train"] / f"odd/{ending}.{ending}", color, settings.get(ending, {}))
        for ending in ("msp", "pbm", "xbm"):
            save(folders["train"] / f"screen/{ending}.{ending}", screen, {})
        save(folders["train"] / "deep/0.pgm", Image.fromarray(DEEP), {})
        for name in ("odd", "screen", "deep"):
            picture(folders["test"] / name / "0.png")
        samples = read(folders)
        assert samples.class_names == ("a", "b", "deep", "odd", "screen")
        color, screen, deep = (samples.train_images[samples.train_labels == label] for label in (3, 4, 2))
        assert len(color) == len(endings)
        assert (color == COLOR.transpose(2, 0, 1)).all((1, 2, 3)).tolist() == [True] * len(endings)
        assert len(screen) == 3
        assert (screen == SCREEN).all()
        assert np.abs(deep.astype(int) - GRAY).max() <= 1

    def test_sixteen_bits_are_not_white(self, folders):
        """The gray ramp is a ramp: values above 255 were all white."""
        save(folders["train"] / "a/0.png", Image.fromarray(DEEP), {})
        found = read(folders).train_images[0]
        assert np.abs(found.astype(int) - GRAY).max() <= 1

    @pytest.mark.parametrize("byteorder", ["<", ">"])
    def test_of_a_tiff_of_either_byte_order_and_turned_as_it_says(self, folders, byteorder):
        tifffile.imwrite(folders["train"] / "a/0.tif", DEEP, byteorder=byteorder, extratags=[(274, "H", 1, 6, True)])
        (folders["train"] / "a/0.png").unlink()
        samples = read(folders)
        assert np.abs(samples.train_images[0].astype(int) - np.rot90(GRAY, -1)).max() <= 1
        assert samples.notes["noticed"]["turned as EXIF says"]["count"] == 1

    def test_where_zero_is_white(self, folders):
        tifffile.imwrite(folders["train"] / "a/0.tif", DEEP, photometric="miniswhite")
        (folders["train"] / "a/0.png").unlink()
        assert np.abs(read(folders).train_images[0].astype(int) - (255 - GRAY)).max() <= 1

    def test_with_one_deep_gray_that_is_transparent(self, folders):
        save(folders["train"] / "a/0.png", Image.fromarray(DEEP), {"transparency": int(DEEP[2, 3])})
        found, clear = read(folders).train_images[0], DEEP[2, 3] == DEEP
        assert (found[:, clear] == 255).all()
        assert np.abs(found.astype(int) - GRAY)[:, ~clear].max() <= 1

    def test_with_one_color_of_sixteen_bits_that_is_transparent(self, folders):
        def chunk(kind, content):
            body = kind + content
            return struct.pack(">I", len(content)) + body + struct.pack(">I", zlib.crc32(body))

        colors = np.dstack([DEEP, DEEP // 2, DEEP // 3]).astype(">u2")
        rows = zlib.compress(b"".join(b"\0" + row.tobytes() for row in colors))
        header = struct.pack(">IIBBBBB", SIDE, SIDE, 16, 2, 0, 0, 0)
        chunks = {b"IHDR": header, b"tRNS": colors[2, 3].tobytes(), b"IDAT": rows, b"IEND": b""}
        content = b"\x89PNG\r\n\x1a\n" + b"".join(chunk(kind, own) for kind, own in chunks.items())
        (folders["train"] / "a/0.png").write_bytes(content)
        found = read(folders).train_images[0].transpose(1, 2, 0)
        expected = np.where((colors == colors[2, 3]).all(2, keepdims=True), 255, colors / 257)
        assert np.abs(found - expected).max() <= 1

    def test_on_the_color_that_is_named(self, folders):
        save(folders["train"] / "a/0.png", Image.fromarray(np.dstack([COLOR, 0 * GRAY])), {})
        for color, level in (("white", (255, 255, 255)), ("navy", (0, 0, 128))):
            samples = read(folders, background=color)
            assert (samples.train_images[0] == np.array(level)[:, None, None]).all()
            told = {"count": 1, "example": "train/a/0.png"}
            assert samples.notes["noticed"] == {f"transparent, put on {color}": told, "of one color all over": told}

    def test_with_more_pictures_gives_the_first_and_says_so(self, folders):
        first, second = (Image.fromarray(np.uint8(GRAY + shade)) for shade in (0, 9))
        first.save(folders["train"] / "a/2.gif", save_all=True, append_images=[second], duration=100)
        samples = read(folders)
        assert np.abs(samples.train_images[2].astype(int) - GRAY).max() == 0
        assert samples.notes["noticed"]["with more pictures, of which the first is taken"]["example"] == "train/a/2.gif"

    def test_that_is_enlarged_is_told(self, folders):
        save(folders["test"] / "b/1.png", Image.fromarray(COLOR[:9]), {})
        assert read(folders).notes["noticed"] == {
            "smaller than 16x16, enlarged": {"count": 1, "example": "test/b/1.png"}
        }


class TestNumbersWithoutARange:
    """Which number is white stands in no file of 32 bits, and in none of floats beyond 1."""

    @pytest.mark.parametrize(
        ("array", "said"),
        [
            (
                1000 * GRAY.astype(np.int32),
                "gray up to 255000, and nobody says which number is white: add white: 255000,",
            ),
            (GRAY.astype(np.float32), "gray up to 255.0, and nobody says which number is white: add white: 255.0,"),
            (GRAY.astype(np.float32) - 9, "gray from -9.0 to 246.0: scale it to numbers from 0 to 1"),
            (np.where(GRAY > 9, np.nan, GRAY).astype(np.float32), "gray from nan to nan: scale it"),
            (np.where(GRAY > 9, np.inf, GRAY).astype(np.float32), "gray from 0.0 to inf: scale it"),
        ],
    )
    def test_is_refused_with_what_to_write(self, folders, array, said):
        tifffile.imwrite(folders["train"] / "a/0.tif", array)
        assert f"{folders['train']}/a/0.tif has {said}" in line(read, folders)

    @pytest.mark.parametrize(
        ("array", "white"),
        [(GRAY.astype(np.float32), 255), (16 * GRAY.astype(np.uint16), 4080), (3000 * GRAY.astype(np.int32), 765e3)],
    )
    def test_is_read_once_the_catalog_says(self, folders, array, white):
        (folders["train"] / "a/0.png").unlink()
        tifffile.imwrite(folders["train"] / "a/0.tif", array)
        assert np.abs(read(folders, white=white).train_images[0].astype(int) - GRAY).max() <= 1


class TestWhatIsNoImage:
    def test_is_left_out_counted_and_told(self, folders):
        before = read(folders)
        root = folders["train"]
        picture(root / ".ipynb_checkpoints/0-checkpoint.png")
        picture(root / "__MACOSX/a/0.png")
        picture(root / "a/.cache/deep/0.png")
        picture(root / "a/._0.png")
        for name in ("Thumbs.db", "a/desktop.ini", "a/0.png~", ".DS_Store", "a/notes.txt", "b/more.TXT", "labels"):
            (root / name).write_bytes(b"x")
        (folders["test"] / "c").mkdir()
        (root / "a/gone.png").symlink_to(root / "nowhere.png")
        os.mkfifo(root / "a/pipe.png")
        samples = read(folders)
        assert samples.class_names == ("a", "b")
        for part in ("train_images", "train_labels", "test_images", "test_labels"):
            assert (getattr(samples, part) == getattr(before, part)).all()
        assert samples.notes["left_out"] == {
            ".txt": {"count": 2, "example": "train/a/notes.txt"},
            "folder without images": {"count": 1, "example": "test/c"},
            "hidden": {"count": 4, "example": "train/.DS_Store"},
            "left by other programs": {"count": 4, "example": "train/Thumbs.db"},
            "link to nothing": {"count": 1, "example": "train/a/gone.png"},
            "no plain file": {"count": 1, "example": "train/a/pipe.png"},
            "without an ending": {"count": 1, "example": "train/labels"},
        }

    def test_is_named_where_there_is_nothing_else(self, tmp_path):
        (tmp_path / "train/a").mkdir(parents=True)
        (tmp_path / "train/a/scan.dcm").touch()
        said = line(read, {"train": tmp_path / "train", "test": tmp_path / "train"})
        assert "train has no images (left out: 2 .dcm" in said or "(left out: 1 .dcm" in said

    def test_of_a_file_in_the_place_of_a_folder(self, tmp_path):
        (tmp_path / "images.zip").touch()
        assert "images.zip is no folder: give the folder" in line(
            read, dict.fromkeys(("train", "test"), tmp_path / "images.zip")
        )

    def test_that_another_program_would_draw(self, folders):
        """PostScript under the name of a picture is not handed to its interpreter."""
        (folders["train"] / "a/0.png").write_bytes(b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\nshowpage\n")
        assert "a/0.png cannot be read as an image" in line(read, folders)


class TestLinks:
    def test_to_folders_of_classes_and_to_images_are_followed(self, folders, tmp_path):
        plain = read(folders)
        (tmp_path / "elsewhere").mkdir()
        for part, folder in folders.items():
            (folder / "a").rename(tmp_path / f"elsewhere/{part}")
            (folder / "a").symlink_to(tmp_path / f"elsewhere/{part}", target_is_directory=True)
            (folder / "b/0.png").rename(tmp_path / f"elsewhere/{part}.png")
            (folder / "b/0.png").symlink_to(tmp_path / f"elsewhere/{part}.png")
        linked = read(folders)
        assert (linked.train_images == plain.train_images).all()
        assert (linked.test_labels == plain.test_labels).all()
        assert linked.notes == plain.notes == {}

    def test_that_lead_back_are_one_line(self, folders):
        (folders["train"] / "a/again").symlink_to(folders["train"], target_is_directory=True)
        for action in (read, LazyFolders(SIDE, SIDE).read, card_of):
            said = line(action, folders)
            assert "again is a link to a folder that it lies in, without end: delete the link" in said

    def test_of_a_folder_that_tells_names_only_are_one_line(self, folders, monkeypatch):
        closed = folders["train"] / "a"
        monkeypatch.setattr(os, "access", lambda path, _: path != closed)
        assert "train/a cannot be opened (Permission denied): make it readable" in line(read, folders)

    def test_count_in_the_checksum(self, folders, tmp_path):
        before = card_of(folders)["files"][0]["sha256"]
        (folders["train"] / "a").rename(tmp_path / "elsewhere")
        (folders["train"] / "a").symlink_to(tmp_path / "elsewhere", target_is_directory=True)
        assert card_of(folders)["files"][0]["sha256"] == before
        picture(tmp_path / "elsewhere/9.png")
        assert card_of(folders)["files"][0]["sha256"] != before


def entry(classes=2, reader="image-folders", **settings):
    files = {part: {"path": f"mine/{part}", "sha256": None} for part in ("train", "test")}
    source = {"reader": {"name": reader, **settings}, "files": files}
    return Entry(title="Mine", num_classes=classes, licence="-", citation="-", instructions="make them", mirror=source)


def card_of(folders, classes=2, **settings):
    own = entry(classes, **{"side": SIDE, **settings})
    check_readers("mine", own)
    return prepare("mine", own, fetch(own, folders["train"].parents[1])).card


class TestNamesOfBytes:
    """A folder from a machine that writes Latin-1: no name of it is UTF-8."""

    @pytest.fixture
    def german(self, folders):
        for folder in folders.values():
            (folder / "b").rename(folder / os.fsdecode(b"M\xfcller"))
            picture(folder / os.fsdecode(b"M\xfcller/gr\xfc\xdfe.png"))
            (folder / os.fsdecode(b"\xe4.txt")).touch()
        return folders

    def test_survive_to_the_card(self, german, tmp_path):
        own = entry(side=SIDE)
        made = prepare("mine", own, fetch(own, tmp_path))
        write_tensors(tmp_path / "mine.safetensors", made.tensors)
        write_json(tmp_path / "mine.json", made.card)
        card = json.loads((tmp_path / "mine.json").read_text(encoding="utf-8"))
        assert card["class_names"] == ["M\\xfcller", "a"]
        assert card["left_out"] == {".txt": {"count": 2, "example": "test/\\xe4.txt"}}
        assert Dataset.load(tmp_path / "mine.safetensors").train_labels.bincount().tolist() == [3, 2]

    def test_stand_in_messages_as_numbers(self, german):
        bad = german["train"] / os.fsdecode(b"M\xfcller") / "0.png"
        bad.write_bytes(b"no picture")
        assert "M\\xfcller/0.png cannot be read as an image" in line(read, german)

    def test_are_kept_by_lists_of_files(self, german, tmp_path, monkeypatch):
        monkeypatch.setenv("LEAKLAB_MIRROR", str(tmp_path))
        own = entry(reader="lazy-folders", side=SIDE, shorter=SIDE)
        made = prepare("mine", own, fetch(own, tmp_path))
        write_tensors(tmp_path / "mine.safetensors", made.tensors)
        write_json(tmp_path / "mine.json", made.card)
        images = Dataset.load(tmp_path / "mine.safetensors").train_images
        found = 255 * images.opened(torch.arange(5)).double()
        assert (found - torch.from_numpy(read(german).train_images)).abs().max() < 1e-3
        (german["train"] / os.fsdecode(b"M\xfcller/gr\xfc\xdfe.png")).unlink()
        said = line(images.opened, torch.arange(5))
        assert "M\\xfcller/gr\\xfc\\xdfe.png cannot be read (No such file" in said

    def test_with_line_breaks_are_in_no_list(self, folders):
        (folders["train"] / "a/0.png").rename(folders["train"] / "a/x\ny.png")
        said = line(LazyFolders(SIDE, SIDE).read, folders)
        assert "a/x\\ny.png: lazy-folders keeps names without line breaks: rename the file" in said
        assert read(folders).train_labels.tolist() == [0, 0, 1, 1]

    def test_are_shown_as_they_are_where_they_can_be(self):
        assert [shown(name) for name in ("Müller", "M\udcfcller", "a\x1b[31m", "\ud800")] == [
            "Müller", "M\\xfcller", "a\\x1b[31m", "\\ud800",
        ]  # fmt: skip


class TestPhotographsThatStayInTheirFiles:
    @pytest.mark.parametrize(
        ("image", "kind"),
        [(Image.fromarray(DEEP), "gray beyond 8 bits"), (Image.fromarray(np.dstack([COLOR, HALF])), "transparent")],
    )
    def test_are_refused_where_they_would_be_others(self, folders, image, kind):
        save(folders["train"] / "a/0.png", image, {})
        assert f"a/0.png is {kind}, which lazy-folders does not open: use" in line(
            LazyFolders(SIDE, SIDE).read, folders
        )

    def test_are_told_where_they_lie_on_their_side(self, folders):
        save(folders["train"] / "a/2.jpg", Image.fromarray(COLOR), {"exif": 6})
        told = LazyFolders(SIDE, SIDE).read(folders).notes["noticed"]
        assert told == {"not turned, although EXIF says so": {"count": 1, "example": "train/a/2.jpg"}}


class TestSettings:
    @pytest.mark.parametrize(
        ("settings", "said"),
        [
            ({"background": "whit"}, "mine.mirror.reader: unknown color specifier: 'whit'"),
            ({"background": 3}, "background: Input should be a valid string, not 3"),
            ({"white": 0}, "white: Input should be greater than 0, not 0"),
            ({"side": "16"}, "side: Input should be a valid integer, not '16'"),
            ({"side": 0}, "side: Input should be greater than or equal to 1, not 0"),
            ({"side": True}, "side: Input should be a valid integer, not True"),
            ({"limit_gb": "much"}, "limit_gb: Input should be a valid number, not 'much'"),
            ({"shape": 3}, "takes the settings side, limit_gb, background, white"),
        ],
    )
    def test_that_cannot_be_are_refused_before_anything_is_read(self, settings, said):
        assert said in line(check_readers, "mine", entry(**{"side": SIDE, **settings}))


def test_cards_without_anything_to_tell_are_as_they_were(folders):
    assert not {"left_out", "noticed"} & card_of(folders).keys()


def test_the_mean_is_that_of_the_pixels(folders):
    assert card_of(folders)["mean"] == pytest.approx((read(folders).train_images / 255).mean((0, 2, 3)).tolist())
    assert torch.tensor(card_of(folders)["std"]).min() > 0
