"""What is kept of an attack while it works, so that one that is killed, or cut by the plan, goes on where it was."""

from collections.abc import Callable
from math import inf
from pathlib import Path

from leaklab.attacks.base import Reconstruction
from leaklab.attacks.reconstructions import packed, unpacked
from leaklab.attacks.search.savepoints import Savepoints, keeping
from leaklab.records.environment import checkpoint_seconds
from leaklab.records.kept import KeptParts, KeptTensors


class KeptAttack:
    """Finished chunks of trials, and the running search of the next one.

    Args:
        folder: where.
        identity: see ``KeptTensors``.
        until: when to leave the running search, by ``time.monotonic``.

    Attributes:
        resumed: chunks that were there.
    """

    def __init__(self, folder: Path, identity: str, until: float = inf) -> None:
        self._finished = KeptParts(folder / "checkpoint.safetensors", identity)
        self._search, self._identity, self._until = folder / "search.safetensors", identity, until
        self.resumed = 0

    def chunk(self, number: int, attack: Callable[[], Reconstruction]) -> Reconstruction:
        """Return a finished chunk, or finish it.

        Raises:
            OutOfTime: its search was left; it goes on from there when it is asked for again.
        """
        part = self._finished.part(number)
        self.resumed += part is not None
        if part is None:
            search = KeptTensors(self._search, f"{self._identity}\nchunk {number}", checkpoint_seconds())
            with keeping(Savepoints(search, self._until)):
                part = packed(attack())
            self._finished.keep(number, part)
            search.remove()
        return unpacked(part)

    def remove(self) -> None:
        """Delete what is kept: the attack is done."""
        self._finished.remove()
