"""Which rooms take guests, and from where, apart from all that looks for some: the help of a command names them."""

from pathlib import Path

MINE = Path("mine")
ROOMS = (
    "attacks", "attacks/adaptive", "attacks/text", "data/augmentations", "data/partitions", "defenses",
    "federated/algorithms", "federated/optimizers", "federated/schedules", "metrics", "models", "models/generators",
    "models/text", "observations/servers", "report/figures", "theory",
)  # fmt: skip
