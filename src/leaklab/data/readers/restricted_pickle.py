"""An unpickler for the two official CIFAR archives: plain containers, numbers, strings and numpy arrays only.

Anything else that a pickle may ask for (and with it any code that it may want to run) is refused.
"""

import io
import pickle  # only ever through the class below, on two archives whose checksums were right
from typing import Any

import numpy as np

from leaklab.data.readers.damage import DAMAGE
from leaklab.records.errors import UserError

_RECONSTRUCT = np.empty(0).__reduce__()[0]
# numpy moved the module of its array constructor in version 2; the archives were written long before
ALLOWED = {
    ("numpy.core.multiarray", "_reconstruct"): _RECONSTRUCT,
    ("numpy._core.multiarray", "_reconstruct"): _RECONSTRUCT,
    ("numpy", "ndarray"): np.ndarray,
    ("numpy", "dtype"): np.dtype,
}


class _ArrayUnpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        if (module, name) not in ALLOWED:
            raise pickle.UnpicklingError(f"{module}.{name} is not allowed")
        return ALLOWED[module, name]


def loads(content: bytes, name: str) -> Any:
    """Return the object in ``content``, a pickle of Python 2 or 3; ``name`` is used in error messages.

    Raises:
        UserError: the pickle is damaged, or asks for anything but arrays and plain containers or for too much memory.
    """
    try:
        # Python 2 strings hold bytes 0-255, which latin1 maps one to one; numpy turns them into array data
        return _ArrayUnpickler(io.BytesIO(content), encoding="latin1").load()
    except (pickle.UnpicklingError, *DAMAGE) as error:
        raise UserError(f"{name} is refused ({error}): it is not the official file, delete it") from None
    except MemoryError:
        raise UserError(
            f"{name} asks for more memory than is there: delete it, or free memory if it is the official file"
        ) from None
