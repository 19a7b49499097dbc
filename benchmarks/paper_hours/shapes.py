"""What images of a data set look like at scale `paper`; none is read."""

from functools import cache

from leaklab.calibrate import GRAY, SHAPES
from leaklab.data.catalog import find_entry, load_catalog

Shape = tuple[int, int, int]


def shape_of(dataset: str) -> Shape:
    """Return channels, height and width."""
    return SHAPES.get(dataset, GRAY)


@cache
def classes_of(dataset: str) -> int:
    """Return how many classes the catalog says.

    Raises:
        UserError: no such data set.
    """
    return find_entry(dataset, load_catalog()).num_classes
