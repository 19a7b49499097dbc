"""Lint of a guest's defense: what would spoil a verdict, found by calling it, each in one line with file and line.

What no update could be made of is refused. What makes verdicts doubtful, or would fail in a federation, is a warning,
which stands on the card.
"""

import math
import os
import random
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from leaklab.defenses.base import Alone, ClientContext, Defense, overrides
from leaklab.guests.calls import OWN_HOOKS, Subject, cloned, has, seed_all, sent
from leaklab.guests.files import blamed
from leaklab.guests.laboratory import alike
from leaklab.guests.networks import moments
from leaklab.guests.situation import Gradients, Situation
from leaklab.records.asked import clock_of, line_drawing
from leaklab.records.errors import UserError

HOOKS = ("local_rate", "gradient", "update", "hidden", "local_steps", "batch_size", "sample_bound")
REFUSED = {"open": "opens {}", "socket.connect": "opens a connection", "subprocess.Popen": "starts a program",
           "os.system": "starts a program", "os.fork": "starts a process", "os.remove": "removes {}",
           "os.rename": "renames {}", "os.mkdir": "makes {}", "shutil.rmtree": "removes {}"}  # fmt: skip
IMPORTING = "<frozen importlib._bootstrap>"
SIZES = {"zero": 0.0, "tiny": 1e-30, "huge": 1e30, "NaN": math.nan}
Phase = Callable[[str], None]


@dataclass(frozen=True)
class Finding:
    """One warning.

    Attributes:
        what: a word for programs.
        text: a line for people, with the file.
    """

    what: str
    text: str


def linted(file: Path, phase: Phase, sha256: str = "", offered: str = "") -> dict[str, Any]:
    """Return the name of a guest's defense, the hooks that it overrides and the warnings.

    Args:
        file: of the guest.
        phase: told what is done now.
        sha256: that the file must have; empty for any.
        offered: see ``files.find``.

    Raises:
        UserError: it cannot be judged.
    """
    phase("it was imported")
    subject = Subject.load(file, sha256, offered)
    defense = subject.new()
    hooks = [hook for hook in HOOKS if overrides(defense, hook)] + [hook for hook in OWN_HOOKS if has(defense, hook)]
    found: list[Finding] = []
    if not hooks:
        found.append(Finding("nothing", f"{file}, line {subject.guest.line}: it overrides no hook: it does nothing"))
    for moment in moments(subject, torch.float32):
        phase("it defended a gradient")
        with _WATCH.alone(file), _left_behind(file):
            _stays(subject, moment)
            update = sent(subject, subject.new(), moment)
            _finite(file, update)
        found += _repeats(subject, moment, update)
        found += _sizes(subject, moment, phase)
    phase("its text was read")
    found += list(_reads(file, subject, next(moments(subject, torch.float32))))
    subject.unchanged()
    once = {one.what: one for one in reversed(found)}
    return {"hooks": hooks, "warnings": [asdict(once[what]) for what in sorted(once)]}


def _finite(file: Path, update: Mapping[str, Tensor]) -> None:
    for name, value in update.items():
        if not bool(value.isfinite().all()):
            raise UserError(f"{file}: of an ordinary gradient it sends '{name}' that is not finite: correct it")


def _stays(subject: Subject, moment: Situation) -> None:
    """Refuse a hook that changes what it was given."""
    file, defense = subject.guest.file, subject.new()
    weights, batch, gradients = cloned(moment.weights), cloned(moment.batch), cloned(moment.gradients[0])
    at = ClientContext(moment.rate, 0, 0).at(Alone(0, weights, batch, moment.build))
    seed_all(moment, 0)
    with blamed(file, "it defends a gradient"):
        for hook, call in _calls(defense, gradients, batch, at):
            call()
            kept = ((gradients, moment.gradients[0], hook), (weights, moment.weights, "context.weights"),
                    (batch, moment.batch, "samples" if hook == "samples" else "context.batch"))  # fmt: skip
            for now, before, whose in kept:
                if now.keys() != before.keys() or any(not _same(now[name], before[name]) for name in before):
                    what = "its argument" if whose == hook else whose
                    raise UserError(f"{file}: {hook} changes {what} in place: work on copies (value.clone())")


def _calls(
    defense: Defense, gradients: Gradients, batch: Gradients, at: ClientContext
) -> Iterator[tuple[str, Callable[[], object]]]:
    """Yield the hooks that change what is trained on and what is sent, each with a call of it."""
    if has(defense, "samples"):
        yield "samples", lambda: defense.samples(batch["images"], batch["labels"], at)  # type: ignore[attr-defined]
    for hook in ("gradient", "update"):
        if overrides(defense, hook):
            yield hook, partial(getattr(defense, hook), gradients, at)


def _same(one: object, other: Tensor) -> bool:
    return isinstance(one, Tensor) and torch.equal(one, other)


def _repeats(subject: Subject, moment: Situation, update: Mapping[str, Tensor]) -> Iterator[Finding]:
    """Yield what differs between calls that should be equal."""
    file = subject.guest.file
    if not alike(sent(subject, subject.fresh(), moment), sent(subject, subject.fresh(), moment)):
        yield Finding("not repeatable", f"{file}: equal calls give unequal updates: take its randomness from "
                      "context.stream(name), so that a card can be repeated")  # fmt: skip
        return
    one = subject.fresh()
    first = sent(subject, one, moment)
    if not alike(sent(subject, one, moment), first):
        yield Finding("memory", f"{file}: it remembers between calls: what it sends depends on what it sent before")


