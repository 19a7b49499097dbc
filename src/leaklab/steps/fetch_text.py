"""Get a text data set's file (mirror, earlier download, official source) and write sentences and vocabulary."""

from leaklab.data.catalog import TEXTS, find_text
from leaklab.data.fetch import fetch, mirror_folder
from leaklab.data.text.corpus import make_text_reader
from leaklab.records.files import write_json
from leaklab.steps.base import Job, main


def run(job: Job) -> None:
    """Write output ``corpus`` of the text data set that ``job.spec["dataset"]`` names.

    The optional input ``catalog`` replaces ``config/texts.yaml``.
    """
    name = job.spec["dataset"]
    entry = find_text(name, job.input("catalog") if "catalog" in job.inputs else TEXTS)
    fetched = fetch(entry, mirror_folder(), track=job.track)
    sentences, vocabulary = make_text_reader(fetched.source.reader).read(fetched.paths())
    files = [found.card() for found in fetched.files.values()]
    card = {
        "name": name,
        "title": entry.title,
        "num_classes": entry.num_classes,
        "class_names": list(entry.class_names),
        "texts": list(sentences.texts),
        "labels": list(sentences.labels),
        "vocabulary": list(vocabulary.tokens),
        "files": files,
        "substitute": fetched.source.substitute,
        "licence": entry.licence,
        "citation": entry.citation,
    }
    write_json(job.outputs["corpus"], card)
    job.note(
        sources=files,
        substitute=fetched.source.substitute,
        sentences=len(sentences.texts),
        vocabulary=len(vocabulary),
    )


if __name__ == "__main__":
    main("fetch_text", run)
