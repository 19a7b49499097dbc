"""Cutting a round into pieces loses no model and doubles none."""

import torch
from hypothesis import given
from hypothesis import strategies as st

from leaklab.federated.batches import Visit
from leaklab.federated.population import Part, pieces, sampled_clients


@given(
    sizes=st.lists(st.integers(1, 40), min_size=1, max_size=6),
    seeds=st.integers(1, 3),
    settings=st.integers(1, 10),
    chunk=st.integers(1, 70),
)
def test_every_model_is_in_exactly_one_piece(sizes, seeds, settings, chunk):
    parts = [
        Part(Visit(seed, client, 0, torch.arange(n)), seed, 1.0)
        for seed in range(seeds)
        for client, n in enumerate(sizes)
    ]
    seen = []
    for piece in pieces(parts, settings, chunk, batch_size=32):
        assert len(piece.parts) * (piece.last - piece.first) <= max(1, chunk)
        assert len({min(32, len(part.visit.samples)) for part in piece.parts}) == 1
        seen += [(r, part.visit.client) for part in piece.parts for r in piece.replicates(part, settings)]
    assert sorted(seen) == [(r, c) for r in range(seeds * settings) for c in range(len(sizes))]


def test_clients_are_sampled_uniformly_and_apart_from_the_round_before():
    counts = torch.zeros(10)
    for index in range(2000):
        chosen = sampled_clients(0, index, 10, 3)
        assert chosen == sorted(set(chosen))
        counts[chosen] += 1
    assert counts.sum() == 6000
    assert counts.min() > 500
    assert sampled_clients(0, 0, 4, None) == [0, 1, 2, 3]
    assert sampled_clients(1, 5, 10, 3) != sampled_clients(2, 5, 10, 3)
