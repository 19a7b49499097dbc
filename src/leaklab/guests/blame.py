"""What a guest raises, as one line with its file and line."""

from pathlib import Path

from leaklab.records.errors import UserError


class blamed:  # noqa: N801 - reads as a word in a with statement
    """Turn what a guest raises into one line with its file and line."""

    def __init__(self, file: Path, when: str) -> None:
        self.file, self.when = file, when

    def __enter__(self) -> None:
        """Nothing."""

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        """Raise the line, where there was an error that the guest is to blame for."""
        if error is None or isinstance(error, UserError | MemoryError):
            return
        if isinstance(error, RuntimeError) and "allocate memory" in str(error):
            raise MemoryError from None  # so torch says it
        line = line_of(error, self.file)
        place = f"{self.file}, line {line}" if line else str(self.file)
        if isinstance(error, SystemExit | KeyboardInterrupt):
            raise UserError(f"{place}: it ends the process while {self.when}: leave out exit()") from None
        said = str(error).split("\n", 1)[0]
        raise UserError(f"{place}: {type(error).__name__} while {self.when}: {said:.300}") from None


def line_of(error: BaseException, file: Path) -> int | None:
    """Return the last line of the guest that an error passed; where it raised in a file beside it, that of the call."""
    if isinstance(error, SyntaxError) and error.filename == str(file):
        return error.lineno
    found, trace = None, error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == str(file):
            found = trace.tb_lineno
        trace = trace.tb_next
    return found
