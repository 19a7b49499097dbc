"""Which algorithms are measured, and DP-SGD as others do it."""

from collections.abc import Mapping
from typing import Any

from speed.contestants import OURS, Contestant

# clip and noise of HyperFL's baselines; clipping is what takes time
NOISE: Mapping[str, Any] = {"name": "dp-sgd", "bound": 0.04, "sigma": 10.62}

# without steps of its own for the classifier, a step of HyperFL generates the network
GENERATED: Mapping[str, Any] = {"name": "hyperfl", "classifier_steps": 0}

MADE: Mapping[str, Mapping[str, Any]] = {
    OURS: {},
    "hyperfl": {"algorithm": GENERATED},
    "hyperfl-lifted": {"algorithm": {**GENERATED, "low_rank": False}},
    "pfedhn": {"algorithm": "pfedhn"},
    "dp-fedavg": {"defense": NOISE},
    "ppsgd": {"algorithm": "ppsgd", "defense": NOISE},
    "centaur": {"algorithm": {"name": "centaur", "classifier_steps": 0}, "defense": NOISE},
}
WHAT = {
    OURS: "FedAvg without defense: what the others are multiples of",
    "hyperfl": "every step goes back to the hypernetwork, whose heads' gradients stay thin products",
    "hyperfl-lifted": "the same by automatic differentiation",
    "pfedhn": "clients get generated networks and send their updates",
    "dp-fedavg": "FedAvg with each sample clipped, and noise",
    "ppsgd": "the same, with a private classifier",
    "centaur": "the same, with a classifier of the client's own",
}
CONTESTANTS = (
    *(Contestant(name, "ours", WHAT[name]) for name in MADE),
    Contestant("opacus", "peer_opacus", "DP-SGD of one client by opacus", "opacus"),
    Contestant("dp-loop", "loop", "DP-SGD of one client, samples one by one"),
)
# they know no clients; a loop over samples does few steps
ALONE, SLOW = ("opacus", "dp-loop"), ("dp-loop",)
