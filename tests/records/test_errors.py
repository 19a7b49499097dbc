"""What a user is told is one line, whatever of hers is quoted in it."""

import pytest

from leaklab.records.errors import UserError

BREAKS = ["\n", "\r", "\r\n", "\v", "\f", "\x1c", "\x1d", "\x1e", "\x85", "\u2028", "\u2029"]


@pytest.mark.parametrize("line_break", BREAKS, ids=ascii)
def test_what_breaks_lines_in_a_quotation_breaks_no_message(line_break):
    message = str(UserError(f"x.yaml: a{line_break}b: unknown key"))
    assert message == "x.yaml: a b: unknown key"
    assert len(message.splitlines()) == 1
