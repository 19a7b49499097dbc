"""Where the server's side of a capture lies: in a folder of its own, with nothing private in it.

The truth stays in the capture's folder, with the record that names the private samples and the seeds. So the job of an
attack can be given the folder of its observation and nothing else.
"""

from pathlib import Path

from leaklab.records.ids import RUNS, run_folder, run_id
from leaklab.records.specs import CapturedRound, Spec
from leaklab.records.stages import SPECS

OBSERVED = {kind.stage: kind.observed for kind in SPECS if kind.observed}
"""Stage of a capture -> folder below ``results/runs`` of what the server sees of it."""
CAPTURED = {folder: stage for stage, folder in OBSERVED.items()}


def observation_folder(capture: CapturedRound) -> Path:
    """Return the folder of a capture's observation; its name is the capture's run id."""
    return RUNS / capture.observed / run_id(capture)


def folders_of(spec: Spec) -> tuple[Path, ...]:
    """Return the folders in which a run leaves files."""
    return (run_folder(spec), *([RUNS / spec.observed / run_id(spec)] if spec.observed else []))


def stage_of_file(path: Path) -> str:
    """Return the stage of the run that leaves a file below ``results/runs``."""
    folder = path.parent.parent.name
    return CAPTURED.get(folder, folder)
