"""Recordings read back: what was recorded to the byte, and one line for each way to be wrong."""

import json
import re
import shutil

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import nn
from torch.nn import functional as F

from leaklab.probing.client import Client
from leaklab.probing.recorded import recorded, truth_of
from leaklab.records.errors import UserError
from leaklab.records.exchanges import checksum
from leaklab.records.recording import record_truth, record_update


def network():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(5, 4), nn.BatchNorm1d(4), nn.ReLU(), nn.Linear(4, 3))


def copied(model):
    return {name: value.detach().clone() for name, value in model.state_dict().items()}


def trained(model, rows=1):
    """Return the private sample, and the state before and after one step on it."""
    inputs, before = torch.randn(rows, 5), copied(model)
    model.eval()
    F.cross_entropy(model(inputs), torch.zeros(rows, dtype=torch.int64)).backward()
    torch.optim.SGD(model.parameters(), 0.1).step()
    model[1].running_mean += 1  # a buffer that moves
    return inputs, before, copied(model)


@pytest.fixture
def exchange(tmp_path):
    """A folder with one exchange."""
    _, before, after = trained(network())
    return record_update(before, after, tmp_path / "seen", node="n", round=1)


def edited(path, **changes):
    manifest = json.loads((path / "exchange.json").read_text())
    manifest.update(changes)
    (path / "exchange.json").write_text(json.dumps(manifest))


def replaced(path, file, tensors):
    """Put other tensors into a file, with the digest that belongs to them."""
    save_file(tensors, path / file)
    manifest = json.loads((path / "exchange.json").read_text())
    edited(path, files=manifest["files"] | {file: checksum(path / file)})


def test_the_first_layer_s_input_is_read_from_what_was_recorded(tmp_path):
    model = network()
    inputs, before, after = trained(model)
    record_update(before, after, tmp_path, kind="weights", node=3, round=4, config={"lr": 0.1})
    (one,) = recorded(tmp_path, model)
    weight, bias = one.direction("0.weight"), one.direction("0.bias")
    row = bias.abs().argmax()
    torch.testing.assert_close(weight[row] / bias[row], inputs[0].double(), rtol=1e-4, atol=1e-4)
    assert (one.facts["node"], one.facts["round"], one.facts["config"]) == ("3", 4, {"lr": 0.1})
    assert all(torch.equal(one.sent[name], value) for name, value in after.items())
    assert list(one.before) == list(before)  # in the order of the state


def test_a_described_client_s_round_comes_back_as_it_was(tmp_path):
    model = network()
    for kind in ("gradient", "delta", "weights"):
        made = Client(model, sends=kind).round(torch.randn(4, 5), torch.tensor([0, 1, 2, 0]))
        record_update(made.before, made.sent, tmp_path / kind, kind=kind)
        (found,) = recorded(tmp_path / kind, model)
        assert found.kind == kind
        assert set(found.sent) == set(made.sent)
        assert all(torch.equal(found.direction(name), made.direction(name)) for name in made.sent)


def test_arrays_without_names_get_those_of_the_state_and_buffers_stay(tmp_path):
    model = network()
    _, before, after = trained(model)
    lists = [[value.numpy() for value in state.values()] for state in (before, after)]
    record_update(*lists, tmp_path / "state")
    (one,) = recorded(tmp_path / "state", model)
    assert all(torch.equal(one.sent[name], value) for name, value in after.items())
    plain = recorded(tmp_path / "state")
    assert plain.unnamed
    assert list(plain[0].sent) == [str(number) for number in range(9)]
    assert any("without names" in line for line in plain.lines())
    parameters = [name for name, _ in model.named_parameters()]
    record_update(lists[0], [after[name].numpy() for name in parameters], tmp_path / "some")
    with pytest.raises(UserError, match=r"has 6 arrays without names, and before.safetensors 9: give the model"):
        recorded(tmp_path / "some")
    assert list(recorded(tmp_path / "some", model)[0].sent) == parameters
    with pytest.raises(UserError, match=r"9 arrays without names; the model has 2 tensors"):
        recorded(tmp_path / "state", nn.Linear(5, 4))
    record_update([value.numpy() for value in reversed(before.values())], lists[1], tmp_path / "turned")
    with pytest.raises(UserError, match=r"tensor '0.weight', in the order of the model's state"):
        recorded(tmp_path / "turned", model)


def test_a_recording_says_what_an_auditor_has_to_know(tmp_path):
    model = network()
    _, before, after = trained(model)
    some = {name: value for name, value in before.items() if not name.startswith("3")}
    record_update(some, {"0.weight": after["0.weight"], "other/control": torch.ones(2)}, tmp_path, round=0, run="a")
    record_update(before, {name: value + 0 for name, value in before.items()}, tmp_path, round=1, node=1, run="b")
    (tmp_path / ".part-12-34-abcdef").mkdir()
    found = recorded(tmp_path, model)
    said = "\n".join(found.lines())
    for words in (
        "2 exchanges recorded, of 2 nodes, rounds 0 to 1",
        "of 2 trainings",
        "other/control came back and had not been given",
        "not given 3.weight, 3.bias of the model",
        "exchange-000001: what was sent changes nothing",
        "delete .part-12-34-abcdef",
    ):
        assert words in said
    assert torch.equal(found[0].facts["extra"]["other/control"], torch.ones(2))
    assert json.loads(json.dumps(found.record()))["exchanges"] == ["exchange-000000", "exchange-000001"]


