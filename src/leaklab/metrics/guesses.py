"""The guesses that are scored: what the attack chose, what an oracle would have chosen, and the references."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from leaklab.metrics.pixel import mean_squared_error
from leaklab.records.streams import stream

# Reference rows: what an attacker without any update would score.


def mean_image(images: Tensor, private: Collection[int]) -> Tensor:
    """Return the mean of all images of a split but the private ones.

    Args:
        images: uint8 [N, C, H, W].
        private: indices of the attacked images, left out.

    Returns:
        float64 [C, H, W] in [0, 1].

    Raises:
        ValueError: no image is left.
    """
    left_out = sorted(set(private))
    if len(left_out) >= len(images):
        raise ValueError("the mean image needs at least one image that is not private")
    return _mean_without(images, left_out)


def class_means(images: Tensor, labels: Tensor, private: Collection[int], wanted: Collection[int]) -> dict[int, Tensor]:
    """Return the mean of all images of each wanted class of a split but the private ones.

    Args:
        images: uint8 [N, C, H, W].
        labels: [N].
        private: indices of the attacked images, left out.
        wanted: labels.

    Returns:
        label -> float64 [C, H, W] in [0, 1]; a label that no other image has is left out.
    """
    hidden = torch.tensor(sorted(set(private)), dtype=torch.int64)
    found: dict[int, Tensor] = {}
    for label in sorted(set(wanted)):
        members = (labels == label).nonzero().flatten()
        members = members[~torch.isin(members, hidden)]
        if len(members):
            found[label] = _mean_without(images[members], [])
    return found


def _mean_without(images: Tensor, left_out: Sequence[int]) -> Tensor:
    # sums of uint8 are exact in int64, so neither chunks nor their order change the mean
    total = torch.stack([chunk.sum(0, dtype=torch.int64) for chunk in torch.split(images, 4096)]).sum(0)
    total = total - images[list(left_out)].sum(0, dtype=torch.int64)
    return total.double() / (255 * (len(images) - len(left_out)))


def unrelated_image(images: Tensor, private: int, seed: int, position: int = 0) -> Tensor:
    """Return another image of the same split, drawn by a stream that is named after the private image.

    The draw depends on nothing else, so two attacks on the same image are compared with the same reference.

    Args:
        images: uint8 [N, C, H, W], N >= 2.
        private: index of the attacked image, which is never drawn.
        seed: of the stream.
        position: place in the batch, where several private images share one index.

    Returns:
        float64 [C, H, W] in [0, 1].
    """
    draw = int(stream(seed, "unrelated-image", private, position).integers(0, len(images) - 1))
    return images[draw + (draw >= private)].double() / 255


def same_class_image(images: Tensor, labels: Tensor, private: int, seed: int, position: int = 0) -> Tensor | None:
    """Return another image of the private image's class: what an attacker can submit who has read the label.

    Args:
        images: uint8 [N, C, H, W].
        labels: [N].
        private: index of the attacked image, which is never drawn.
        seed: of the stream, which is named after the private image and depends on nothing else.
        position: place in the batch, where several private images share one index.

    Returns:
        float64 [C, H, W] in [0, 1]; None where no other image is of this class.
    """
    others = (labels == labels[private]).nonzero().flatten()
    others = others[others != private]
    if len(others) == 0:
        return None
    draw = int(stream(seed, "same-class-image", private, position).integers(0, len(others)))
    return images[others[draw]].double() / 255


SELECTIONS = {
    "best-by-loss": "the start with the smallest matching loss: what a real attacker has",
    "oracle": "the start with the smallest clamped MSE to the private images: needs the truth, an upper limit only",
    "mean-image": "the mean of the split's other images: what an attacker without any update can submit",
    "unrelated-image": "another image of the same split, drawn by a stream named after the private image",
    "same-class-image": "another image of the split that has the private image's label, drawn in the same way",
    "class-mean": "the mean of the split's other images of the label that the attacker was told or has read; the mean "
    "image where there is no such label or no such image",
}
NEUTRAL_PIXEL = 0.5


def finite(images: Tensor) -> tuple[Tensor, Tensor]:
    """Replace pixels that are not finite by mid-gray, so that a diverged trial is scored and not dropped.

    Args:
        images: [T, ...].

    Returns:
        The images without nan and infinities, and a bool [T]: which trials had some.
    """
    good = images.isfinite()
    return images.where(good, NEUTRAL_PIXEL), ~good.flatten(1).all(1)


def oracle_choice(candidates: Tensor, losses: Tensor, chosen: Tensor, truth: Tensor) -> Tensor:
    """Return for each trial the candidate with the smallest clamped MSE to the private images.

    Args:
        candidates: [T, R, B, C, H, W].
        losses: [T, R] matching losses; a start whose loss is not finite was not run or diverged and is passed over.
        chosen: [T, B, C, H, W], the attack's own choice, kept where no start qualifies.
        truth: the same shape.

    Returns:
        [T, B, C, H, W].
    """
    errors = torch.stack([_matched_error(finite(start)[0], truth) for start in candidates.unbind(1)], dim=1)
    errors = errors.masked_fill(~losses.isfinite(), float("inf"))
    best, index = errors.min(1)
    picked = candidates[torch.arange(len(candidates)), index]
    return torch.where(best.isfinite().view(-1, 1, 1, 1, 1), picked, chosen)


def _matched_error(guess: Tensor, truth: Tensor) -> Tensor:
    paired = reorder(guess, match(guess, truth))
    return mean_squared_error(paired.flatten(1), truth.flatten(1))


def private_indices(trials: Sequence[Mapping[str, Any]], batch: int) -> list[list[int]]:
    """Return the split indices of each trial's images, [T][B]; a batch known by one index repeats it."""
    listed = [trial["image"] if isinstance(trial["image"], list) else [trial["image"]] for trial in trials]
    return [[int(i) for i in indices] * (batch if len(indices) == 1 else 1) for indices in listed]


