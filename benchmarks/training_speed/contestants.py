"""Who is measured, where each worker lives and in which environment it runs."""

from dataclasses import dataclass

OURS = "ours"


@dataclass(frozen=True)
class Contestant:
    """One way to do the work.

    Attributes:
        name: key on the command line and column in the report.
        module: worker under ``training_speed.workers``.
        what: a line for the report.
        environment: virtual environment under ``.venvs``; None is the project's own.
        cpus: processors that it may use.
    """

    name: str
    module: str
    what: str
    environment: str | None = None
    cpus: int = 1


CONTESTANTS = (
    Contestant(OURS, "ours", "this project's engine; all cells of a sweep in one call"),
    Contestant("plain", "plain", "the usual loop: deepcopy, DataLoader over a Subset, torch.optim.SGD, .item()"),
    Contestant("tight", "tight", "a plain loop written for speed: tensor indexing, one network, foreach updates"),
    Contestant("pfl", "peer_pfl", "pfl 0.6, simulated backend", "pfl"),
    Contestant("flower", "peer_flower", "Flower 1.41, run_simulation on ray; clients run the tight loop", "flower", 2),
    Contestant("fedjax", "peer_fedjax", "fedjax 0.0.17, for_each_client with jit", "fedjax"),
)
