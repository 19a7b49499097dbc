"""What the server sees lies apart from the truth, under the same run id."""

from pathlib import Path

from leaklab.specs.base import run_folder, run_id
from leaklab.specs.capture import CaptureSpec
from leaklab.specs.stages import folders_of, observation_folder, stage_of_file
from leaklab.specs.text import TextCaptureSpec
from leaklab.specs.training import PartitionSpec

IMAGES = CaptureSpec.model_validate({"dataset": "digits", "images": {"count": 1}, "model": "mlp"})
SENTENCES = TextCaptureSpec.model_validate({"dataset": "cola", "sentences": {}, "model": "bert-classifier"})
DEAL = PartitionSpec.model_validate({"dataset": "digits", "partition": "two-clients"})


def test_an_observation_has_the_name_of_its_capture_and_another_folder():
    assert observation_folder(IMAGES) == Path("results/runs/observation", run_id(IMAGES))
    assert observation_folder(SENTENCES) == Path("results/runs/observation-text", run_id(SENTENCES))
    assert folders_of(IMAGES) == (Path("results/runs/capture", run_id(IMAGES)), observation_folder(IMAGES))
    assert folders_of(DEAL) == (run_folder(DEAL),)


def test_the_file_of_an_observation_belongs_to_a_capture():
    for spec, stage in ((IMAGES, "capture"), (SENTENCES, "capture-text"), (DEAL, "partition")):
        assert {stage_of_file(folder / "file.json") for folder in folders_of(spec)} == {stage}
