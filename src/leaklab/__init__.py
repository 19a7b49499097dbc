"""How much private data federated learning leaks through its updates, and what a defense really buys."""


def __getattr__(name: str) -> object:
    """Give what the package offers to others; what it needs is imported only when it is asked for."""
    if name in ("ClientContext", "Defense"):
        from leaklab.defenses import base

        return getattr(base, name)
    if name == "Attack":
        from leaklab.attacks.base import Attack

        return Attack
    if name == "judge":
        from leaklab.guests.judging import judge

        return judge
    raise AttributeError(f"module 'leaklab' has no attribute {name!r}")
