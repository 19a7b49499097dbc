"""The grid of defenses: each picture in its place, whose attacker it is, and what is refused."""

import json

import numpy as np
import pytest
import torch

from leaklab.records.errors import UserError
from leaklab.report.figures import style
from leaklab.report.figures.defense_grid import ORIGINAL, DefenseGridLayout, Shot, arrays, draw

DEFENSES = ("none", "noise", "lrp")
LAYOUT = DefenseGridLayout(
    columns={
        "original": "original",
        "none": "no defense",
        "noise": "additive noise",
        "lrp": "LRP",
        "mean-image": "mean image",
        "unrelated-image": "unrelated image",
    },
    scores=("lpips_vgg", "psnr"),
    formats={"lpips_vgg": "LPIPS {:.2f}"},
    references=("mean-image", "unrelated-image"),
    note="LPIPS with VGG.",
)
IMAGES = ("image 8112", "image 11943")


def level(value):
    """Return a gray picture, by whose shade it can be found in the figure."""
    return torch.full((3, 4, 4), value)


def shots():
    """Two images with each defense, both attackers where there is something to adapt to, and one reference."""
    found = []
    for place, image in enumerate(IMAGES):
        base = 0.5 * place
        found.append(Shot(image, ORIGINAL, "", level(base)))
        found.append(Shot(image, "mean-image", "", level(base + 0.4), {"lpips_vgg": 0.7, "psnr": 12.0}))
        for column, defense in enumerate(DEFENSES, 1):
            scores = {"lpips_vgg": 0.1 * column, "psnr": 30.0 - column, "mse": 0.5}
            found.append(Shot(image, defense, "paper", level(base + 0.05 * column), scores))
            if defense != "none":
                found.append(Shot(image, defense, "knowing", level(base + 0.05 * column + 0.2), scores))
    return found


def texts(figure):
    return [text.get_text() for axes in figure.axes for text in axes.texts]


def shades(figure):
    """Return the pictures' shades, line by line from the left."""
    pictures = [axes for axes in figure.axes if axes.images]
    places = [(round(-axes.get_position().y0, 4), axes.get_position().x0, axes) for axes in pictures]
    return [
        round(float(np.asarray(axes.images[0].get_array()).mean()), 4)
        for _, _, axes in sorted(places, key=lambda p: p[:2])
    ]


class TestBeside:
    def test_pictures_stand_from_the_original_over_both_attackers_to_the_reference(self):
        row = [0, 0.05, 0.1, 0.3, 0.15, 0.35, 0.4]
        assert shades(draw(shots(), LAYOUT)) == pytest.approx([*row, *(0.5 + shade for shade in row)])

    def test_the_order_of_the_pictures_given_does_not_matter(self):
        shuffled = sorted(shots(), key=lambda shot: (shot.row != IMAGES[0], shot.attacker, shot.column))
        assert shades(draw(shuffled, LAYOUT)) == shades(draw(shots(), LAYOUT))

    def test_headings_name_defense_and_attacker(self):
        found = texts(draw(shots(), LAYOUT))
        assert (found.count("LRP"), found.count("no defense"), found.count("knowing")) == (1, 1, 2)
        assert found.count("reference") == 1
        assert "unrelated image" not in " ".join(found)

    @pytest.mark.parametrize("width", [5.0, 7.0])
    def test_where_the_grid_continues_pairs_stay_together(self, width):
        columns = {ORIGINAL: "original", "none": "no defense", **{f"d{i}": f"d{i}" for i in range(6)}}
        given = [Shot("a", ORIGINAL, "", level(0.0)), Shot("a", "none", "paper", level(0.1))]
        given += [Shot("a", f"d{i}", who, level(0.2)) for i in range(6) for who in ("paper", "knowing")]
        found = texts(draw(given, DefenseGridLayout(columns, width=width)))
        blocks = found.count("original")
        assert blocks > 1
        assert found.count("no defense") == blocks
        assert all(found.count(f"d{i}") == 1 for i in range(6))

    def test_one_attacker_alone_is_not_named(self):
        only = [shot for shot in shots() if shot.attacker != "knowing"]
        assert not any("attacker" in text for text in texts(draw(only, LAYOUT)))

    def test_scores_stand_below_in_the_order_of_the_layout(self):
        found = texts(draw(shots(), LAYOUT))
        assert found[found.index("LPIPS 0.10") + 1] == "29.0 dB"
        assert found.count("LPIPS 0.70") == 2
        assert not any("MSE" in text for text in found)


