"""Deal a dataset's training part to clients."""

from leaklab.data.deal import deal
from leaklab.data.labels import Labels
from leaklab.records.files import write_json
from leaklab.specs.training import PartitionSpec
from leaklab.steps.base import Job, main


def run(job: Job) -> None:
    """Write output ``partition`` from input ``dataset``."""
    spec = PartitionSpec.model_validate(job.spec)
    dataset = Labels.load(job.input("dataset"))
    content = deal(spec, dataset.train_labels, dataset.train_groups, dataset.test_labels)
    write_json(job.outputs["partition"], content)
    sizes = [len(indices) for indices in content["clients"]]
    job.note(clients=len(sizes), samples=sum(sizes), smallest=min(sizes), largest=max(sizes),
             validation=sum(map(len, content["validation"])), substitute=dataset.substitute)  # fmt: skip


if __name__ == "__main__":
    main("partition_data", run)
