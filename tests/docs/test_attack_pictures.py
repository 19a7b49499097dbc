"""The pictures of the pages on attacks show what the attacks see."""

from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from leaklab.report.figures.style import save, styled

DOCS = Path(__file__).parents[2] / "docs"


@pytest.fixture(scope="module")
def program(drawing):
    return drawing("draw_attacks")


def test_tokens_of_the_batch_lie_in_the_span_and_no_others_do(program):
    """Those of the batch may lie there at other places too, as the page says."""
    found, there, span = program.distances()
    near = found <= span.tolerance
    assert bool(near[there].all())
    assert not bool(near[~there.any(1)].any())
    assert float(found[~near].min()) > 1e3 * span.tolerance > 1e3 * float(found[near].max())
    assert int((near & ~there).sum()) > 0


def test_the_picture_of_the_span_is_drawn_as_it_is(program, tmp_path):
    """If this fails: ``python docs/draw_attacks.py`` draws it anew."""
    torch.manual_seed(1)
    with styled():
        save(program.draw_span(), png=tmp_path / "span.png")
    with Image.open(tmp_path / "span.png") as made, Image.open(DOCS / "span-reading.png") as shown:
        pair = [np.asarray(one.convert("L"), dtype=float) for one in (made, shown)]
    assert np.abs(pair[0] - pair[1]).mean() < 2  # of 255
