"""Who is measured, where each worker lives and in which environment it runs."""

from speed.contestants import OURS, Contestant

PLAIN = "plain"
CONTESTANTS = (
    Contestant(OURS, "ours", "this project's engine; all trials side by side"),
    Contestant("torch", "without_compiler", "the same engine without a compiler (LEAKLAB_COMPILER=off)"),
    Contestant(PLAIN, "plain", "the usual loop: double backward, torch.optim.LBFGS or Adam, one trial after the other"),
    Contestant(
        "breaching", "peer_breaching", "breaching, its attacks 'deepleakage' and 'invertinggradients'", "breaching"
    ),
)
