"""The logger plug-in ``leaklab``: Snakemake finds it by the name of this package (``snakemake --logger leaklab``).

It tells each job in words (``leaklab/planning/console.py``), once the workflow has said what its jobs are
(``leaklab/planning/telling.py``). Dry runs and calls that ask for more than the usual talk are shown as Snakemake
does. Every Snakemake process imports this module, so it imports next to nothing itself.
"""

import sys
from contextlib import suppress
from logging import Handler, LogRecord
from typing import Any

from snakemake_interface_logger_plugins.base import LogHandlerBase

JOB = "--mode"
"""Stands among the words of the processes that Snakemake starts itself, which inherit what was found for it."""


class LogHandler(LogHandlerBase):
    """Shows the user what a call does."""

    def __post_init__(self) -> None:
        """Make the handler that Snakemake has without plug-ins, and the console."""
        from snakemake.logging import ColorizingTextHandler, DefaultFilter, DefaultFormatter

        from leaklab.planning.console import Console
        from leaklab.planning.room import make_room
        from leaklab.records.errors import UserError

        try:  # here, as Snakemake asks for nothing of ours before it needs all of that
            for line in () if JOB in sys.argv else make_room():
                print(f"leaklab: {line}", file=sys.stderr, flush=True)
        except UserError as error:
            sys.exit(f"leaklab: {error}")
        asked: Any = self.common_settings
        quiet = {str(one).lower().rpartition(".")[2] for one in asked.quiet or ()}
        self.stock: Handler = ColorizingTextHandler(
            nocolor=asked.nocolor,
            stream=sys.stdout if asked.stdout else sys.stderr,
            formatter=DefaultFormatter(asked.quiet, asked.show_failed_logs),
            filter=DefaultFilter(asked.quiet, asked.debug_dag, asked.verbose, asked.dryrun, asked.printshellcmds),
        )
        self.silent = "all" in quiet
        self.console: Console | None = Console(self._show, not quiet & {"all", "rules", "progress"})
        if asked.dryrun or asked.verbose or asked.debug_dag:
            self.console = None

    def emit(self, record: LogRecord) -> None:
        """Tell a record, leave it out, or show it as it is; what fails here ends neither call nor console."""
        try:
            event = str(getattr(record, "event", None) or "")
            if self.console is None or not self.console.hear(event, record.levelno, record.created, vars(record)):
                self.stock.handle(record)
        except Exception as error:  # noqa: BLE001  the thread of all loggers would end with it
            told, self.console = self.console, None
            if told is not None:
                with suppress(Exception):
                    self._show(f"leaklab: jobs are told as Snakemake does, as the console failed: {error!r}")
            with suppress(Exception):
                self.stock.handle(record)

    def _show(self, line: str) -> None:
        if not self.silent:
            with suppress(OSError):  # nobody reads any more
                print(line, file=sys.stderr, flush=True)

    @property
    def writes_to_stream(self) -> bool:
        """It takes the place of Snakemake's own handler."""
        return True

    @property
    def writes_to_file(self) -> bool:
        """Snakemake's own log file stays as it is."""
        return False

    @property
    def has_filter(self) -> bool:
        """What is shown as Snakemake would is filtered as there."""
        return True

    @property
    def has_formatter(self) -> bool:
        """What is shown as Snakemake would is formatted as there."""
        return True

    @property
    def needs_rulegraph(self) -> bool:
        """It has no use for it."""
        return False


__all__ = ["LogHandler"]
