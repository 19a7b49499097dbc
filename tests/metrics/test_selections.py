"""Oracle choice, diverged trials and reference rows."""

import pytest
import torch

from leaklab.metrics.guesses import (
    class_means,
    finite,
    mean_image,
    oracle_choice,
    private_indices,
    reference_guesses,
    same_class_image,
    unrelated_image,
)
from leaklab.records.streams import stream

SPLIT = stream(0, "split").integers(0, 256, 50, 1, 6, 6).to(torch.uint8)
LABELS = torch.arange(50) % 7


def test_the_mean_image_is_the_mean_of_the_others():
    others = [i for i in range(50) if i not in (3, 7)]
    assert mean_image(SPLIT, {3, 7}).numpy() == pytest.approx((SPLIT[others].double() / 255).mean(0).numpy(), abs=1e-12)


def test_a_mean_of_nothing_is_refused():
    with pytest.raises(ValueError, match="not private"):
        mean_image(SPLIT[:2], {0, 1})


def test_the_unrelated_image_is_another_one_and_has_a_name():
    drawn = [unrelated_image(SPLIT, i, seed=0) for i in range(50)]
    assert not any(torch.equal(image, SPLIT[i].double() / 255) for i, image in enumerate(drawn))
    assert torch.equal(drawn[4], unrelated_image(SPLIT, 4, seed=0))
    assert len({image.sum().item() for image in drawn}) > 20


def place_in_split(image):
    (place,) = [i for i in range(50) if torch.equal(image, SPLIT[i].double() / 255)]
    return place


def test_the_image_of_the_same_class_is_another_one_of_that_class():
    drawn = [place_in_split(same_class_image(SPLIT, LABELS, i, seed=0)) for i in range(50)]
    assert all(place != i and LABELS[place] == LABELS[i] for i, place in enumerate(drawn))
    assert len(set(drawn)) > 20
    # at another place in the batch another draw
    assert len({place_in_split(same_class_image(SPLIT, LABELS, 4, 0, position)) for position in range(9)}) > 1


def test_every_image_of_the_class_may_be_drawn():
    drawn = {place_in_split(same_class_image(SPLIT, LABELS, 4, seed=seed)) for seed in range(100)}
    assert drawn == {11, 18, 25, 32, 39, 46}


def test_an_image_alone_in_its_class_has_no_such_reference():
    alone = torch.where(torch.arange(50) == 4, 9, LABELS)
    assert same_class_image(SPLIT, alone, 4, seed=0) is None
    assert "same-class-image" not in reference_guesses(
        SPLIT, alone, [[9], [4]], seed=1, known=alone[torch.tensor([[9], [4]])]
    )


def test_draws_of_one_image_share_their_references():
    alone = reference_guesses(SPLIT, LABELS, [[4]], seed=1, known=LABELS[torch.tensor([[4]])])
    among = reference_guesses(SPLIT, LABELS, [[9], [4], [4]], seed=1, known=LABELS[torch.tensor([[9], [4], [4]])])
    assert torch.equal(alone["unrelated-image"][0], among["unrelated-image"][1])
    assert torch.equal(among["unrelated-image"][1], among["unrelated-image"][2])
    assert torch.equal(alone["same-class-image"][0], among["same-class-image"][2])
    assert among["mean-image"].shape == among["same-class-image"].shape == (3, 1, 1, 6, 6)


def test_the_class_mean_is_that_of_the_others_of_the_class():
    private = {4, 11, 12}
    found = class_means(SPLIT, LABELS, private, [4, 5])
    for label, mean in found.items():
        others = [i for i in range(50) if LABELS[i] == label and i not in private]
        assert mean.numpy() == pytest.approx((SPLIT[others].double() / 255).mean(0).numpy(), abs=1e-12)


def test_a_class_without_other_images_has_no_mean():
    alone = torch.where(torch.arange(50) == 4, 9, LABELS)
    assert class_means(SPLIT, alone, {4}, [9, 0]).keys() == {0}


def test_the_class_mean_is_of_the_label_that_the_attacker_has_and_not_of_the_true_one():
    private = [[4, 9], [10, 3]]
    guesses = reference_guesses(SPLIT, LABELS, private, seed=1, known=torch.tensor([[6, -1], [0, 99]]))
    means, mean = class_means(SPLIT, LABELS, {3, 4, 9, 10}, [0, 6]), guesses["mean-image"][0, 0]
    wanted = torch.stack([torch.stack([means[6], mean]), torch.stack([means[0], mean])])
    assert torch.equal(guesses["class-mean"], wanted)


def test_of_a_class_with_spread_the_mean_is_a_better_guess_than_any_of_its_images():
    """Why it is among the references: noise, and what a prior makes of it, is as near as the mean of the class."""
    private = [[i] for i in range(20)]
    guesses = reference_guesses(SPLIT, LABELS, private, seed=1, known=LABELS[:20, None])
    truth = SPLIT[:20].double()[:, None] / 255
    errors = {kind: float((guess - truth).square().mean()) for kind, guess in guesses.items()}
    assert errors["class-mean"] < 0.7 * min(errors["same-class-image"], errors["unrelated-image"])


def test_a_batch_known_by_one_index_or_by_all():
    assert private_indices([{"image": 5}, {"image": 6}], batch=2) == [[5, 5], [6, 6]]
    assert private_indices([{"image": [5, 8]}], batch=2) == [[5, 8]]


def test_pixels_that_are_not_finite_become_gray_and_are_counted():
    images = torch.rand(3, 1, 1, 2, 2)
    images[1, 0, 0, 0, 0], images[1, 0, 0, 1, 1] = float("nan"), float("inf")
    mended, broken = finite(images)
    assert broken.tolist() == [False, True, False]
    assert mended[1, 0, 0, 0, 0] == 0.5
    assert mended[1, 0, 0, 1, 1] == 0.5
    assert torch.equal(mended[0], images[0])


def test_the_oracle_takes_the_nearest_start_that_was_run():
    truth = torch.full((2, 1, 1, 2, 2), 0.5)
    errors = torch.tensor([[0.3, 0.1, 0.0], [0.2, 0.4, 0.3]])
    candidates = truth.unsqueeze(1) + errors.view(2, 3, 1, 1, 1, 1)
    losses = torch.tensor([[1.0, 2.0, float("inf")], [3.0, 1.0, 1.0]])
    chosen = candidates[:, 0] * 0
    best = oracle_choice(candidates, losses, chosen, truth)
    assert best[0].mean() == pytest.approx(0.6)
    assert best[1].mean() == pytest.approx(0.7)


def test_the_oracle_keeps_the_choice_if_all_starts_diverged():
    truth = torch.full((1, 1, 1, 2, 2), 0.5)
    chosen = truth + 0.25
    candidates = torch.full((1, 2, 1, 1, 2, 2), float("nan"))
    assert torch.equal(oracle_choice(candidates, torch.full((1, 2), float("inf")), chosen, truth), chosen)
