"""The one exception that a user is meant to see."""


class UserError(Exception):
    """Something the user can put right; its message is one line that says what to do."""
