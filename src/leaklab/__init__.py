"""How much private data federated learning leaks through its updates, and what a defense really buys."""


def __getattr__(name: str) -> object:
    """Give ``leaklab.Defense`` and ``leaklab.ClientContext``; torch is imported only when they are asked for."""
    if name in ("ClientContext", "Defense"):
        from leaklab.defenses import base

        return getattr(base, name)
    raise AttributeError(f"module 'leaklab' has no attribute {name!r}")
