"""What no plug-in may do while it is called: draw from a global generator, or change in place what it was given.

Numbers with a seed are numbers: a draw from a generator that all share depends on who else drew, and an argument that
is changed in place is another one for whoever comes next. ``watched`` stands around the calls, once for each kind:

* attacks, transforms (``attacks/run.py``), attacks on text (``steps/attack_text.py``): a whole attack;
* defenses, optimizers, networks, augmentations (``federated/local.py``, ``federated/batches.py``): a phase of local
  training for its draws, and its first step for what is changed in place;
* algorithms: each hook that is lifted (``federated/client_work.py``); schedules: the first round
  (``federated/engine.py``);
* models: their first weights (``models/base.py``); generators: their training (``steps/train_generator.py``);
* partitions, readers (``data``), malicious servers (``captures/manipulation.py``), metrics (``metrics``), checks
  (``steps/check_theory.py``): a whole call.

Draws are seen by the state of the generators before and after; changes by the counter that torch keeps for each tensor,
and by a checksum of numpy's arrays. What goes round that counter (``tensor.data``, ``tensor.numpy()``) is not seen, nor
is a generator that is put back, as ``torch.random.fork_rng`` does: that is no fault. Nor is what a library draws as it
is first imported, as rich does: where modules were loaded during a call, only who names a draw is refused. Clocks are
found in a file's text (``records/asked.py``).
"""

import ctypes
import os
import sys
from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass
from functools import cache
from pathlib import Path
from struct import unpack
from typing import Any
from zlib import crc32

from leaklab.records.asked import PACKAGE_FOLDER, line_drawing
from leaklab.records.errors import UserError

Mark = tuple[str, object, int, int]
"""An argument, the key in it, which object is there, and its version."""
MT19937_BYTES = 625 * 4
"""Of Python's and numpy's global generators: 624 words, and the place among them."""


class watched:  # noqa: N801 - reads as a word in a with statement
    """Refuse a plug-in that draws from a global generator, or that changes an argument in place.

    Raises:
        UserError: in one line with the plug-in's file and what to do; not where the call itself has failed.
    """

    __slots__ = ("_before", "_call", "_draws", "_given", "_modules", "_states", "_who")

    def __init__(self, *who: object, call: str, given: Mapping[str, object] | None = None, draws: str = "") -> None:
        """Say what is watched.

        Args:
            who: plug-ins that are called, of which one is to blame.
            call: what they do, for the message, e.g. the method's name.
            given: arguments by name that must stay: tensors, arrays, and mappings, sequences and dataclasses of them.
            draws: what they draw from in place of a global generator; empty where draws are watched further out.
        """
        self._who, self._call, self._given, self._draws = who, call, given or {}, draws
        self._before: list[Mark] = []
        self._states: dict[str, object] = {}
        self._modules = 0

    def __enter__(self) -> None:
        self._before = _marks(self._given)
        self._states = _states() if self._draws else {}
        self._modules = len(sys.modules)

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        if error is not None:
            return
        after = _marks(self._given)
        if after != self._before:
            self._refuse_change(after)
        if self._draws:
            now = _states()
            for name, state in self._states.items():
                if now[name] != state:
                    self._refuse_draw(name)

    def _refuse_draw(self, name: str) -> None:
        place, line = _blamed(self._who, name.partition(" ")[0])
        if line is None and len(sys.modules) != self._modules:
            return
        where = place if line is None else f"{place}, line {line}"
        raise UserError(
            f"{where}: {self._call} draws from the global generator of {name}, which others draw from too: "
            f"use {self._draws}"
        )

    def _refuse_change(self, after: list[Mark]) -> None:
        changed = {*self._before} ^ {*after}
        name, key = next(mark[:2] for mark in (*self._before, *after) if mark in changed)
        what = name if key is None else f"{name} ({key!r})"
        raise UserError(
            f"{' or '.join(map(place_of, self._who))}: {self._call} changes {what} in place: work on copies "
            "(value.clone())"
        )


def _marks(given: Mapping[str, Any]) -> list[Mark]:
    found: list[Mark] = []
    for name, value in given.items():
        try:  # nearly all that is given is a dictionary of tensors, and this is done in every step of a training
            found += [(name, key, id(one), one._version) for key, one in value.items()]
        except (AttributeError, RuntimeError):  # something else, or a tensor that counts no versions
            found += _marked(name, None, value, sys.modules.get("torch"), sys.modules.get("numpy"))
    return found