def mixed(path):
    _, before, after = trained(network(), rows=2)
    other = record_update(before, {name: 2 * value for name, value in after.items()}, path.parent)
    shutil.copy(other / "sent.safetensors", path)
    shutil.rmtree(other)


def cut(path):
    content = (path / "sent.safetensors").read_bytes()
    (path / "sent.safetensors").write_bytes(content[: len(content) // 2])


def without(path):
    tensors = load_file(path / "sent.safetensors")
    tensors.pop("0.bias")
    replaced(path, "sent.safetensors", tensors)


def with_other(path, **others):
    replaced(path, "sent.safetensors", load_file(path / "sent.safetensors") | others)


WRONG = {
    "no manifest": (lambda path: (path / "exchange.json").unlink(), r"exchange.json is missing.*cut short; delete"),
    "half a manifest": (lambda path: (path / "exchange.json").write_text('{"schema'), "is no JSON"),
    "another schema": (lambda path: edited(path, schema="leaklab-exchange/2"), "of schema 'leaklab-exchange/2'.*reads"),
    "no schema": (lambda path: (path / "exchange.json").write_text("[]"), "of schema None"),
    "no names": (lambda path: edited(path, names=None), "no 'names' that can be read"),
    "unknown kind": (lambda path: edited(path, kind="update"), "no 'kind' that can be read"),
    "no tensors": (lambda path: (path / "before.safetensors").unlink(), "before.safetensors is missing.*delete"),
    "cut tensors": (cut, r"sent.safetensors is not the file that was recorded \(its checksum differs\)"),
    "mixed": (mixed, "sent.safetensors is not the file that was recorded.*two recordings were mixed"),
    "missing tensor": (without, "sent.safetensors lacks tensor '0.bias'"),
    "extra tensor": (lambda path: with_other(path, more=torch.ones(1)), "holds tensor 'more', which"),
    "not finite": (lambda path: with_other(path, **{"3.bias": torch.tensor([0.0, float("nan"), 1.0])}),
                   "tensor '3.bias' holds values that are not finite"),
    "shape": (lambda path: with_other(path, **{"3.bias": torch.ones(4)}),
              r"tensor '3.bias' is of shape \[4\], and was given as \[3\]"),
}  # fmt: skip


@pytest.mark.parametrize("case", WRONG)
def test_what_is_not_what_was_recorded_is_one_line_that_says_what_to_do(case, exchange):
    harm, said = WRONG[case]
    harm(exchange)
    with pytest.raises(UserError, match=said) as error:
        recorded(exchange.parent)
    assert "\n" not in str(error.value)
    with pytest.raises(UserError, match=r"no exchange of .* can be read; the first"):
        recorded(exchange.parent, skip_damaged=True)
    _, before, after = trained(network())
    record_update(before, after, exchange.parent)
    found = recorded(exchange.parent, skip_damaged=True)
    assert len(found) == 1
    assert any(re.search(f"Left out: .*{said}", line) for line in found.lines())


@pytest.mark.parametrize(
    ("other", "said"),
    [
        (nn.Sequential(nn.Linear(5, 4)), "a tensor '1.weight', which the model does not"),
        (nn.Sequential(nn.Linear(6, 4), nn.BatchNorm1d(4), nn.ReLU(), nn.Linear(4, 3)),
         r"tensor '0.weight' is of shape \[4, 5\], and of \[4, 6\] in the model"),
    ],
)  # fmt: skip
def test_the_exchange_of_another_model_is_one_line(other, said, exchange):
    with pytest.raises(UserError, match=said):
        recorded(exchange.parent, other)


def test_a_folder_without_exchanges_is_one_line(tmp_path, exchange):
    with pytest.raises(UserError, match="is no folder"):
        recorded(tmp_path / "nowhere")
    with pytest.raises(UserError, match="holds no exchange: record with a folder"):
        recorded(tmp_path)
    assert len(recorded(exchange)) == 1


def test_truth_is_found_by_node_and_round(tmp_path, exchange):
    (one,) = recorded(exchange)
    inputs, targets = torch.ones(1, 5), torch.zeros(1)
    with pytest.raises(UserError, match="holds 0 truths of node n, round 1"):
        truth_of(tmp_path / "private", one)
    record_truth(tmp_path / "private", inputs, targets, node="n", round=1)
    record_truth(tmp_path / "private", inputs + 1, targets, node="n", round=2)
    assert torch.equal(truth_of(tmp_path / "private", one)[0], inputs)
    record_truth(tmp_path / "private", inputs, targets, node="n", round=1)
    with pytest.raises(UserError, match="holds 2 truths"):
        truth_of(tmp_path / "private", one)
    (tmp_path / "private/truth-0.safetensors").write_bytes(b"12")
    with pytest.raises(UserError, match=r"truth-0.safetensors is no safetensors file"):
        truth_of(tmp_path / "private", one)


def test_a_manifest_without_a_key_that_may_be_null_is_one_line(exchange):
    manifest = json.loads((exchange / "exchange.json").read_text())
    del manifest["round"]
    (exchange / "exchange.json").write_text(json.dumps(manifest))
    with pytest.raises(UserError, match="has no 'round' that can be read"):
        recorded(exchange.parent)
