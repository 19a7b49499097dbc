"""The trained encoder of an optional package: it is read, and refused where it is missing or another one."""

import importlib.util

import pytest
import torch

from leaklab.attacks.spans.reading import read
from leaklab.models.text import minilm
from leaklab.models.text.decoders import gradients_of
from leaklab.models.text.minilm import END, INSTALL, MiniLm
from leaklab.records.errors import UserError

SENTENCES = (
    "The cat that the dog chased was very tired.",
    "Nobody had told her about the letter.",
    "They sent three doctors to the village.",
)
needs_minilm = pytest.mark.skipif(
    importlib.util.find_spec(minilm.PACKAGE) is None,
    reason=f"the trained MiniLM is not installed: {INSTALL}",
)


@needs_minilm
def test_whole_sentences_of_the_trained_encoder_are_read_with_a_certificate():
    trained = MiniLm()
    rows = [torch.tensor(trained.encode(text)) for text in SENTENCES]
    ids = torch.nn.utils.rnn.pad_sequence(rows, batch_first=True)
    network = trained.classifier(2, 0)
    update = {name: 0.37 * value for name, value in gradients_of(network, ids, torch.tensor([0, 1, 0])).items()}
    found = read(network, update, END)
    assert set(found.sentences) == {tuple(row.tolist()) for row in rows}
    assert found.proven


def test_without_the_package_it_is_said_how_to_get_it(monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(UserError, match=f"optional package: {INSTALL}"):
        MiniLm()


@pytest.mark.parametrize("content", [None, b"other weights"])
def test_files_of_another_version_are_refused(monkeypatch, tmp_path, content):
    class Found:
        origin = str(tmp_path / "__init__.py")

    (tmp_path / "model").mkdir()
    if content:
        (tmp_path / "model/model.safetensors").write_bytes(content)
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: Found())
    with pytest.raises(UserError, match=r"does not hold the model.safetensors of version 0.1.0"):
        MiniLm()
