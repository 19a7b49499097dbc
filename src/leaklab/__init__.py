"""How much private data federated learning leaks through its updates, and what a defense really buys."""


def __getattr__(name: str) -> object:
    """Give the public names; what they need is imported only when they are asked for."""
    if name in ("ClientContext", "Defense"):
        from leaklab.defenses import base

        return getattr(base, name)
    if name == "judge":
        from leaklab.guests.judging import judge

        return judge
    if name == "Client":
        from leaklab.probing.client import Client

        return Client
    if name == "probe":
        from leaklab.probing.probe import probe

        return probe
    if name in ("record_truth", "record_update"):
        from leaklab.records import recording

        return getattr(recording, name)
    if name == "flower":
        from importlib import import_module

        return import_module("leaklab.flower")
    raise AttributeError(f"module 'leaklab' has no attribute {name!r}")
