# What all items of a scale have in common: what its tables, pages and records rest on.
from leaklab.planning.outputs import (
    drawings_of_deals,
    jobs_behind,
    records_behind,
    targets_of_scale,
)
from leaklab.planning.plan import result_files


def scale_spec(wildcards):
    return canonical_json({"scale": wildcards.scale})


def report_spec(wildcards):
    scale = wildcards.scale
    changes = {
        key: item.scales[scale]
        for key, item in the_plan().items.items()
        if scale in item.scales
    }
    missing = {key: change.missing for key, change in changes.items() if change.missing}
    return canonical_json({"scale": scale, **({"missing": missing} if missing else {})})


def jobs_of_scale(scale):
    return jobs_behind(the_plan(), scale, the_plan().ready(scale))


def of_ready_items(*names):
    """Return a function from wildcards to the named result files of all items that run at the scale."""

    def paths(wildcards):
        return [
            str(result_files(item, wildcards.scale)[name])
            for item in the_plan().ready(wildcards.scale)
            for name in names
        ]

    return paths


def records_of_scale(wildcards):
    """Return the run records of everything that the scale's items rest on."""
    items = the_plan().ready(wildcards.scale)
    return [str(path) for path in records_behind(the_plan(), wildcards.scale, items)]


def deals_of_scale(wildcards):
    return [str(path) for path in drawings_of_deals(jobs_of_scale(wildcards.scale))]


def cards_of_scale(wildcards):
    return [
        str(job.folder / "cards.json")
        for job in jobs_of_scale(wildcards.scale)
        if job.spec.stage in ("score", "landscape", "score-text")
    ]


def here(paths_of):
    """Return a function from wildcards to those files that are here, where a call may not make all (`make publish`)."""

    def paths(wildcards):
        every = paths_of(wildcards)
        told = workflow.dag_settings.allowed_rules
        return [path for path in every if Path(path).is_file()] if told else every

    return paths


def targets_of(scale):
    """Return a function of a rule's input: what the scale's target asks for."""
    return lambda wildcards: [str(path) for path in targets_of_scale(the_plan(), scale)]


def what_failed_steps_said():
    """Return the last line of each step's log of this call that ended with a message for the user."""
    said = []
    for path in sorted(Path("logs").rglob("*.log")):
        lines = (
            path.read_text(errors="replace").splitlines()
            if path.stat().st_mtime >= STARTED
            else []
        )
        if lines and lines[-1].startswith("leaklab "):
            said.append(lines[-1])
    return said
