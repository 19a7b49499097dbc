"""What the rules of long runs look up: their pieces, and the shorter training from which a training goes on."""

from contextlib import suppress
from functools import cached_property
from typing import Any

from leaklab.planning.lookups import Lookup, Runs, of_run, signed
from leaklab.planning.pieces import shorter_trainings
from leaklab.records.errors import UserError
from leaklab.records.files import read_json
from leaklab.records.record import canonical_json
from leaklab.specs.base import RUNS, run_folder
from leaklab.specs.training import TrainSpec

LEFT = ("sweep.parquet", "weights.safetensors")
"""What a shorter training leaves for a longer one."""


class Pieces:
    """The pieces of long runs, by stage and wildcards (``planning/pieces.py``)."""

    def __init__(self, runs: Runs) -> None:
        """Look up pieces of runs."""
        self._runs, self._cut, self._told = runs, runs.cut, runs.spec_of

    def runtime_of(self, stage: str) -> Lookup:
        """Look up the minutes of a piece; they grow with its attempts."""
        return signed(lambda wildcards, attempt: attempt * self._cut(stage, wildcards.run).minutes)

    def spec_of(self, stage: str) -> Lookup:
        """Look up what one piece of a run is told."""
        told = self._told(stage)

        def spec(wildcards: Any) -> str:
            cut = self._cut(stage, wildcards.run)
            number = cut.pieces - int(wildcards.left) - 1 if stage == "train" else int(wildcards.piece)
            # canonical JSON, as what a run is told is; `spec` comes last
            head = canonical_json({**cut.told, "piece": number})
            return f'{head[:-1]},"spec":{told(wildcards)}}}'

        return signed(spec)

    def parts_of(self, stage: str) -> Lookup:
        """Look up what the last piece of each chain of an attack leaves."""

        def paths(wildcards: Any) -> list[str]:
            cut = self._cut(stage, wildcards.run)
            return [_part(stage, wildcards.run, number) for number in range(cut.chain - 1, cut.pieces, cut.chain)]

        return of_run(paths)

    def part_before(self) -> Lookup:
        """Look up what the piece of an attack before this one leaves, if this one goes on from it."""

        def path(wildcards: Any) -> str | list[str]:
            number = int(wildcards.piece)
            first = number % self._cut("attack", wildcards.run).chain == 0
            return [] if first else _part("attack", wildcards.run, number - 1)

        return signed(path)

    def marker_before(self) -> Lookup:
        """Look up the marker of the piece of a training before the one with this marker, if there is one."""

        def path(wildcards: Any) -> str | list[str]:
            left = int(wildcards.left) + 1
            first = self._cut("train", wildcards.run).pieces == left
            return [] if first else f"results/runs/train/{wildcards.run}/left-{left}.json"

        return signed(path)

    def shorter(self) -> Lookup:
        """Look up what a shorter training leaves, if one goes on from it.

        A run that is there keeps what it went on from, as its record tells, if anything: else Snakemake would find
        other inputs, and do it again.
        """
        backbone = self._runs.if_needed("train", "train", "weights.safetensors")

        def paths(wildcards: Any) -> list[str]:
            record = RUNS / TrainSpec.stage / wildcards.run / "run.json"
            if record.is_file():
                with suppress(UserError):  # the audit speaks of a damaged record
                    read = read_json(record).get("inputs", {})
                    return [path for path in read if path.endswith(LEFT) and path not in backbone(wildcards)]
            before = self._shorter.get(wildcards.run)
            return [str(run_folder(before) / name) for name in LEFT] if before else []

        return of_run(paths)

    @cached_property
    def _shorter(self) -> dict[str, TrainSpec]:
        return shorter_trainings(self._runs.plan())

    def after(self, stage: str, name: str) -> Lookup:
        """Look up the file that is there when all pieces of a run are done; none if it is whole."""

        def path(wildcards: Any) -> str | list[str]:
            whole = self._cut(stage, wildcards.run).pieces == 1
            return [] if whole else f"results/runs/{stage}/{wildcards.run}/{name}"

        return of_run(path)


def _part(stage: str, run: str, number: int) -> str:
    return f"results/runs/{stage}/{run}/piece-{number}.safetensors"
