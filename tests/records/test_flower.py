"""The mod of a Flower ClientApp, on messages that only look like Flower's; the real ones are in ``tests/flower``."""

import json
import logging
import os
import subprocess
import sys
import threading
from io import BytesIO
from pathlib import Path
from threading import Event
from types import SimpleNamespace

import numpy as np
import pytest
from safetensors.numpy import load_file

import leaklab
from leaklab.records import recording
from leaklab.records.errors import UserError


@pytest.fixture(autouse=True)
def nothing_said(monkeypatch):
    monkeypatch.setattr(recording, "_said", set())
    monkeypatch.delenv("LEAKLAB_RECORD", raising=False)


def arrays(**values):
    return {name: SimpleNamespace(numpy=lambda value=value: np.asarray(value)) for name, value in values.items()}


def message(records, config=None, metrics=None, kind="train", group="", error=False):
    content = SimpleNamespace(array_records=records, config_records=config or {}, metric_records=metrics or {})
    metadata = SimpleNamespace(message_type=kind, dst_node_id=2**63, run_id=5, group_id=group)
    return SimpleNamespace(content=content, metadata=metadata, has_content=lambda: True, has_error=lambda: error)


def called(mod, given, reply):
    """Call the mod around an app that empties what it was given."""

    def app(message, context):
        message.content.array_records.clear()
        message.content.config_records.clear()
        return reply

    assert mod(given, None, app) is reply
    leaklab.flower.finish()


def manifest(path):
    return json.loads((path / "exchange.json").read_text())


def test_what_was_given_is_kept_though_the_app_empties_it(tmp_path):
    given = message({"arrays": arrays(w=[1.0, 2.0])}, {"config": {"server-round": 3, "lr": 0.1}})
    reply = message({"arrays": arrays(w=[0.0, 2.0])}, metrics={"metrics": {"num-examples": 4}})
    called(leaklab.flower.record(tmp_path), given, reply)
    path = tmp_path / "exchange-000000"
    assert load_file(path / "before.safetensors")["w"].tolist() == [1.0, 2.0]
    assert load_file(path / "sent.safetensors")["w"].tolist() == [0.0, 2.0]
    found = manifest(path)
    assert (found["node"], found["round"], found["run"]) == (str(2**63), 3, "5")
    assert (found["config"], found["metrics"]) == ({"server-round": 3, "lr": 0.1}, {"num-examples": 4})


def test_it_records_trainings_that_succeed_in_wanted_rounds_while_it_is_asked_to(tmp_path, monkeypatch):
    mod, held = leaklab.flower.record(every=2), lambda: {"arrays": arrays(w=[1.0])}
    called(mod, message(held()), message(held()))  # off
    monkeypatch.setenv("LEAKLAB_RECORD", str(tmp_path))
    for group in ("1", "2", "3", "4", ""):
        called(mod, message(held(), group=group), message(held()))
    called(mod, message(held(), kind="evaluate"), message(held()))
    called(mod, message(held(), kind="train.own"), message(held()))
    called(mod, message(held()), message(held(), error=True))
    called(mod, message({}), message({}))
    assert [manifest(path)["round"] for path in sorted(tmp_path.glob("exchange-*"))] == [1, 3, None, None]


def test_arrays_of_other_records_are_told_from_the_model_s(tmp_path):
    given = message({"control": arrays(c=[1.0]), "arrays": arrays(w=[1.0], b=[2.0])}, {"a": {"x": 1}, "b": {"x": 2}})
    reply = message({"mine": arrays(w=[0.0], b=[0.0]), "control": arrays(d=[3.0])})
    called(leaklab.flower.record(tmp_path), given, reply)
    names = manifest(tmp_path / "exchange-000000")["names"]
    assert names == {"before.safetensors": ["control/c", "w", "b"], "sent.safetensors": ["w", "b", "control/d"]}
    assert manifest(tmp_path / "exchange-000000")["config"] == {"x": 1, "b/x": 2}


@pytest.mark.parametrize(
    "value", [np.arange(6.0).reshape(2, 3), np.asfortranarray(np.ones((2, 3))), np.array(5), np.ones(0)]
)
def test_the_values_of_a_message_are_taken_as_they_lie_there(value, tmp_path):
    file = BytesIO()
    np.save(file, value)
    array = SimpleNamespace(data=file.getvalue(), numpy=lambda: value)
    called(leaklab.flower.record(tmp_path), message({"a": {"w": array}}), message({"a": {"w": array}}))
    found = load_file(tmp_path / "exchange-000000/sent.safetensors")["w"]
    assert found.dtype == value.dtype
    assert np.array_equal(found, value)


