"""Patches of one sample, from the update of the layer that they share and that of the positions added to them.

A position's gradient is the derivative d_p of its place, and the layer's is G = sum_p d_p x_p'. The patches x_p solve a
linear system, and are its only solution if no d_p is a sum of the others.

Source: ``attacks/position_reading.py``, here for any network whose places are found by experiment.
"""

from torch import Tensor

from leaklab.attacks.least_squares import least_squares
from leaklab.probing.algebra.readers import Reader, update
from leaklab.probing.algebra.rehearsal import Rehearsal
from leaklab.probing.algebra.sample_maps import SampleMap
from leaklab.probing.case import Case
from leaklab.records import tensor_algebra

NAME = "positions"
LOST = 1e-9
"""Ratio of singular values of the derivatives below which patches are not told apart."""


def patches(case: Case, rehearsal: Rehearsal, reader: Reader) -> Tensor | str:
    """Return the sample [...] that a reader at several places saw, or why it is not read."""
    if not isinstance(reader.way, SampleMap):
        return f"From {reader.layer} no sample follows: {reader.way}."
    if reader.positions is None:
        return (
            f"{reader.layer} sees a sample at {reader.places} places, and nothing that is sent tells their "
            "derivatives apart."
        )
    weight = reader.weight_update(case, rehearsal)
    if reader.places > len(weight):
        return f"{reader.layer} has {len(weight)} units, too few for {reader.places} places."
    own = update(case, rehearsal, reader.positions.name)
    rows = own.reshape(-1, own.shape[-1])[reader.positions.first : reader.positions.first + reader.places]
    sizes = tensor_algebra.singular_values(rows)
    if not sizes[-1] > LOST * sizes[0]:
        return f"The derivatives at the {reader.places} places of {reader.layer} are not independent."
    found = least_squares(rows.mT, weight)
    return reader.way.back(found[None].to(reader.way.offset))[0]
