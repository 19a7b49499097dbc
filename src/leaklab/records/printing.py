"""Text of others on a terminal: escape sequences are shown, not obeyed; half a character does not end a command.

Whatever a command is asked, it ends through here, so that nothing else is imported.
"""

import io
import sys

LONGEST = 4000
"""Characters of a line that is refused: an argument may be a file's content, pasted in the place of its name."""


def printable(text: str) -> str:
    """Return a text with what cannot be printed written as Python would, so that it is seen."""
    return "".join(one if one.isprintable() else repr(one)[1:-1] for one in text)


def one_line(text: str) -> str:
    """Return a line for the user as ``printable`` has it, without the middle of one that nobody reads to its end."""
    line = printable(text)
    return line if len(line) <= LONGEST else f"{line[: LONGEST // 2]} ... {line[-LONGEST // 2 :]}"


def print_anything() -> None:
    """Let the standard streams show the number of a character that their encoding lacks, rather than fail."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
