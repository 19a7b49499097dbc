"""Names of a model's tensors for arrays that came by name or in order."""

from collections.abc import Mapping

from torch import Tensor, nn

from leaklab.records.errors import UserError
from leaklab.records.recording import OTHER_RECORD


def named(tensors: Mapping[str, Tensor], model: nn.Module | None, where: str) -> tuple[dict[str, Tensor], bool]:
    """Give recorded tensors the names of a model, and say whether they still have numbers for names.

    Those of another record of a message (``records/recording.py``) are not the model's, and stay as they are.

    Args:
        tensors: by name, in the order in which they were recorded; ``0``, ``1``, ... if they came without names.
        model: whose ``state_dict`` they are of; None if nobody knows.
        where: what to call them in errors.

    Returns:
        The tensors by the model's names, and False; or, without a model, by theirs.

    Raises:
        UserError: the model has no such names, not as many, or tensors of other shapes.
    """
    numbers = [str(number) for number in range(len(tensors))]
    state = {} if model is None else model.state_dict()
    numbered = list(tensors) == numbers and not set(tensors) <= set(state)
    if model is None or not tensors:
        return dict(tensors), numbered and bool(tensors)
    if numbered:
        parameters = dict(model.named_parameters())
        wanted = next((one for one in (state, parameters) if len(one) == len(tensors)), None)
        if wanted is None:
            raise UserError(
                f"{where} has {len(tensors)} arrays without names; the model has {len(state)} tensors, "
                f"{len(parameters)} of them parameters: give the model that the client trains"
            )
        tensors = dict(zip(wanted, tensors.values(), strict=True))
    for name, value in tensors.items():
        if OTHER_RECORD in name:
            continue
        if name not in state:
            raise UserError(f"{where} has a tensor '{name}', which the model does not: give the model that was trained")
        if value.shape != state[name].shape:
            order = ", in the order of the model's state" if numbered else ""
            raise UserError(
                f"{where}: tensor '{name}'{order} is of shape {list(value.shape)}, and of {list(state[name].shape)} "
                "in the model: give the model that was trained"
            )
    return dict(tensors), False
