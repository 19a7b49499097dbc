"""Settings out of range are refused when a plug-in is made, before anything runs."""

from leaklab.records.errors import UserError


def require_between(owner: str, low: float, high: float, **settings: object) -> None:
    """Check that the settings of ``owner`` (``defense additive-noise``) are numbers above ``low`` and below ``high``.

    Raises:
        UserError: with the first setting that is not.
    """
    for name, value in settings.items():
        if isinstance(value, bool) or not isinstance(value, int | float) or not low < value < high:
            raise UserError(f"{owner}: {name} must be a number above {low} and below {high}, not {value!r}")