def _marked(name: str, key: object, value: Any, torch: Any, numpy: Any) -> Iterator[Mark]:
    if torch is not None and isinstance(value, torch.Tensor):
        yield name, key, id(value), -1 if value.is_inference() else value._version
    elif numpy is not None and isinstance(value, numpy.ndarray):
        yield name, key, id(value), 0 if value.dtype.hasobject else crc32(numpy.ascontiguousarray(value).data)
    elif isinstance(value, Mapping):
        for own, one in value.items():
            yield from _marked(name, own, one, torch, numpy)
    elif isinstance(value, list | tuple):
        if value and not isinstance(value[0], int | float | str):
            for own, one in enumerate(value):
                yield from _marked(name, own, one, torch, numpy)
        else:
            yield name, key, id(value), len(value)
    elif is_dataclass(value):
        for field in fields(value):
            yield from _marked(f"{name}.{field.name}", None, getattr(value, field.name), torch, numpy)
    else:
        yield name, key, id(value), 0


def _states() -> dict[str, object]:
    """Return the states of the global generators that this process has loaded."""
    found: dict[str, object] = {}
    python, numpy, torch = map(sys.modules.get, ("random", "numpy.random", "torch"))
    if python is not None:
        found["random"] = _state_of_python(python)
    if numpy is not None:
        found["numpy"] = _state_of_numpy(numpy)
    if torch is not None:
        state = torch.get_rng_state()
        found["torch"] = ctypes.string_at(state.data_ptr(), state.nbytes)
        if torch.cuda.is_initialized():
            state = torch.cuda.default_generators[torch.cuda.current_device()].get_state()
            found["torch on the GPU"] = state.numpy().tobytes()
    return found


# The two Mersenne twisters are read where they lie: to ask for their states makes objects of all words, which takes ten
# and a hundred times longer, and would be felt in the rounds of small trainings.


def _state_of_python(python: Any) -> object:
    generator = python._inst
    if not _lies_behind_its_head(python.Random):
        return generator.getstate()
    return ctypes.string_at(id(generator) + object.__basicsize__, MT19937_BYTES), generator.gauss_next


@cache
def _lies_behind_its_head(generator: Any) -> bool:
    """Tell whether this Python keeps the words of a generator where it did so far: place, then words."""
    if sys.implementation.name != "cpython":
        return False
    own = generator(1)
    words = own.getstate()[1]
    raw = ctypes.string_at(id(own) + object.__basicsize__, MT19937_BYTES)
    return unpack(f"{len(words)}I", raw) == (words[-1], *words[:-1])


def _state_of_numpy(numpy: Any) -> object:
    generator = numpy.get_bit_generator()
    if type(generator).__name__ != "MT19937":
        return repr(generator.state)
    return ctypes.string_at(generator.ctypes.state_address, MT19937_BYTES)


def _blamed(who: tuple[object, ...], generator: str) -> tuple[str, int | None]:
    """Return the plug-in whose text draws, with the line; all of them, and None, where no text does."""
    for one in who:
        file = file_of(one)
        line = line_drawing(file, generator) if file else None
        if line:
            return place_of(one), line
    return " or ".join(dict.fromkeys(map(place_of, who))), None


def file_of(plugin: object) -> Path | None:
    """Return the file in which a plug-in stands, a guest's function included; None for what was made by hand."""
    function = getattr(plugin, "function", plugin)
    if code := getattr(function, "__code__", None):
        return Path(code.co_filename)
    file = getattr(sys.modules.get(type(plugin).__module__), "__file__", None)
    return Path(file) if file else None


def place_of(plugin: object) -> str:
    """Return the file of a plug-in as messages show it; a text stands for itself."""
    if isinstance(plugin, str):
        return plugin
    file = file_of(plugin)
    if file is None:
        return type(plugin).__name__
    if file.is_relative_to(PACKAGE_FOLDER):
        return str(file.relative_to(PACKAGE_FOLDER.parent))
    shown = os.path.relpath(file)
    return str(file) if shown.startswith("..") else shown
