"""Numbers that a claim needs and the results do not have."""

from typing import NoReturn


class NumberMissingError(Exception):
    """The numbers that a claim needs are not there; the message says which.

    Attributes:
        note: why, where the results say so (``not run: data not here: ImageNet``); else empty.
    """

    def __init__(self, message: str, note: str = ""):
        super().__init__(f"{message}: {note}" if note else message)
        self.note = note

    @property
    def short(self) -> str:
        """The reason for a reader who knows which case is meant."""
        return self.note or str(self)


class MissingNumber:
    """Stands where a number should be; whoever compares it or computes with it gets the error that it holds.

    A question about many numbers can so be answered for those that are there.
    """

    def __init__(self, error: NumberMissingError):
        self.error = error

    def __repr__(self) -> str:
        return "missing"

    def _refuse(self, *_: object) -> NoReturn:
        raise self.error

    __lt__ = __le__ = __gt__ = __ge__ = _refuse
    __eq__ = __ne__ = __hash__ = _refuse
    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __truediv__ = __rtruediv__ = _refuse
    __floordiv__ = __rfloordiv__ = __neg__ = __abs__ = __round__ = __float__ = __int__ = __bool__ = _refuse
