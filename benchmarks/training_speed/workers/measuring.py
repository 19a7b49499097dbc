"""What the workers share that know no sweeps: one cell after the other, on the clock."""

from collections.abc import Callable

from speed.clock import Clock

from training_speed.workloads import Cell, Workload


def measure(
    workload: Workload,
    parameters: int,
    train_cell: Callable[[Cell, int], None],
    steps: Callable[[], int],
    cpus: int = 1,
) -> None:
    """Measure a contestant that knows no sweeps: it does one cell after the other.

    Args:
        workload: what to do.
        parameters: weights of the model.
        train_cell: trains a cell for a number of rounds.
        steps: optimiser steps counted so far.
        cpus: processors that the worker may use.
    """
    clock = Clock(parameters, cpus)
    train_cell(workload.cells[0], 1)
    before = steps()
    clock.warmed_up()
    for cell in workload.cells:
        train_cell(cell, workload.rounds)
    clock.report(steps() - before)
