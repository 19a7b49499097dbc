"""Draw who holds what in a partition."""

from leaklab.data.deal import read_clients
from leaklab.data.labels import Labels
from leaklab.records.files import read_json
from leaklab.report.figures import partition_figure, style
from leaklab.steps.base import Job, main


def run(job: Job) -> None:
    """Write outputs ``png`` and ``pdf`` from inputs ``partition`` and ``dataset``."""
    dataset = Labels.load(job.input("dataset"))
    read_clients(job.input("partition"), len(dataset.train_labels))
    shown = partition_figure.holdings(read_json(job.input("partition")), dataset.train_labels, dataset.num_classes)
    style.save(partition_figure.draw(shown), job.outputs["png"], job.outputs["pdf"])
    job.note(substitute=dataset.substitute)


if __name__ == "__main__":
    main("draw_partition", run)
