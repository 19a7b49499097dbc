# How the rules of long jobs and of their pieces look up into how many a run is cut.
import json


def runtime_of_piece(stage):
    def runtime(wildcards, attempt):
        return attempt * cut_of(stage, wildcards.run).minutes

    return runtime


def spec_of_piece(stage):
    """Return a function from wildcards to what one piece of a run is told."""
    find = job_of(stage)

    def spec(wildcards):
        count = cut_of(stage, wildcards.run).pieces
        number = (
            int(wildcards.piece)
            if stage == "attack"
            else count - int(wildcards.left) - 1
        )
        told = json.loads(find(wildcards).told)
        return canonical_json({"piece": number, "pieces": count, "spec": told})

    return spec


def parts_of_attack(wildcards):
    """Return what all pieces of an attack leave."""
    folder = f"results/runs/attack/{wildcards.run}"
    return [
        f"{folder}/piece-{number}.safetensors"
        for number in range(cut_of("attack", wildcards.run).pieces)
    ]


def piece_before(wildcards):
    """Return the marker of the piece of a training before the one with this marker, if there is one."""
    left = int(wildcards.left) + 1
    first = cut_of("train", wildcards.run).pieces == left
    return [] if first else f"results/runs/train/{wildcards.run}/left-{left}.json"


def after_pieces(stage, name):
    """Return a function from wildcards to the file that is there when all pieces of a run are done; none if whole."""

    def path(wildcards):
        whole = cut_of(stage, wildcards.run).pieces == 1
        return [] if whole else f"results/runs/{stage}/{wildcards.run}/{name}"

    return path
