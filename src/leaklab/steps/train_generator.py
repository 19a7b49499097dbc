"""Train an image generator on a part of a dataset, or take a published one, and say how well it draws."""

from leaklab.data.dataset import Dataset
from leaklab.models.generators.base import save_generator
from leaklab.models.generators.made import published, trained
from leaklab.records import plugins
from leaklab.records.environment import checkpoint_seconds
from leaklab.records.errors import UserError
from leaklab.records.files import read_json, sha256, write_json
from leaklab.records.kept import KeptTensors
from leaklab.records.purity import watched
from leaklab.records.streams import repeat_on_gpu
from leaklab.specs.generator import GeneratorSpec
from leaklab.steps.base import Job, main


def run(job: Job) -> None:
    """Write outputs ``generator``, ``description`` and ``card`` from inputs ``dataset`` and ``dataset_card``.

    A killed training goes on from the file that it kept beside the outputs.
    """
    repeat_on_gpu(job.device)
    spec = GeneratorSpec.model_validate(job.spec)
    architecture = plugins.load("models/generators", spec.model.name, spec.model.settings)
    ready_made = hasattr(architecture, "pretrained")
    if ready_made != (spec.steps == 0):
        wanted = "is published: set steps to 0" if ready_made else "has to be trained: set steps above 0"
        raise UserError(f"generator '{spec.model.name}' {wanted}")
    kept = KeptTensors(
        job.outputs["generator"].with_name("checkpoint.safetensors"),
        "\n".join([spec.model_dump_json(), sha256(job.input("dataset")), job.recorder.code, job.device]),
        checkpoint_seconds(),
    )
    if ready_made:
        generator, facts = published(architecture, read_json(job.input("dataset_card")))
    else:
        dataset = Dataset.load(job.input("dataset"))
        with watched(architecture, call="its training", given={"dataset": dataset}, draws="the streams it is given"):
            generator, facts = trained(spec, architecture, dataset, job.device, kept)
    save_generator(job.outputs["generator"], generator.to("cpu"), spec.model.name, spec.model.settings)
    card = {"model": spec.model.name, "dataset": spec.dataset, "image_shape": list(generator.image_shape), **facts}
    write_json(job.outputs["card"], card)
    kept.remove()
    job.note(**facts)


if __name__ == "__main__":
    main("train_generator", run)