def reference_guesses(
    split: Tensor, labels: Tensor, private: Sequence[Sequence[int]], seed: int, known: Tensor
) -> dict[str, Tensor]:
    """Return the reference guesses for each trial.

    Args:
        split: uint8 [N, C, H, W], all images of the part of the dataset that was attacked.
        labels: of the same images, [N].
        private: split indices of the private images, [T][B].
        seed: of the streams of the drawn images.
        known: int64 [T, B], the labels that the attacker was told or has read; negative for none.

    Returns:
        ``mean-image``, ``unrelated-image``, ``class-mean`` and, unless a private image is the only one of its class,
        ``same-class-image``: float64 [T, B, C, H, W] in [0, 1].
    """
    hidden = {index for trial in private for index in trial}
    mean = mean_image(split, hidden)
    means = class_means(split, labels, hidden, known.flatten().tolist())
    unrelated = [[unrelated_image(split, index, seed, place) for place, index in enumerate(t)] for t in private]
    alike = [[same_class_image(split, labels, index, seed, place) for place, index in enumerate(t)] for t in private]
    guesses = {
        "mean-image": mean.expand(len(private), len(private[0]), *mean.shape),
        "unrelated-image": torch.stack([torch.stack(trial) for trial in unrelated]),
        "class-mean": torch.stack([torch.stack([means.get(label, mean) for label in t]) for t in known.tolist()]),
    }
    others = [[image for image in trial if image is not None] for trial in alike]
    if all(len(found) == len(trial) for found, trial in zip(others, alike, strict=True)):
        guesses["same-class-image"] = torch.stack([torch.stack(trial) for trial in others])
    return guesses


# Which reconstructed image belongs to which private one: a batch comes back in any order.


def match(reconstruction: Tensor, truth: Tensor) -> Tensor:
    """Return the bijection with the smallest sum of clamped MSEs (Hungarian method), trial by trial.

    Args:
        reconstruction: [T, B, C, H, W] on the [0, 1] scale, finite.
        truth: the same shape, in [0, 1].

    Returns:
        int64, [T, B]: entry [t, b] is the reconstruction that belongs to private image b of trial t.
    """
    trials, batch = truth.shape[:2]
    if batch == 1:
        return torch.zeros(trials, 1, dtype=torch.int64)
    from scipy.optimize import linear_sum_assignment  # slow to import, and single images need none of it

    guesses, originals = reconstruction.double().clamp(0, 1).flatten(2), truth.double().flatten(2)
    # no matrix-product shortcut: its cancellation would blur the cost of nearly perfect reconstructions
    distance = torch.cdist(originals, guesses, compute_mode="donot_use_mm_for_euclid_dist")
    costs = distance.square().cpu().numpy()
    return torch.stack([torch.as_tensor(linear_sum_assignment(cost)[1], dtype=torch.int64) for cost in costs])


def reorder(batch: Tensor, order: Tensor) -> Tensor:
    """Return ``batch`` [T, B, ...] with entry [t, b] taken from [t, order[t, b]]."""
    trial = torch.arange(len(batch)).unsqueeze(1)
    return batch[trial, order]
