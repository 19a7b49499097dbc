"""The picture figure of an attack item: what stands in which column, and what is said below."""

from pathlib import Path

import numpy as np
import pytest

from leaklab.items.items import load_item
from leaklab.report.figures import attack_pictures
from leaklab.report.figures.attack_pictures import ORIGINAL, Shot, picture_name

ITEM = Path(__file__).parents[3] / "config/items/lrp/figure2.yaml"


@pytest.fixture
def item():
    return load_item(ITEM)


def shots():
    """One MNIST picture under a factor of 1.5, with every column, out of order."""
    columns = [
        ("lrp", "knowing", "dlg"),
        ("lrp", "paper", "dlg"),
        ("none", "paper", "dlg"),
        (ORIGINAL,),
    ]
    return [Shot("mnist", 7, 0, column, {} if column == (ORIGINAL,) else {"mse": 0.25}, 1.5) for column in columns]


def texts(figure):
    return [text.get_text() for axes in figure.axes for text in axes.texts]


def test_columns_go_from_the_original_to_the_knowing_attacker(item):
    pictures = {picture_name(shot): np.zeros((4, 4), dtype=np.uint8) for shot in shots()}
    drawn = attack_pictures.draw(item, shots(), pictures)
    words = texts(drawn)
    places = [words.index(next(word for word in words if name in word)) for name in ("original", "no defense", "LRP")]
    assert places[1] < places[2]
    assert any("s = 1.50" in word for word in words)
    assert any("MNIST" in word for word in words)
    assert sum("MSE 2.5e-01" in word for word in words) == 3


def test_the_note_names_only_scores_that_are_there(item):
    pictures = {picture_name(shot): np.zeros((4, 4), dtype=np.uint8) for shot in shots()}
    said = " ".join(texts(attack_pictures.draw(item, shots(), pictures)))
    assert "MSE on the [0, 1] scale" in said
    assert "SSIM" not in said


def test_a_picture_that_was_not_made_is_an_empty_box(item):
    some = [*shots(), Shot("mnist", 8, 1, (ORIGINAL,), {}, 1.0)]
    pictures = {picture_name(shot): np.zeros((4, 4), dtype=np.uint8) for shot in some}
    assert sum("not run" in word for word in texts(attack_pictures.draw(item, some, pictures))) == 3
