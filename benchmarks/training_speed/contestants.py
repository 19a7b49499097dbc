"""Who is measured, where each worker lives and in which environment it runs."""

from speed.contestants import OURS, Contestant

CONTESTANTS = (
    Contestant(OURS, "ours", "this project's engine; all cells of a sweep in one call"),
    Contestant("torch", "without_compiler", "the same engine without a compiler (LEAKLAB_COMPILER=off)"),
    Contestant("plain", "plain", "the usual loop: deepcopy, DataLoader over a Subset, torch.optim.SGD, .item()"),
    Contestant("tight", "tight", "a plain loop written for speed: tensor indexing, one network, foreach updates"),
    Contestant("pfl", "peer_pfl", "pfl 0.6, simulated backend", "pfl"),
    Contestant("flower", "peer_flower", "Flower 1.41, run_simulation on ray; clients run the tight loop", "flower", 2),
    Contestant("fedjax", "peer_fedjax", "fedjax 0.0.17, for_each_client with jit", "fedjax"),
)
