"""Which of several images stands for all in a picture."""

from collections.abc import Mapping


def typical(values: Mapping[int, float]) -> int:
    """Return the image whose value is the median, of an even number the lower one of the two in the middle."""
    ordered = sorted(values, key=lambda image: (values[image], image))
    return ordered[(len(ordered) - 1) // 2]
