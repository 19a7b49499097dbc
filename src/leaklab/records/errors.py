"""The one exception that a user is meant to see."""


class UserError(Exception):
    """Something the user can put right; its message is one line that says what to do."""

    def __init__(self, message: str) -> None:
        # what a user wrote is quoted in messages, and may hold line breaks
        super().__init__(" ".join(message.splitlines()))
