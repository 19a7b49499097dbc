"""Text of others on a terminal: escape sequences are shown, not obeyed, and half a character does not end a command."""

import io
import sys


def printable(text: str) -> str:
    """Return a text with what cannot be printed written as Python would, so that it is seen."""
    return "".join(one if one.isprintable() else repr(one)[1:-1] for one in text)


def print_anything() -> None:
    """Let standard output show the number of a character that its encoding lacks, rather than fail."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")
