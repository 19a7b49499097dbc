"""Functions of wildcards, made cheap to ask: Snakemake asks those of scale ``paper`` some hundred thousand times.

Before each call of such a function, and in between, it looks at what arguments the function takes. To find that out
takes longer than most of the functions take themselves, unless the function says it (``__signature__``).
"""

import inspect
from collections.abc import Callable
from typing import Any, TypeVar

Function = TypeVar("Function", bound=Callable[..., Any])


def signed(function: Function) -> Function:
    """Let a function say what arguments it takes."""
    function.__signature__ = inspect.signature(function)  # type: ignore[attr-defined]
    return function


def of_run(function: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Return a function of wildcards that looks up each run once: all pieces of a run read and are told the same."""
    found: dict[str, Any] = {}

    def known(wildcards: Any) -> Any:
        run = wildcards.run
        if run not in found:
            found[run] = function(wildcards)
        return found[run]

    return signed(known)
