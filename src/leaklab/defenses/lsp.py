"""Perturbed number of local steps (LRP figure 8); the range, not printed, is that whose mean is E."""

from dataclasses import dataclass

from leaklab.defenses.base import ClientContext, Defense


@dataclass(frozen=True)
class LocalStepPerturbation(Defense):
    """Do E' ~ U{1, ..., 2E - 1} local steps in place of E; the server goes on to assume E."""

    def local_steps(self, nominal: int, context: ClientContext) -> int:
        """Return E'."""
        return int(context.stream("local steps").integers(1, 2 * nominal, 1))


PLUGIN = LocalStepPerturbation
