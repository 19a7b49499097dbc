# How the rules of an item look up which files of runs and data sets its table and its figure are made of.
from leaklab.planning.state import state_of
from leaklab.records.expand import block_stage
from leaklab.records.ids import stage_of


def item_of(wildcards):
    key = f"{wildcards.paper}/{wildcards.item}"
    if (wildcards.scale, key) not in the_plan().runs:
        item = the_plan().items.get(key)
        reason = (
            "there is no such item"
            if item is None
            else state_of(the_plan(), item, wildcards.scale).reason
        )
        raise WorkflowError(
            f"leaklab: cannot make {key} at scale {wildcards.scale}: {reason}"
        )
    return the_plan().items[key]


def run_files_of(wildcards, stage, name):
    """Return file `name` of all runs of `stage` that the item reads directly, each once."""
    runs = the_plan().runs[wildcards.scale, item_of(wildcards).key]
    return list(
        dict.fromkeys(
            str(RUNS.joinpath(*the_plan().key_of(run.spec), name))
            for run in runs
            if block_stage(run) == stage
        )
    )


def item_sweeps(wildcards):
    cells = item_of(wildcards).cells
    kept = ["weights.safetensors"] if cells and cells.embedding else []
    return [
        file
        for name in ["sweep.parquet", *kept]
        for file in run_files_of(wildcards, "train", name)
    ]


def item_scores(wildcards):
    return [
        file
        for stage, names in (
            ("score", ("scores.csv", "cards.json")),
            ("landscape", ("landscape.csv", "cards.json")),
            ("score-text", ("scores.csv",)),
        )
        for name in names
        for file in run_files_of(wildcards, stage, name)
    ]


def item_checks(wildcards):
    return run_files_of(wildcards, "check", "numbers.csv")


def item_cards(wildcards):
    """Return the cards of the data sets behind the item."""
    jobs = the_plan().jobs_of(wildcards.scale, item_of(wildcards))
    return [
        str(PREPARED / f"{dataset}.json")
        for dataset in sorted({job.dataset for job in jobs if job.dataset})
    ]


def item_pictures(wildcards):
    """Return reconstructions and truths of the item's attacks, for figures of pictures."""
    jobs = the_plan().jobs_of(wildcards.scale, item_of(wildcards))
    names = {
        "score-text": ["texts.json"],
        "attack": ["reconstruction.safetensors"],
        "capture": ["truth.safetensors", "truth_facts.json"],
    }
    return [
        str(job.folder / name)
        for job in jobs
        for name in names.get(stage_of(job.spec), [])
    ]


def item_yaml(wildcards):
    return str(item_file(item_of(wildcards)))


def item_spec(wildcards):
    item = item_of(wildcards)
    missing = item.scales[wildcards.scale].missing
    return canonical_json(
        {
            "paper": wildcards.paper,
            "item": wildcards.item,
            "scale": wildcards.scale,
            **({"missing": missing} if missing else {}),
        }
    )
