# What all items of a scale have in common: what its tables, pages and records rest on.


def scale_spec(wildcards):
    return canonical_json({"scale": wildcards.scale})


def of_ready_items(*names):
    """Return a function from wildcards to the named result files of all items that run at the scale."""

    def paths(wildcards):
        return [
            str(result_files(item, wildcards.scale)[name])
            for item in PLAN.ready(wildcards.scale)
            for name in names
        ]

    return paths


def records_of_scale(wildcards):
    """Return the run records of everything that the scale's items rest on."""
    jobs = [
        job
        for item in PLAN.ready(wildcards.scale)
        for job in PLAN.jobs_of(wildcards.scale, item)
    ]
    datasets = {job.dataset for job in jobs if job.dataset}
    records = [str(PREPARED / f"{dataset}.run.json") for dataset in sorted(datasets)]
    return records + list(dict.fromkeys(str(job.folder / "run.json") for job in jobs))


def deals_of_scale(wildcards):
    """Return a picture of who holds what for each kind of deal; deals that differ by their seed look alike."""
    pictures = {}
    for item in PLAN.ready(wildcards.scale):
        for job in PLAN.jobs_of(wildcards.scale, item):
            if stage_of(job.spec) == "partition":
                kind = canonical_json(
                    job.spec.model_copy(
                        update={
                            "partition": job.spec.partition.model_copy(
                                update={"seed": 0}
                            )
                        }
                    )
                )
                pictures.setdefault(kind, str(job.folder / "partition.png"))
    return list(pictures.values())


def cards_of_scale(wildcards):
    jobs = [
        job
        for item in PLAN.ready(wildcards.scale)
        for job in PLAN.jobs_of(wildcards.scale, item)
    ]
    return list(
        dict.fromkeys(
            str(job.folder / "cards.json")
            for job in jobs
            if stage_of(job.spec) in ("score", "landscape", "score-text")
        )
    )


def scale_targets(scale):
    return [
        f"results/{scale}/report/index.html",
        f"results/{scale}/provenance/ro-crate-metadata.json",
    ]


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