def _sizes(subject: Subject, moment: Situation, phase: Phase) -> Iterator[Finding]:
    """Yield what happens to gradients of unusual size."""
    file = subject.guest.file
    for word, factor in SIZES.items():
        phase(f"it defended a gradient that is {word}")
        fed = moment.fed({name: _of_size(value, factor) for name, value in moment.gradients[0].items()})
        try:
            update = sent(subject, subject.new(), fed, f"it defends a gradient that is {word}")
        except UserError as error:
            if word != "NaN":  # a refusal of what is no number is as good as any
                yield Finding(f"fails on {word}", str(error))
            continue
        if word != "NaN" and not all(bool(value.isfinite().all()) for value in update.values()):
            yield Finding(f"not finite on {word}", f"{file}: of a gradient that is {word} it sends what is not finite")


def _of_size(value: Tensor, factor: float) -> Tensor:
    return torch.full_like(value, math.nan) if math.isnan(factor) else value * factor


def _reads(file: Path, subject: Subject, moment: Situation) -> Iterator[Finding]:
    """Yield global generators and clocks that it asks."""
    defense = subject.new()
    context = ClientContext(moment.rate, 0, 0).at(Alone(0, moment.weights, moment.batch, moment.build))
    seed_all(moment, 0)
    untouched = _next_draws()
    seed_all(moment, 0)
    with blamed(file, "it defends a gradient"):
        for _, call in _calls(defense, cloned(moment.gradients[0]), cloned(moment.batch), context):
            call()
    for name, value in _next_draws().items():
        if value != untouched[name]:
            text = f"it draws from the global generator of {name}, which others draw from too: use context.stream(name)"
            yield Finding(f"global {name}", f"{_place(file, name)}: {text}")
    if asked := clock_of(file):
        yield Finding("clock", f"{file}, line {asked[0]}: it asks a clock or the system's randomness, which no seed "
                      "repeats: use context.stream(name)")  # fmt: skip


def _next_draws() -> dict[str, float]:
    """Draw a number from each global generator."""
    return {"torch": float(torch.rand(())), "numpy": np.random.random(), "random": random.random()}  # noqa: NPY002


def _place(file: Path, generator: str) -> str:
    line = line_drawing(file, generator)
    return f"{file}, line {line}" if line else str(file)


@contextmanager
def _left_behind(file: Path) -> Iterator[None]:
    """Refuse a guest that leaves a switch of the process changed; it is put back first."""
    switches: dict[str, tuple[Callable[[], Any], Callable[[Any], Any]]] = {
        "torch's default dtype": (torch.get_default_dtype, torch.set_default_dtype),
        "whether torch records gradients": (torch.is_grad_enabled, torch.set_grad_enabled),
        "the number of torch's threads": (torch.get_num_threads, torch.set_num_threads),
        "torch's deterministic algorithms": (
            torch.are_deterministic_algorithms_enabled, torch.use_deterministic_algorithms,
        ),
        "the working folder": (os.getcwd, os.chdir),
    }  # fmt: skip
    before = {name: get() for name, (get, _) in switches.items()}
    yield
    for name, (get, put) in switches.items():
        if get() != before[name]:
            put(before[name])
            raise UserError(f"{file}: it leaves {name} changed: put it back, or do it in a with block")


class _Watch:
    """Hears what a guest asks of the system while it defends; an audit hook stays for the life of the process."""

    def __init__(self) -> None:
        self.file, self.listening, self.hooked = Path(), False, False

    @contextmanager
    def alone(self, file: Path) -> Iterator[None]:
        """Refuse files, connections and processes meanwhile."""
        if not self.hooked:
            sys.addaudithook(self._heard)
        self.file, self.listening, self.hooked = file, True, True
        try:
            yield
        finally:
            self.listening = False

    def _heard(self, event: str, arguments: tuple[Any, ...]) -> None:
        if not self.listening or event not in REFUSED:
            return
        target = os.fsdecode(arguments[0]) if arguments and isinstance(arguments[0], str | bytes) else ""
        if event == "open" and (not target or target.endswith((".py", ".pyc", ".so")) or _ours(target)):
            return
        frame = sys._getframe()
        line = None
        while frame is not None and line is None:
            if frame.f_code.co_filename == IMPORTING:  # a module that is loaded at its first use looks around
                return
            line = frame.f_lineno if frame.f_code.co_filename == str(self.file) else None
            frame = frame.f_back  # type: ignore[assignment]
        if line is not None:
            self.listening = False
            what = REFUSED[event].format(f"'{target}'")
            raise UserError(f"{self.file}, line {line}: it {what} while it defends: do that when the file is imported")


def _ours(target: str) -> bool:
    """Whether a file belongs to the installation, from which modules load parts at their first use."""
    return any(target.startswith(f"{folder}/") for folder in {sys.prefix, sys.base_prefix})


_WATCH = _Watch()
