"""How much private data federated learning leaks through its updates, and what a defense really buys."""


def __getattr__(name: str) -> object:
    """Give ``Defense``, ``ClientContext`` and ``judge``; what they need is imported only when they are asked for."""
    if name in ("ClientContext", "Defense"):
        from leaklab.defenses import base

        return getattr(base, name)
    if name == "judge":
        from leaklab.guests.judging import judge

        return judge
    raise AttributeError(f"module 'leaklab' has no attribute {name!r}")
