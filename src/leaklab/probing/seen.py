"""What layers saw of a client's samples while it trained."""

from collections.abc import Collection
from copy import deepcopy
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from leaklab.probing.case import Case
from leaklab.records.errors import UserError


def layer_rows(case: Case, layers: Collection[str]) -> dict[str, list[Tensor]]:
    """Return what layers were given of each sample in all steps of the client's round: float64 rows by layer.

    The round is run again, with the client's own draws, on a copy.

    Args:
        case: with inputs and targets.
        layers: names of modules.

    Raises:
        UserError: the model has no such layer, or the case no samples.
    """
    if case.inputs is None or case.targets is None:
        raise UserError("what a layer saw is not known without the private samples: give the case inputs and targets")
    model = deepcopy(case.client.model)
    found: dict[str, list[Tensor]] = {name: [] for name in layers}
    modules = dict(model.named_modules())
    for name in layers:
        if name not in modules:
            raise UserError(f"the model has no layer '{name}': choose from {', '.join(filter(None, modules))}")
        modules[name].register_forward_pre_hook(_recorder(found[name]))
    replace(case.client, model=model).round(case.inputs, case.targets)
    return found


def _recorder(rows: list[Tensor]) -> Any:
    def record(module: nn.Module, arguments: tuple[Any, ...]) -> None:
        if arguments and isinstance(arguments[0], Tensor):
            with torch.no_grad():
                rows.extend(arguments[0].detach().to("cpu").double().unbind(0))

    return record
