"""Reference pages are what the code says of itself."""

from pathlib import Path

DOCS = Path(__file__).parents[2] / "docs"


def test_the_page_of_the_command_line_is_what_the_commands_say(drawing):
    """If this fails: ``python docs/write_command_line.py`` writes it anew."""
    program = drawing("write_command_line")
    assert (DOCS / "command-line.md").read_text(encoding="utf-8") == program.text()
