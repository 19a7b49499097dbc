"""Put together what the pieces of an attack kept: the checkpoint from which ``run_attack`` goes on."""

from leaklab.records.errors import UserError
from leaklab.records.kept import IDENTITY, read_kept, write_kept
from leaklab.steps.base import Job, main


def run(job: Job) -> None:
    """Write output ``checkpoint`` from the inputs ``part``, one a piece.

    Raises:
        UserError: a piece is damaged, or two are of different jobs.
    """
    parts = {path: read_kept(path) for path in job.inputs["part"]}
    filled = {path: tensors for path, tensors in parts.items() if len(tensors) > 1}
    identities = {bytes(tensors[IDENTITY].tolist()) for tensors in filled.values()}
    if len(identities) > 1:
        raise UserError(
            f"{', '.join(map(str, parts))} were made by different code or from different files: "
            "delete them and run the same command again"
        )
    write_kept(job.outputs["checkpoint"], {name: t for part in filled.values() for name, t in part.items()})


if __name__ == "__main__":
    main("join_pieces", run)
