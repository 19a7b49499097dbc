"""Published weights in torch's own format, read without running code."""

from pathlib import Path
from typing import Any

import torch

from leaklab.records.errors import UserError


def read_torch(path: Path) -> Any:
    """Return what a torch file holds, on the CPU: tensors, numbers, texts and plain containers of them.

    Raises:
        UserError: the file is missing or damaged, or holds anything else.
    """
    try:
        # weights_only runs no code
        return torch.load(path, map_location="cpu", weights_only=True)
    except FileNotFoundError:
        raise UserError(f"{path} is missing: put the published weights there") from None
    except Exception as error:  # torch passes on whatever its readers of three formats stumble over
        raise UserError(f"{path} is damaged, or holds more than tensors: fetch it again") from error
