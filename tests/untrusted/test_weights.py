"""Published weights, generators and checkpoints: read, or refused in one line, with no code run."""

import io
import json
import os
import pickle
import zipfile
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from leaklab.data import download as weights
from leaklab.federated import checkpoint
from leaklab.models.generators import biggan_weights
from leaklab.models.generators.base import load_generator, save_generator
from leaklab.models.published import with_published
from leaklab.records import plugins
from leaklab.records.errors import UserError
from leaklab.records.files import sha256
from leaklab.records.kept import KeptParts

UNTRUSTED = settings.get_profile("untrusted")
CPU = torch.device("cpu")


class Exploit:
    def __reduce__(self):
        return os.system, ("touch leaklab-was-here",)


def saved(value, **more):
    buffer = io.BytesIO()
    torch.save(value, buffer, **more)
    return buffer.getvalue()


def with_pickle(content):
    """Return a checkpoint of torch's with another pickle in it."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as opened:
        opened.writestr(zipfile.ZipInfo("archive/data.pkl"), content)
        opened.writestr(zipfile.ZipInfo("archive/version"), "3\n")
    return buffer.getvalue()


def network():
    return torch.nn.Linear(3, 2)


STATE = {"weight": torch.zeros(2, 3), "bias": torch.zeros(2)}
FILES = [
    saved(STATE), saved({"state_dict": STATE}), saved(STATE, _use_new_zipfile_serialization=False), saved([1]),
    saved({"weight": torch.zeros(5)}), saved(torch.zeros(2)), pickle.dumps(Exploit()),
    with_pickle(pickle.dumps(Exploit())), with_pickle(b"\x80\x02cbuiltins\neval\nX\x03\x00\x00\x001+1\x85R."),
]  # fmt: skip


@settings(UNTRUSTED, max_examples=150)
@given(content=st.sampled_from(FILES), data=st.data())
def test_weights_with_another_checksum_are_never_read(tmp_path_factory, monkeypatch, reading, content, data):
    folder = tmp_path_factory.getbasetemp()
    monkeypatch.chdir(folder)
    (folder / "data/weights").mkdir(parents=True, exist_ok=True)
    (folder / "config").mkdir(exist_ok=True)
    file = folder / "data/weights/w.pth"
    file.write_bytes(FILES[0])
    entry = {"title": "t", "licence": "-", "citation": "-", "files": [{"path": "w.pth", "sha256": sha256(file)}]}
    (folder / "config/weights.yaml").write_text(json.dumps({"w": entry}))
    file.write_bytes(reading.damaged(content, data.draw) if data.draw(st.booleans()) else content)
    found = reading(lambda: with_published(network(), weights.weights_path("w"), {}))
    assert isinstance(found, UserError) == (file.read_bytes() != FILES[0])
    assert not Path("leaklab-was-here").exists()


@settings(UNTRUSTED, max_examples=200)
@given(content=st.sampled_from(FILES), data=st.data())
def test_published_weights_run_nothing(tmp_path_factory, monkeypatch, reading, content, data):
    folder = tmp_path_factory.getbasetemp()
    monkeypatch.chdir(folder)
    (folder / "w.pth").write_bytes(reading.damaged(content, data.draw) if data.draw(st.booleans()) else content)
    reading(lambda: with_published(network(), folder / "w.pth", {}))
    assert reading(lambda: biggan_weights._read(folder / "w.pth")) is not None
    assert not Path("leaklab-was-here").exists()


@pytest.fixture(scope="module")
def generator(tmp_path_factory):
    """The files of a generator, and their bytes."""
    path = tmp_path_factory.mktemp("generator") / "generator.safetensors"
    made = plugins.load("models/generators", "class-gaussian", {}).generator((1, 4, 4), 3)
    save_generator(path, made, "class-gaussian", {})
    return path, path.read_bytes(), json.loads(path.with_suffix(".json").read_text())


@settings(UNTRUSTED, max_examples=150)
@given(data=st.data())
def test_generator(generator, reading, data):
    path, content, card = generator
    spoil_card = data.draw(st.booleans())
    other_card = reading.spoilt_json(card, data.draw) if spoil_card else json.dumps(card).encode()
    path.write_bytes(content if spoil_card else reading.damaged(content, data.draw))
    path.with_suffix(".json").write_bytes(other_card)
    reading(load_generator, path)


IDENTITY = {"spec": "{}", "data": "abc"}


def a_state(rounds):
    vectors = {"diverged": torch.tensor([False]), "reached": torch.tensor([False]), "steps": torch.zeros(1, 2).long()}
    return checkpoint.State(rounds, {"w": torch.full((1, 3), float(rounds))}, {}, rows=[{"round": rounds}], **vectors)


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A checkpoint of round 2 and the one of round 1 before it, and their bytes."""
    path = tmp_path_factory.mktemp("training") / "checkpoint.safetensors"
    for rounds in (1, 2):
        checkpoint.save(path, a_state(rounds), IDENTITY)
    return path, path.read_bytes(), checkpoint.before(path).read_bytes()


@settings(UNTRUSTED, max_examples=250)
@given(data=st.data())
def test_checkpoint_of_a_training(trained, reading, data):
    """A damaged one is removed, and training goes on from the one before."""
    path, newest, before = trained
    content = reading.damaged(newest, data.draw)
    path.write_bytes(content)
    checkpoint.before(path).write_bytes(before)
    found = reading(checkpoint.resume, path, IDENTITY, CPU)
    assert found.round in (1, 2)
    assert found.server["w"].eq(found.round).all()
    assert found.rows == [{"round": found.round}]


@settings(UNTRUSTED, max_examples=150)
@given(data=st.data())
def test_kept_parts_of_an_attack(tmp_path_factory, reading, data):
    """What is altered is not used: the part is attacked again, or it is what it was."""
    path, images = tmp_path_factory.getbasetemp() / "parts.safetensors", torch.rand(2, 2)
    KeptParts(path, "job").keep(0, {"images": images})
    path.write_bytes(reading.damaged(path.read_bytes(), data.draw))
    found = reading(lambda: KeptParts(path, "job").part(0))
    assert found is None or (list(found) == ["images"] and torch.equal(found["images"], images))


class TestNamed:
    """Each ends in one line that names the file and what to do."""

    @pytest.mark.parametrize("content", [FILES[2][:300], b"", FILES[6]], ids=["cut", "empty", "exploit"])
    def test_published_weights(self, tmp_path, content):
        (tmp_path / "w.pth").write_bytes(content)
        with pytest.raises(UserError, match=rf"^{tmp_path}/w.pth is damaged, or holds more than tensors: fetch it"):
            with_published(network(), tmp_path / "w.pth", {})

    @pytest.mark.parametrize(("field", "value"), [
        ("image_shape", 1), ("settings", "x"), ("num_classes", "3"), ("num_classes", 10**400), ("name", []),
        ("image_shape", [1, 4, "4"]), ("image_shape", [1, 2**62, 4]), ("num_classes", 2**40), ("name", "no-such"),
    ])  # fmt: skip
    def test_card_of_a_generator(self, generator, field, value):
        path, content, card = generator
        path.write_bytes(content)
        path.with_suffix(".json").write_text(json.dumps(card | {field: value}))
        with pytest.raises(UserError, match=rf"^{path} is no generator: .*; delete it"):
            load_generator(path)
