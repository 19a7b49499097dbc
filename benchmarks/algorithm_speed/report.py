"""What the page on training steps of algorithms says."""

from training_speed.step_report import StepReport

from algorithm_speed.workloads import LOOP_STEPS, WORKLOADS

STEPS = WORKLOADS[0].local_steps


def how(runs: str) -> list[str]:
    """Return how it was measured."""
    return [
        f"{runs}, on one thread, each in a process of its own. The clock starts after imports and one round.",
        f"A round has {STEPS} steps of each client, so what is done once a round counts as one of {STEPS}.",
        f"opacus and the loop train one client, the loop with {LOOP_STEPS} steps.",
    ]


REPORT = StepReport("Training steps of HyperFL and its baselines", "a step of FedAvg", "algorithm", "x FedAvg", how)