@pytest.mark.parametrize(("ahead", "waiting"), [(0, 1), (2 * 48, 2), (2 * 48 + 47, 2), (3 * 48, 3)])
def test_replies_leave_before_they_are_written_while_memory_has_room_for_them(ahead, waiting, tmp_path, monkeypatch):
    free, wrote, stored = Event(), [], leaklab.flower.stored

    def slow(*given):
        assert free.wait(20)
        wrote.append(stored(*given))
        return wrote[-1]

    monkeypatch.setattr(leaklab.flower, "stored", slow)
    monkeypatch.setattr(leaklab.flower, "AHEAD", ahead)
    values, mod = np.zeros(3), leaklab.flower.record(tmp_path)
    for number in range(waiting + 1):  # an exchange holds 48 bytes; the last of them waits for the first
        if number == waiting:
            assert not wrote
            free.set()
        values[:] = number  # what left is recorded, whatever becomes of it
        reply = message({"a": arrays(w=values)})
        assert mod(message({"a": arrays(w=[0.0, 0, 0])}), None, lambda message, context, reply=reply: reply) is reply
    assert wrote
    leaklab.flower.finish()
    assert [load_file(path / "sent.safetensors")["w"].tolist() for path in wrote] == [
        [float(number)] * 3 for number in range(waiting + 1)
    ]


@pytest.mark.skipif(sys.platform != "linux", reason="threads of this system have no priority of their own")
def test_writing_gives_way_to_the_training_and_nothing_else_does(tmp_path, monkeypatch):
    monkeypatch.setattr(leaklab.flower, "_writers", {})
    found, own = [], os.getpriority(os.PRIO_PROCESS, 0)

    def told(*given):
        found.append(os.getpriority(os.PRIO_PROCESS, threading.get_native_id()))

    monkeypatch.setattr(leaklab.flower, "stored", told)
    called(leaklab.flower.record(tmp_path), message({"a": arrays(w=[0.0])}), message({"a": arrays(w=[1.0])}))
    assert found == [19]
    assert os.getpriority(os.PRIO_PROCESS, threading.get_native_id()) == own


@pytest.mark.parametrize("end", ["", "; sys.exit(1)", "; os.kill(os.getpid(), 15)"])
def test_a_process_that_ends_with_its_last_reply_writes_it_first(end, tmp_path):
    code = f"""
import os, signal, sys, time, leaklab
sys.path.insert(0, {str(Path(__file__).parent)!r})
from test_flower import arrays, message
stored = leaklab.flower.stored
leaklab.flower.stored = lambda *given: (time.sleep(0.5), stored(*given))[1]
signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # as workers of Ray do
mod, reply = leaklab.flower.record({str(tmp_path)!r}), message({{"a": arrays(w=[1.0])}})
mod(message({{"a": arrays(w=[0.0])}}), None, lambda *_: reply){end}
"""
    subprocess.run([sys.executable, "-c", code], check=False)
    assert manifest(tmp_path / "exchange-000000")


def test_masked_vectors_are_noted_and_not_kept(tmp_path):
    mod, secure = leaklab.flower.record(tmp_path), {"secaggplus_configs": {"stage": "collect"}}
    masked = {"secaggplus_configs": {"masked_params": [b"12", b"3456"]}}
    called(mod, message({"fitins": arrays(**{"0": [1.0]})}, dict(secure)), message({"fitres": {}}, masked))
    called(mod, message({"fitins": arrays(**{"0": [1.0]})}, dict(secure)), message({"fitres": arrays(**{"0": [2.0]})}))
    called(mod, message({}, dict(secure)), message({}, {"secaggplus_configs": {"pk1": b"1"}}))
    states = [manifest(path)["secure_aggregation"] for path in sorted(tmp_path.glob("exchange-*"))]
    assert states == ["masked", "before masking"]
    assert load_file(tmp_path / "exchange-000000/sent.safetensors") == {}


def test_an_app_s_own_error_is_its_own_and_the_recorder_s_a_line(tmp_path, caplog):
    def failing(message, context):
        raise KeyError("lr")

    mod = leaklab.flower.record(tmp_path)
    with pytest.raises(KeyError, match="lr"):
        mod(message({"arrays": arrays(w=[1.0])}), None, failing)
    called(mod, SimpleNamespace(content=SimpleNamespace(array_records={}, config_records={})), message({}))
    called(mod, message({"a": arrays(w=[1.0])}), message({"a": {"w": SimpleNamespace(numpy=lambda: 1 / 0)}}))
    assert [one.levelno for one in caplog.records] == [logging.WARNING] * 2
    assert "the training goes on" in caplog.text
    with pytest.raises(UserError, match="kind"):
        leaklab.flower.record(tmp_path, kind="weight")


def test_truth_is_refused_among_exchanges_before_there_is_one(tmp_path):
    def app(message, context):
        leaklab.record_truth(tmp_path / "leaves/private", np.ones(1), np.ones(1))

    with pytest.raises(UserError, match="private truth needs a folder beside it"):
        leaklab.flower.record(tmp_path / "leaves")(message({"arrays": arrays(w=[1.0])}), None, app)


def test_neither_flower_nor_torch_nor_numpy_is_imported_before_they_are_needed():
    code = (
        "import sys, leaklab; leaklab.flower.record(); leaklab.record_update, leaklab.record_truth; "
        "print(sorted({'flwr', 'torch', 'numpy', 'pandas'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
