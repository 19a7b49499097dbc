"""Read some sentences from an observation: one piece of a long ``attack_text``."""

from leaklab.steps import attack_text
from leaklab.steps.attack_piece import run_piece
from leaklab.steps.base import Job, main


def run(job: Job) -> None:
    """Write output ``part``, the checkpoint of an attack that has read these sentences; inputs are ``attack_text``'s.

    While it works its own checkpoint lies in a folder beside the output, so that a killed piece goes on.
    """
    run_piece(job, attack_text.run)


if __name__ == "__main__":
    main("text_piece", run)
