"""Files beside the pages: lighter pictures are made once of their bytes, also where no folder keeps them."""

import io
from pathlib import Path

import pytest
from PIL import Image

from leaklab.report.site import files_beside
from leaklab.report.site.files_beside import FilesBeside, Shape


@pytest.fixture
def picture(tmp_path: Path) -> Path:
    path = tmp_path / "in.png"
    Image.linear_gradient("L").resize((90, 120)).save(path)
    return path


def opened(path: Path) -> Image.Image:
    return Image.open(io.BytesIO(path.read_bytes()))


def test_the_top_is_what_is_seen_of_a_picture(picture: Path, tmp_path: Path) -> None:
    made = FilesBeside(tmp_path / "kept")
    made.write_lighter(picture, Shape(30), tmp_path / "whole.webp")
    made.write_lighter(picture, Shape(30, 10), tmp_path / "top.webp")
    made.finish()
    made.close()
    whole, top = opened(tmp_path / "whole.webp"), opened(tmp_path / "top.webp")
    assert whole.size == (30, 40)
    assert top.size == (30, 10)
    for x, y in ((3, 2), (25, 7)):
        assert top.convert("L").getpixel((x, y)) == pytest.approx(whole.convert("L").getpixel((x, y)), abs=8)


def test_the_same_bytes_are_made_once(picture: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = FilesBeside(tmp_path / "kept")
    first.write_lighter(picture, Shape(30), tmp_path / "first.webp")
    first.finish()
    first.close()
    monkeypatch.setattr(files_beside, "lighter", None)  # whoever makes one again fails
    again = FilesBeside(tmp_path / "kept")
    again.write_lighter(picture, Shape(30), tmp_path / "again.webp")
    again.finish()
    assert (tmp_path / "again.webp").read_bytes() == (tmp_path / "first.webp").read_bytes()
    picture.write_bytes(picture.read_bytes() + b" ")
    other = FilesBeside(tmp_path / "kept")
    other.write_lighter(picture, Shape(30), tmp_path / "other.webp")
    with pytest.raises(TypeError):
        other.finish()
    again.close()
    other.close()


def test_a_folder_that_keeps_nothing_is_no_fault(picture: Path, tmp_path: Path) -> None:
    (tmp_path / "kept").write_text("a file where a folder should be")
    made = FilesBeside(tmp_path / "kept")
    made.write_lighter(picture, Shape(30), tmp_path / "out.webp")
    made.finish()
    made.close()
    assert opened(tmp_path / "out.webp").size == (30, 40)
