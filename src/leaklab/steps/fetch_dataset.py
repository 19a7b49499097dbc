"""Get a dataset's files (mirror, earlier download, official source) and write it in the project's one format."""

from leaklab.data.catalog import CATALOG, find_entry, load_catalog
from leaklab.data.fetch import fetch, mirror_folder
from leaklab.data.prepare import check_readers, prepare
from leaklab.records.files import write_json, write_tensors
from leaklab.steps.base import Job, main


def run(job: Job) -> None:
    """Write outputs ``data`` and ``card`` of the dataset that ``job.spec["dataset"]`` names.

    The optional input ``catalog`` replaces ``config/datasets.yaml``.
    """
    name = job.spec["dataset"]
    catalog = job.input("catalog") if "catalog" in job.inputs else CATALOG
    entry = find_entry(name, load_catalog(catalog))
    check_readers(name, entry)
    prepared = prepare(name, entry, fetch(entry, mirror_folder(), track=job.track))
    write_tensors(job.outputs["data"], prepared.tensors)
    write_json(job.outputs["card"], prepared.card)
    job.note(sources=prepared.card["files"], substitute=prepared.card["substitute"])


if __name__ == "__main__":
    main("fetch_dataset", run)
