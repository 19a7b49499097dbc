"""Perturbed batch size (LRP figure 8); its range is not printed: uniform, with the nominal size as mean."""

from dataclasses import dataclass

from leaklab.defenses.base import ClientContext, Defense


@dataclass(frozen=True)
class BatchSizePerturbation(Defense):
    """Take B' ~ U{1, ..., 2B - 1} samples in every local step in place of B, but no more than the client has."""

    def batch_size(self, nominal: int, context: ClientContext) -> int:
        """Return B'; who trains cuts it to the number of the client's samples."""
        return int(context.stream("batch size").integers(1, 2 * nominal, 1))


PLUGIN = BatchSizePerturbation
