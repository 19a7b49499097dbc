"""What the page on training steps under defenses says."""

from training_speed.step_report import StepReport


def how(runs: str) -> list[str]:
    """Return how it was measured."""
    return [
        f"{runs}, on one thread, each in a process of its own. The clock starts after imports and one step.",
        "A round has 80 steps, so what a defense does once a round counts as one of 80.",
        "Loops and exact Soteria do a single step of one client; what they do once a round is in it.",
    ]


REPORT = StepReport("Training steps under defenses", "a step without defense", "defense", "x undefended", how)
