"""Blocks of landscapes: what they become, and what they refuse."""

import pytest

from leaklab.items.expand import expand
from leaklab.items.items import Item
from leaklab.records.errors import UserError
from leaklab.specs.attack import LandscapeSpec, ProjectionSpec

BLOCK = {
    "stage": "landscape",
    "dataset": "digits",
    "images": {"count": 1, "seed": 3},
    "model": "dlg-lenet",
    "defense": ["none", "lrp"],
    "attack": "ggl",
    "generator": {"dataset": "digits", "steps": 9},
    "iterations": 5,
    "projection": {"generations": 4},
    "metrics": ["mse"],
}


def runs(**changes):
    block = {key: value for key, value in {**BLOCK, **changes}.items() if value is not None}
    item = Item.model_validate(
        {
            "paper": "lrp",
            "item": "figure4",
            "title": "A title",
            "number": 1,
            "kind": "figure",
            "renderer": "latent-line",
            "runs": {"line": block},
            "scales": {"demo": {}},
        }
    )
    return expand(item, "demo")


def test_a_block_becomes_one_landscape_per_defense_with_one_inversion():
    none, lrp = (run.spec for run in runs(alpha=[0, 1, 5], beta=[-1, 1, 3]))
    assert isinstance(none, LandscapeSpec)
    assert (none.alpha, none.beta) == ((0, 1, 5), (-1, 1, 3))
    assert [spec.attack.capture.defense.name for spec in (none, lrp)] == ["none", "lrp"]
    assert none.projection == lrp.projection
    assert none.projection == ProjectionSpec(
        dataset="digits", images=none.attack.capture.images, generator=none.attack.generator, generations=4
    )


def test_planted_images_are_made_by_the_blocks_generator():
    none, _ = (run.spec for run in runs(images={"count": 2, "planted": True}))
    assert none.attack.capture.images.planted == none.attack.generator
    assert none.projection.images == none.attack.capture.images


def test_named_images_are_no_axis():
    (none, _) = (run.spec for run in runs(images={"count": 2, "indexes": [7, 3]}))
    assert none.attack.capture.images.indexes == (7, 3)


def test_without_them_the_text_of_a_choice_is_what_it_was():
    (none, _) = (run.spec for run in runs())
    assert set(none.attack.capture.images.model_dump()) == {"split", "count", "seed", "min_contrast"}


def test_an_attacker_with_a_transform_knows_the_defense():
    assert [run.attacker for run in runs(transform=["none", "profiled-scale"])] == ["paper", "knowing"] * 2


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"alpha": [1, 0, 5]}, "the smallest first"),
        ({"alpha": [0, 1, 1]}, "greater than or equal to 2"),
        ({"images": {"count": 2}, "batch_size": 2}, "a landscape shows one image an update"),
        ({"draws": 2}, "a landscape shows one image an update"),
        ({"images": {"count": 2, "planted": "yes"}}, "images.planted: write true"),
        ({"images": {"count": 2, "planted": True, "indexes": [1, 2]}}, "leave indexes out"),
        ({"images": {"count": 2, "indexes": [1]}}, "as many as count: 2"),
        ({"images": {"count": 2, "indexes": [1, 1]}}, "different positions"),
        ({"generator": None}, "add generator"),
        ({"metrics": None}, "metrics"),
        ({"projection": {"generation": 4}}, "generation"),
        ({"projection": {"perceptual": "lpips-sqeeze"}}, "lpips-sqeeze"),
        ({"alhpa": 3}, "alhpa: unknown key"),
    ],
)
def test_wrong_blocks_are_refused_with_their_place(changes, message):
    with pytest.raises(UserError, match=message) as caught:
        runs(**changes)
    assert str(caught.value).startswith("config/items/lrp/figure4.yaml: runs.line")