class TestBelow:
    LAYOUT = DefenseGridLayout(**{**vars(LAYOUT), "arrangement": "below"})

    def test_attackers_make_sections_of_rows_and_what_belongs_to_none_is_in_both(self):
        printed, knowing = [0, 0.05, 0.1, 0.15, 0.4], [0, 0.3, 0.35, 0.4]
        expected = [*printed, *(0.5 + s for s in printed), *knowing, *(0.5 + s for s in knowing)]
        assert shades(draw(shots(), self.LAYOUT)) == pytest.approx(expected)

    def test_each_section_is_headed_once_and_its_rows_name_the_image_alone(self):
        found = texts(draw(shots(), self.LAYOUT))
        assert found.count("paper's attacker") == found.count("knowing attacker") == 1
        assert found.index("paper's attacker") < found.index("image 8112") < found.index("knowing attacker")
        assert found.count("image 8112") == 2

    def test_a_group_of_rows_has_its_own_heading_within_each_attacker(self):
        sections = {IMAGES[0]: "update 1", IMAGES[1]: "update 2"}
        below = texts(draw(shots(), DefenseGridLayout(**{**vars(self.LAYOUT), "sections": sections})))
        heads = [text for text in below if "update" in text]
        assert heads == [f"{who} attacker, update {n}" for who in ("paper's", "knowing") for n in (1, 2)]
        beside = texts(draw(shots(), DefenseGridLayout(**{**vars(LAYOUT), "sections": sections})))
        assert [text for text in beside if "update" in text] == ["update 1", "update 2"]

    def test_eight_columns_and_ten_rows_stay_on_one_page(self):
        names = [ORIGINAL, "none", *(f"d{i}" for i in range(6))]
        given = [Shot(f"i{row}", ORIGINAL, "", level(0.0)) for row in range(5)]
        scores = {"lpips_vgg": 0.25, "psnr": 10.0}
        given += [
            Shot(f"i{row}", name, who, level(0.2), scores)
            for row in range(5) for name in names[1:] for who in ("paper", "knowing")
        ]  # fmt: skip
        layout = DefenseGridLayout(**{**vars(self.LAYOUT), "columns": {name: name for name in names}})
        figure = draw(given, layout)
        assert texts(figure).count("d0") == 1
        assert figure.get_figheight() <= 16.0

    def test_an_empty_place_says_why(self):
        reasons = [Shot(image, "none", "knowing", None, reason="nothing to adapt to") for image in IMAGES]
        words = " ".join(texts(draw([*shots(), *reasons], self.LAYOUT)))
        assert "no picture" in " ".join(texts(draw(shots(), self.LAYOUT)))
        assert "no picture" not in words
        assert words.count("nothing to") == 2


def test_rows_may_be_factors_and_columns_repeats():
    layout = DefenseGridLayout(
        columns={ORIGINAL: "original", **{f"repeat {i}": f"repeat {i}" for i in (1, 2)}},
        rows={"2": "factor 2", "1": "factor 1"},
        scores=("lpips_vgg",),
    )
    given = [Shot(row, ORIGINAL, "", level(0.0)) for row in ("1", "2")]
    given += [
        Shot(row, f"repeat {i}", "paper", level(0.3 * float(row) + 0.1 * i)) for row in ("1", "2") for i in (1, 2)
    ]
    figure = draw(given, layout)
    assert shades(figure) == pytest.approx([0, 0.7, 0.8, 0, 0.4, 0.5])
    found = texts(figure)
    assert found.index("factor 2") < found.index("factor 1")


def test_a_perfect_picture_has_an_infinite_ratio():
    found = texts(draw([Shot("a", "none", "paper", level(0.5), {"psnr": float("inf")})], LAYOUT))
    assert "∞ dB" in found


def test_what_is_kept_is_what_was_given():
    given = shots()
    kept = arrays([*given, Shot("image 1", "lrp", "knowing", None, reason="not run")])
    index = json.loads(kept["index"].tobytes())
    assert len(kept) == 1 + len(given)
    assert [entry["name"] for entry in index] == [*(shot.name for shot in given), "image 1, lrp, knowing"]
    assert [entry["scores"] for entry in index][:-1] == [shot.scores for shot in given]
    assert kept["image 8112, lrp, knowing"].tolist() == [[[89] * 3] * 4] * 4
    assert arrays([Shot("a", "none", "", torch.tensor([[[0.0, 2.0]]]))])["a, none"].tolist() == [[0, 255]]


def test_the_same_pictures_give_the_same_bytes(tmp_path):
    for name in ("a", "b"):
        style.save(draw(shots(), LAYOUT), tmp_path / f"{name}.png", tmp_path / f"{name}.pdf")
    for kind in ("png", "pdf"):
        assert (tmp_path / f"a.{kind}").read_bytes() == (tmp_path / f"b.{kind}").read_bytes()


@pytest.mark.parametrize(
    ("image", "message"),
    [
        (torch.zeros(4, 4), "give \\[1 or 3, height, width\\]"),
        (torch.zeros(2, 4, 4), "has shape \\[2, 4, 4\\]"),
        (torch.zeros(3, 0, 4), "has shape \\[3, 0, 4\\]"),
        (torch.full((1, 4, 4), float("nan")), "not finite"),
    ],
)
def test_pictures_that_cannot_be_shown_are_refused(image, message):
    with pytest.raises(UserError, match=message) as refused:
        Shot("image 7", "lrp", "knowing", image)
    assert str(refused.value).startswith("picture at image 7, lrp: ")


@pytest.mark.parametrize(
    ("given", "changes", "message"),
    [
        ([], {}, "run the item first"),
        (shots(), {"scores": ("mse", "psnr", "ssim")}, "3 scores do not fit"),
        (shots(), {"columns": {"original": "original"}}, "no column 'mean-image'"),
        (shots(), {"attackers": {"paper": "printed"}}, "no attacker 'knowing'"),
        ([*shots(), shots()[0]], {}, "two pictures at image 8112, original"),
        (shots(), {"formats": {"psnr": "{value:.1f} dB"}}, "format .* of psnr does not fit"),
        ([Shot("a", "lrp", "knowing", level(0.5), {"psnr": float("nan")})], {}, "psnr of a, lrp, knowing is not"),
    ],
)
def test_what_does_not_fit_is_refused_in_one_line(given, changes, message):
    with pytest.raises(UserError, match=message) as refused:
        draw(given, DefenseGridLayout(**{**vars(LAYOUT), **changes}))
    assert "\n" not in str(refused.value)
