"""What all steps share: the command line, the log, one-line errors and the provenance record."""

import argparse
import errno
import json
import logging
import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from leaklab.models.lanes.library import FACT, library, times_asked
from leaklab.records.errors import UserError
from leaklab.records.interrupts import ENDED_BY_SIGINT, interruptible
from leaklab.records.plugins import blamed
from leaklab.records.recorder import Recorder

# Progress: a bar on a terminal, plain lines in a log.

Item = TypeVar("Item")
LINES_PER_LOG = 10
log = logging.getLogger("leaklab")


def track(items: Iterable[Item], total: int, label: str) -> Iterator[Item]:
    """Yield the items of a loop of ``total`` turns and show how far it has come."""
    if sys.stderr.isatty():
        from rich.console import Console
        from rich.progress import track as bar

        yield from bar(items, description=label, total=total, console=Console(stderr=True))
        return
    started = time.monotonic()
    for count, item in enumerate(items, start=1):
        yield item
        if count == total or count % max(1, total // LINES_PER_LOG) == 0:
            log.info("%s: %d of %d, %.0f s", label, count, total, time.monotonic() - started)


KEPT = "what is finished is kept"


@dataclass(frozen=True)
class Job:
    """One execution of a step.

    Attributes:
        spec: the run's spec as parsed JSON.
        inputs: named input files; a name that stands for several files maps to a list.
        outputs: named output files, ``run`` (the record) aside.
        device: ``cpu`` or ``cuda``.
    """

    spec: dict[str, Any]
    inputs: dict[str, list[Path]]
    outputs: dict[str, Path]
    device: str
    recorder: Recorder

    def input(self, name: str) -> Path:
        """Return the only file of input ``name``."""
        (path,) = self.inputs[name]
        return path

    def note(self, **facts: Any) -> None:
        """Add facts to ``run.json`` (counts, resolved settings, substitutes, sources)."""
        self.recorder.facts.update(facts)

    def note_effect(self, defense: str, changes_update: bool | None) -> None:
        """Add to ``run.json`` whether the defense of a capture changed an update; nothing where it is not meant to."""
        if changes_update is not None:
            self.note(defense_changes_update=changes_update)
        if changes_update is False:
            log.warning("defense '%s' does nothing here: every update is the one that is sent without it", defense)

    def track(self, items: Iterable[Item], total: int, label: str) -> Iterator[Item]:
        """Yield the items with a progress bar on a terminal and about ten plain lines in a log."""
        return track(items, total, label)


def main(rule: str, run: Callable[[Job], None], argv: list[str] | None = None) -> None:
    """Run a step from the command line; exits 1 with one clear line when the user has to do something."""
    # of other packages warnings alone: a font that is embedded has a hundred lines to say
    logging.basicConfig(stream=sys.stderr, format="%(asctime)s %(message)s", datefmt="%H:%M:%S")
    log.setLevel(logging.INFO)
    arguments = _parser(rule).parse_args(argv)
    with _one_line_errors(rule), interruptible() as go_on:
        recorder = Recorder(rule=rule, code=arguments.code, device=arguments.device)
        job = Job(
            spec=json.loads(arguments.spec),
            inputs=_grouped(arguments.input),
            outputs={name: Path(path) for name, path in (pair.split("=", 1) for pair in arguments.output)},
            device=arguments.device,
            recorder=recorder,
        )
        record = job.outputs.pop("run")
        _limit_threads(arguments.threads)
        before = times_asked()
        run(job)
        go_on()
        if times_asked() > before and library() is not None:
            job.note(**{FACT: True})
        recorder.finish(record, job.spec, job.inputs, job.outputs)


def _limit_threads(threads: int) -> None:
    # one thread per process: two processes beat one process with two threads on every workload measured
    if "torch" in sys.modules:
        sys.modules["torch"].set_num_threads(threads)
    else:  # a step that may import it later: torch reads this when it starts
        os.environ["OMP_NUM_THREADS"] = str(threads)


def _parser(rule: str) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog=f"python -m leaklab.steps.{rule}")
    parser.add_argument("--spec", default="{}", help="the run's spec as JSON")
    parser.add_argument("--input", nargs="*", default=[], metavar="NAME=PATH", help="input files; a name may recur")
    parser.add_argument("--output", nargs="+", required=True, metavar="NAME=PATH", help="output files, one is 'run'")
    parser.add_argument("--device", default="cpu", choices=["cpu", "cuda"])
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--code", default="", help="digest of the code that this step imports")
    return parser


def _grouped(pairs: list[str]) -> dict[str, list[Path]]:
    groups: dict[str, list[Path]] = {}
    for pair in pairs:
        name, path = pair.split("=", 1)
        files = groups.setdefault(name, [])
        if path:
            files.append(Path(path))
    return groups


@contextmanager
def _one_line_errors(rule: str) -> Iterator[None]:
    try:
        yield
    except KeyboardInterrupt:
        print(f"leaklab {rule}: it was interrupted: run the same command again; {KEPT}", file=sys.stderr)
        sys.exit(ENDED_BY_SIGINT)
    except UserError as error:
        sys.exit(f"leaklab {rule}: {error}")
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise
        place = f" ({error.filename})" if error.filename else ""
        sys.exit(f"leaklab {rule}: the disk is full{place}: free some space and run the same command again; {KEPT}")
    except Exception as error:
        line = blamed(error)
        if line is None:
            raise
        log.exception("the way to the line that failed")  # who writes a plug-in needs it
        sys.exit(f"leaklab {rule}: {' '.join(line.split())}")
