"""Labels read off what was sent: which classes' typical samples explain it, before any sample is sought.

A single sample's label is the one whose typical sample, the mean of its class, explains most. Those of a batch are
counted by a sum of the classes' gradients with weights that are not negative.
"""

import torch
from torch import Tensor

from leaklab.probing.exchange import Exchange
from leaklab.probing.searches.beliefs import Beliefs
from leaklab.probing.searches.matching import Sent
from leaklab.probing.searches.simulation import Simulation
from leaklab.probing.searches.singles import singles_of
from leaklab.probing.searches.targets import Choices, Targets

MOST_TRIED = 32
"""Classes that are tried one by one; of more, those that the output layer moved towards."""


def granted(labels: Tensor, choices: Choices, dtype: torch.dtype) -> Targets:
    """Return targets [N, ...] that were granted."""
    values = labels.to(dtype) if labels.is_floating_point() else labels
    classes = None if choices.values is None else choices.which(values.cpu())
    return Targets(len(labels), values, classes, words="granted")


def sought(
    simulation: Simulation, exchange: Exchange, sent: Sent, beliefs: Beliefs, choices: Choices, samples: int
) -> Targets:
    """Return the targets of N samples: classes that were read, or numbers that are still to be sought."""
    device = simulation.device
    if choices.values is None:
        assert choices.middle is not None
        assert choices.spread is not None
        ends = choices.middle.to(device), choices.spread.to(device)
        return Targets(samples, None, None, *ends, words="sought beside the samples")
    tried = _shortlist(sent, len(choices.values), samples)
    values, typical = choices.values[tried].to(device), beliefs.samples(beliefs.mean(tried).expand(len(tried), -1))
    if samples == 1:
        errors = [sent.error(typical[k : k + 1], values[k : k + 1]) for k in range(len(tried))]
        chosen = torch.tensor([min(range(len(tried)), key=errors.__getitem__)])
    else:
        dtype, defended = simulation.dtype, simulation.defended
        still = Simulation(simulation.client, exchange, still=True, dtype=dtype, defended=defended)
        chosen = counted(singles_of(still, exchange, typical, values).weights(), samples)
    return Targets(samples, values[chosen.to(device)], tried[chosen], words="read off what was sent")


def counted(weights: Tensor, samples: int) -> Tensor:
    """Return so many rows of ``weights`` [K], each as often as its share says: [N], ascending (largest remainders)."""
    total = float(weights.sum())
    shares = samples * (weights / total if total > 0 else torch.full_like(weights, 1 / len(weights)))
    counts = shares.floor().long()
    left = (shares - counts).argsort(descending=True)[: samples - int(counts.sum())]
    counts[left] += 1
    return torch.arange(len(weights)).repeat_interleave(counts)


def _shortlist(sent: Sent, classes: int, samples: int) -> Tensor:
    """Return the classes to try: all, or those whose rows of the last layer with one for each class rose most."""
    every = torch.arange(classes)
    if classes <= MOST_TRIED:
        return every
    rows = [one[0] for one in sent.tensors if one.dim() in (2, 3) and one.shape[1] == classes]
    if not rows:
        return every
    risen = -rows[-1].flatten(1).sum(1)
    return risen.topk(min(classes, 8 + 2 * samples)).indices.sort().values.cpu()
