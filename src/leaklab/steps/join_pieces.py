"""Put together what the pieces of an attack kept: the checkpoint from which ``run_attack`` goes on."""

from leaklab.records.errors import UserError
from leaklab.records.files import read_tensors, write_tensors
from leaklab.records.kept import IDENTITY
from leaklab.steps.base import Job, main


def run(job: Job) -> None:
    """Write output ``checkpoint`` from the inputs ``part``, one a piece.

    Raises:
        UserError: two pieces are of different jobs.
    """
    parts = {path: read_tensors(path) for path in job.inputs["part"]}
    filled = {path: tensors for path, tensors in parts.items() if len(tensors) > 1}
    identities = {bytes(tensors[IDENTITY].tolist()) for tensors in filled.values()}
    if len(identities) > 1:
        raise UserError(
            f"{', '.join(map(str, parts))} were made by different code or from different files: "
            "delete them and run the same command again"
        )
    write_tensors(job.outputs["checkpoint"], {name: t for part in filled.values() for name, t in part.items()})


if __name__ == "__main__":
    main("join_pieces", run)
