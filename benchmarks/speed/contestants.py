"""Who is measured: where a worker lives and in which environment it runs."""

from dataclasses import dataclass

OURS = "ours"


@dataclass(frozen=True)
class Contestant:
    """One way to do the work.

    Attributes:
        name: key on the command line and column in the report.
        module: worker under ``workers`` of the benchmark.
        what: a line for the report.
        environment: virtual environment under ``.venvs``; None is the project's own.
        cpus: processors that it may use.
    """

    name: str
    module: str
    what: str
    environment: str | None = None
    cpus: int = 1
