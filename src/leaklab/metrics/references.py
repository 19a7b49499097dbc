"""Reference rows: what an attacker without any update would score.

A reconstruction that is no nearer to the private image than the mean image, than some other image of the same set, or,
as labels leak by themselves, than another image of the same class or the mean of that class, has leaked nothing that
the metric can see. Of an update that noise has drowned a good prior returns the class mean, so nothing less is a guess.
"""

from collections.abc import Collection, Sequence

import torch
from torch import Tensor

from leaklab.records.streams import stream


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
