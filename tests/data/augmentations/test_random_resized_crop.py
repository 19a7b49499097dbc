"""Parts of random size and shape: within the image, of the declared areas, the same from the same draws."""

import math

import pytest
import torch
from torch.nn.functional import interpolate

from leaklab.data.augmentations import RandomResizedCrop
from leaklab.records import plugins
from leaklab.records.errors import UserError
from leaklab.records.streams import stream

SIZES = torch.tensor([[640, 480], [480, 640], [500, 500], [300, 900]])


def drawn(crop, sizes, seed=0):
    boxes, mirrored = crop.windows(sizes, stream(seed, "draws"))
    left, top, right, bottom = boxes.T
    return left, top, right - left, bottom - top, mirrored


def test_parts_lie_within_their_images_and_have_whole_pixels():
    sizes = SIZES.repeat(500, 1)
    left, top, width, height, _ = drawn(RandomResizedCrop(), sizes)
    for value in (left, top, width, height):
        assert torch.equal(value, value.round())
    assert bool(((left >= 0) & (top >= 0)).all())
    assert bool(((left + width <= sizes[:, 0]) & (top + height <= sizes[:, 1])).all())
    assert float(width.min()) >= 1


def test_areas_and_shapes_are_those_that_are_declared():
    """Of a square no part of the law is cut off where the area is small: uniform areas, symmetric logarithms."""
    sizes = torch.tensor([[10_000, 10_000]]).expand(4000, 2)
    _, _, width, height, mirrored = drawn(RandomResizedCrop(smallest=0.1), sizes)
    share, ratio = width * height / 1e8, width / height
    small = share[share < 0.55]  # those always fit, whatever their shape
    assert 0.1 <= float(share.min()) < 0.102
    assert float(small.mean()) == pytest.approx(0.325, abs=0.01)
    assert 3 / 4 - 1e-3 <= float(ratio.min()) < 0.76
    assert 1.32 < float(ratio.max()) <= 4 / 3 + 1e-3
    assert float(ratio[share < 0.55].log().mean()) == pytest.approx(0, abs=3 * math.log(4 / 3) / math.sqrt(3 * 2000))
    assert float(mirrored.double().mean()) == pytest.approx(0.5, abs=0.025)


def test_where_nothing_fits_it_is_the_middle_square():
    sizes = torch.tensor([[1000, 10]])
    left, top, width, height, _ = drawn(RandomResizedCrop(smallest=0.9), sizes)
    assert [float(value) for value in (left, top, width, height)] == [495, 0, 10, 10]


def test_every_image_has_its_own_part_and_draws_go_on():
    crop, draws = RandomResizedCrop(), stream(0, "draws")
    first, again = (crop.windows(SIZES, draws)[0] for _ in range(2))
    assert not torch.equal(first, again)
    assert torch.equal(first, crop.windows(SIZES, stream(0, "draws"))[0])
    assert len({tuple(box) for box in crop.windows(SIZES[2].expand(50, 2), draws)[0].tolist()}) > 45


def test_images_in_memory_are_cut_and_brought_to_their_size():
    crop, images = RandomResizedCrop(flip=1.0), stream(0, "images").normal(6, 3, 20, 12).float()
    before = images.clone()
    changed = crop.apply(images, stream(1, "draws"))
    assert torch.equal(images, before)
    assert (changed.shape, changed.dtype) == (images.shape, images.dtype)
    boxes, mirrored = crop.windows(torch.tensor([[12, 20]]).expand(6, 2), stream(1, "draws"))
    assert bool(mirrored.all())
    for place, (left, top, right, bottom) in enumerate(boxes.long().tolist()):
        part = images[place : place + 1, :, top:bottom, left:right]
        wanted = interpolate(part, size=(20, 12), mode="bilinear", antialias=True).flip(3)
        torch.testing.assert_close(changed[place], wanted[0])


def test_impossible_settings_are_refused():
    with pytest.raises(UserError, match="smallest"):
        plugins.check("data/augmentations", "random-resized-crop", {"smallest": 1.5})
