"""From the clients' weights to the global weights: the two schemes of federated averaging with partial participation.

Source: LRP paper, section 5.2 and algorithm 1; its eq. (3) lacks a factor N and is not used.
"""

from collections.abc import Sequence
from typing import Literal

Algorithm = Literal["scheme1", "scheme2"]


def rate_factors(algorithm: Algorithm, sizes: Sequence[int]) -> list[float]:
    """Return the factor of every client's learning rate.

    Scheme 1 trains on the loss scaled by p_k N (p_k = n_k / sum n): the same as a rate of p_k N times the nominal
    one. Scheme 2 uses the nominal rate.

    Args:
        algorithm: ``scheme1`` or ``scheme2``.
        sizes: samples n_k of all N clients.
    """
    if algorithm == "scheme2":
        return [1.0] * len(sizes)
    return [size * len(sizes) / sum(sizes) for size in sizes]


def server_weights(algorithm: Algorithm, sizes: Sequence[int]) -> list[float]:
    """Return the weights, with sum 1, by which the server averages the sampled clients.

    Scheme 1 takes the plain mean (the loss was scaled already), scheme 2 weighs by n_k within the sample.

    Args:
        algorithm: ``scheme1`` or ``scheme2``.
        sizes: samples n_k of the K clients of the round.
    """
    if algorithm == "scheme1":
        return [1 / len(sizes)] * len(sizes)
    return [size / sum(sizes) for size in sizes]
