import pytest
import torch

from leaklab.data.augmentations import CropFlipCutout
from leaklab.records.errors import UserError
from leaklab.records.plugins import available, load
from leaklab.records.streams import stream

ROOM = "data/augmentations"
IMAGES = stream(0, "test", "images").uniform(200, 3, 11, 8) + 1  # no pixel is 0: zeros are what was put there


def apply(images=IMAGES, seed=0, **chosen):
    return load(ROOM, "crop-flip-cutout", chosen).apply(images, stream(seed, "test", "draws"))


def draws(count, seed=0):
    """Return the five uniform numbers that each image is given."""
    return stream(seed, "test", "draws").uniform(5, count)


def slow_crop(image, padding, down, right):
    """One pixel after the other."""
    result = torch.zeros_like(image)
    _, height, width = image.shape
    for i in range(height):
        for j in range(width):
            row, column = i + down - padding, j + right - padding
            if 0 <= row < height and 0 <= column < width:
                result[:, i, j] = image[:, row, column]
    return result


def test_the_room_offers_its_plug_ins():
    assert available(ROOM) == ["crop-flip-cutout", "none", "random-resized-crop"]


def test_everything_off_changes_nothing():
    assert torch.equal(apply(padding=0, flip=0, cutout=0), IMAGES)


@pytest.mark.parametrize("padding", [1, 4, 13])
def test_a_crop_is_the_plain_loop(padding):
    images = IMAGES[:40]
    changed = apply(images, padding=padding, flip=0, cutout=0)
    places = (draws(40)[:2] * (2 * padding + 1)).long().tolist()
    for image, result, down, right in zip(images, changed, *places, strict=True):
        assert torch.equal(result, slow_crop(image, padding, down, right))


def test_all_shifts_are_equally_frequent():
    places = (draws(9000)[:2] * 9).long()
    counts = torch.bincount(places[0] * 9 + places[1], minlength=81).double()
    # chi-square with 80 degrees of freedom exceeds 125 once in a thousand
    assert float(((counts - 9000 / 81) ** 2 / (9000 / 81)).sum()) < 125


def test_an_image_is_flipped_or_it_is_not():
    changed = apply(padding=0, cutout=0)
    flipped = torch.tensor([torch.equal(new, old.flip(-1)) for new, old in zip(changed, IMAGES, strict=True)])
    kept = torch.tensor([torch.equal(new, old) for new, old in zip(changed, IMAGES, strict=True)])
    assert torch.equal(flipped, ~kept)
    assert torch.equal(flipped, draws(200)[2] < 0.5)
    assert 70 < int(flipped.sum()) < 130
    assert torch.equal(apply(padding=0, flip=1, cutout=0), IMAGES.flip(-1))


def test_the_flip_comes_after_the_crop():
    assert torch.equal(apply(flip=1, cutout=0), apply(flip=0, cutout=0).flip(-1))


@pytest.mark.parametrize("side", [1, 4, 5, 8, 40])
def test_the_blanked_area_is_exact_at_the_borders_too(side):
    changed = apply(padding=0, flip=0, cutout=side)
    centers = draws(200)[3:]
    for new, old, down, right in zip(changed, IMAGES, *centers.tolist(), strict=True):
        wanted = old.clone()
        top, left = int(down * 11) - side // 2, int(right * 8) - side // 2
        wanted[:, max(top, 0) : max(top + side, 0), max(left, 0) : max(left + side, 0)] = 0
        assert torch.equal(new, wanted)
        rows = min(top + side, 11) - max(top, 0)
        columns = min(left + side, 8) - max(left, 0)
        assert int((new == 0).sum()) == 3 * rows * columns


def test_squares_are_whole_in_the_middle_and_a_quarter_in_the_corner():
    zeros = (apply(torch.ones(4000, 1, 32, 32), padding=0, flip=0) == 0).sum((1, 2, 3))
    assert int(zeros.max()) == 16 * 16
    assert int(zeros.min()) == 8 * 8
    # E[rows] over a uniform center: (17 whole places of 16 rows, 8..15 rows at either end) / 32
    mean = (17 * 16 + sum(range(8, 16)) + sum(range(9, 16))) / 32
    assert float(zeros.double().mean()) == pytest.approx(mean**2, rel=0.02)


def test_a_part_that_is_off_does_not_disturb_the_others():
    whole = apply(cutout=0)
    cut = apply(cutout=4)
    assert torch.equal(torch.where(cut == 0, 0, whole), cut)
    assert torch.equal(apply(padding=0, cutout=0), torch.where((draws(200)[2] < 0.5)[:, None, None, None],
                                                               IMAGES.flip(-1), IMAGES))  # fmt: skip


def test_the_images_stay_as_they_are_and_so_do_shape_and_dtype():
    before = IMAGES.clone()
    for dtype in (torch.float32, torch.float64):
        changed = apply(IMAGES.to(dtype))
        assert (changed.shape, changed.dtype) == (IMAGES.shape, dtype)
        assert not torch.equal(changed, IMAGES.to(dtype))
    assert torch.equal(IMAGES, before)


def test_the_stream_decides_and_goes_on_from_step_to_step():
    assert torch.equal(apply(seed=1), apply(seed=1))
    assert not torch.equal(apply(seed=1), apply(seed=2))
    one, same = load(ROOM, "crop-flip-cutout", {}), stream(3, "test")
    assert not torch.equal(one.apply(IMAGES, same), one.apply(IMAGES, same))


@pytest.mark.parametrize(
    ("chosen", "planned", "message"),
    [
        ({"padding": -1}, "greater than or equal to 0, not -1", "padding must be a whole number from 0, not -1"),
        ({"cutout": 2.5}, "a valid integer, not 2.5", "cutout must be a whole number from 0"),
        ({"cutout": True}, "a valid integer, not True", "cutout must be a whole number from 0"),
        ({"flip": 1.5}, "less than or equal to 1, not 1.5", "flip must be from 0 to 1"),
        ({"flip": "often"}, "a valid number, not 'often'", "flip must be from 0 to 1"),
    ],
)
def test_settings_that_make_no_sense(chosen, planned, message):
    with pytest.raises(UserError, match=f"plug-in 'crop-flip-cutout': {next(iter(chosen))}: Input should be {planned}"):
        load(ROOM, "crop-flip-cutout", chosen)
    with pytest.raises(UserError, match=f"augmentation crop-flip-cutout: {message}"):
        CropFlipCutout(**chosen)
