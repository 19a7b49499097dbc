"""What the page on training steps of algorithms says."""

from training_speed.step_report import StepReport


def how(runs: str) -> list[str]:
    """Return how it was measured."""
    return [
        f"{runs}, on one thread, each in a process of its own. The clock starts after imports and one round.",
        "A round has 24 steps of each client, so what is done once a round counts as one of 24.",
        "opacus and the loop train one client, the loop with 6 steps.",
    ]


REPORT = StepReport("Training steps of HyperFL and its baselines", "a step of FedAvg", "algorithm", "x FedAvg", how)
