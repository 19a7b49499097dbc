# How the rules of long jobs and of their pieces look up into how many a run is cut.


def runtime_of_piece(stage):
    @signed
    def runtime(wildcards, attempt):
        return attempt * cut_of(stage, wildcards.run).minutes

    return runtime


def spec_of_piece(stage):
    """Return a function from wildcards to what one piece of a run is told."""
    told = spec_of(stage)

    @signed
    def spec(wildcards):
        cut = cut_of(stage, wildcards.run)
        number = (
            int(wildcards.piece)
            if stage != "train"
            else cut.pieces - int(wildcards.left) - 1
        )
        # canonical JSON, as what a run is told is; `spec` comes last
        head = canonical_json({**cut.told, "piece": number})
        return f'{head[:-1]},"spec":{told(wildcards)}}}'

    return spec


def part_of(stage, run, number):
    return f"results/runs/{stage}/{run}/piece-{number}.safetensors"


def parts_of(stage):
    """Return a function from wildcards to what the last piece of each chain of an attack leaves."""

    @of_run
    def paths(wildcards):
        cut = cut_of(stage, wildcards.run)
        last = range(cut.chain - 1, cut.pieces, cut.chain)
        return [part_of(stage, wildcards.run, number) for number in last]

    return paths


@signed
def part_before(wildcards):
    """Return what the piece of an attack before this one leaves, if this one goes on from it."""
    number = int(wildcards.piece)
    first = number % cut_of("attack", wildcards.run).chain == 0
    return [] if first else part_of("attack", wildcards.run, number - 1)


@signed
def piece_before(wildcards):
    """Return the marker of the piece of a training before the one with this marker, if there is one."""
    left = int(wildcards.left) + 1
    first = cut_of("train", wildcards.run).pieces == left
    return [] if first else f"results/runs/train/{wildcards.run}/left-{left}.json"


def after_pieces(stage, name):
    """Return a function from wildcards to the file that is there when all pieces of a run are done; none if whole."""

    @of_run
    def path(wildcards):
        whole = cut_of(stage, wildcards.run).pieces == 1
        return [] if whole else f"results/runs/{stage}/{wildcards.run}/{name}"

    return path
