"""Updates as they should be, and with one thing wrong each: the stage names it and says what to do."""

import json
from copy import deepcopy
from dataclasses import replace

import pytest
import torch
from torch import nn

from leaklab.probing.case import Case
from leaklab.probing.client import Client
from leaklab.probing.grids import grid_of, on_eight_bits, spacing
from leaklab.probing.inputs import check_inputs


def _case(**settings) -> Case:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(20, 12), nn.BatchNorm1d(12), nn.Tanh(), nn.Linear(12, 5))
    inputs, targets = torch.randn(8, 20), torch.arange(8) % 5
    client = Client(model, **settings)
    return Case(client, client.round(inputs, targets), inputs, targets)


def _with(case: Case, **sent) -> Case:
    kept = {name: value for name, value in {**case.exchange.sent, **sent}.items() if value is not None}
    return replace(case, exchange=replace(case.exchange, sent=kept))


def _found(case: Case) -> dict[str, str]:
    return {finding.what: finding.says for finding in check_inputs(case).findings}


@pytest.mark.parametrize("sends", ["gradient", "delta", "weights"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_right_update_can_be_used_and_nothing_is_found(sends, dtype):
    case = _case(sends=sends)
    case.client.model.to(dtype)
    case = replace(case, exchange=case.client.round(case.inputs.to(dtype), case.targets))
    seen = check_inputs(case)
    assert seen.usable
    assert seen.findings == ()
    assert (seen.tensors, seen.numbers, seen.grid) == (6, 20 * 12 + 12 * 3 + 12 * 5 + 5, None)
    assert seen.dtype == str(dtype).removeprefix("torch.")
    json.dumps(seen.record())
    assert "can be used: 6 tensors, 341 numbers" in seen.lines()[0]


def test_the_floor_is_the_rounding_that_a_finer_round_shows():
    case = _case(rate=1e-3)
    exact = Client(deepcopy(case.client.model).double(), rate=1e-3).round(case.inputs.double(), case.targets)
    error = sum(float((exact.sent[n] - case.exchange.sent[n]).square().sum()) for n in exact.sent) ** 0.5
    norm = sum(float(value.square().sum()) for value in exact.sent.values()) ** 0.5
    floor = check_inputs(case).floor
    assert floor / 10 < error / norm < floor * 2


@pytest.mark.parametrize(
    ("what", "change", "said"),
    [
        ("missing", {"0.weight": None}, "0.weight should have been sent"),
        ("extra", {"head.weight": torch.ones(3)}, "has no head.weight: leave them out"),
        ("shape", {"3.weight": torch.ones(12, 5)}, r"[12, 5], the model's has [5, 12]: transpose it"),
        ("shape", {"3.weight": torch.ones(60)}, "reshape it"),
        ("type", {"3.bias": torch.ones(5, dtype=torch.int8)}, "after they were decoded"),
        ("not finite", {"3.bias": torch.tensor([1, 2, float("nan"), 4, float("inf")])}, "3.bias (2 of 5)"),
        ("zero", {"3.bias": torch.zeros(5)}, "3.bias did not change at all"),
    ],
)
def test_what_is_wrong_is_named_by_tensor(what, change, said):
    case = _with(_case(), **change)
    assert said in _found(case)[what]
    assert check_inputs(case).usable == (what in ("missing", "extra", "zero"))


def test_names_of_wrappers_and_places_are_recognised():
    case = _case()
    sent = case.exchange.sent
    for names, said in (
        ({f"module.{name}": value for name, value in sent.items()}, "take 'module.' off"),
        ({str(place): value for place, value in enumerate(sent.values())}, "places, not names"),
        ({name.replace("3", "head"): value for name, value in sent.items()}, "rename head.weight to 3.weight"),
    ):
        assert said in _found(replace(case, exchange=replace(case.exchange, sent=names)))["extra"]
    lines = check_inputs(replace(case, exchange=replace(case.exchange, sent={}))).lines()
    assert lines[0] == "The update cannot be used: nothing was sent: give the tensors by the names of state_dict."


def test_what_is_zero_or_below_its_rounding_cannot_be_used():
    assert "every tensor is zero" in _found(_case(rate=0.0))["nothing"]
    assert "lost in the rounding" in _found(_case(rate=1e-8))["lost"]


def test_grids_are_recognised_and_cost_what_rounding_changes():
    case = _case()
    for name, change in {
        "bfloat16": lambda value: value.bfloat16().float(),
        "float16": lambda value: value.half().float(),
        "int8": on_eight_bits,
    }.items():
        sent = {key: change(value) for key, value in case.exchange.sent.items()}
        seen = check_inputs(replace(case, exchange=replace(case.exchange, sent=sent)))
        assert seen.grid == name
        error = sum(float((sent[key] - case.exchange.sent[key]).square().sum()) for key in sent) ** 0.5
        assert seen.rounding == pytest.approx(error / seen.norm, rel=0.25)
    signs = {key: value.sign() for key, value in case.exchange.sent.items()}
    assert grid_of(signs) is None
    assert spacing(torch.tensor([1.5, 3.0, 1e-30]), torch.float16).tolist() == [2**-10, 2**-9, 2**-24]


def test_buffers_that_were_sent_show_the_mode_and_the_batches():
    model = _case().client.model
    names = tuple(model.state_dict())
    for settings, steps, moved in (({"mode": "train"}, 3, "train mode"), ({"mode": "eval"}, 0, "eval mode")):
        case = _case(shares=names, steps=3, **settings)
        found = _found(case)
        assert f"count {steps} batches in this round; as described" in found["batches"]
        assert moved in found["statistics"]
        other = replace(case, client=replace(case.client, mode="eval" if steps else "train"))
        assert "check steps, mode, batches" in _found(other)["batches"]


def test_samples_and_states_that_do_not_fit_are_said():
    case = _case()
    assert "8 samples and 3 targets" in _found(replace(case, targets=case.targets[:3]))["samples"]
    broken = case.inputs.clone()
    broken[2, 3] = float("nan")
    assert "samples 2 have" in _found(replace(case, inputs=broken))["samples"]
    before = dict(case.exchange.before)
    before["0.bias"] = before["0.bias"] + 1
    assert (
        "other values in 0.bias"
        in _found(replace(case, exchange=replace(case.exchange, before=before)))["other weights"]
    )
    del before["0.bias"]
    seen = check_inputs(replace(case, exchange=replace(case.exchange, before=before)))
    assert not seen.usable
    assert "lacks 0.bias" in seen.lines()[0]


def test_a_frozen_tensor_that_moved_is_named():
    case = _case()
    case.client.model[3].requires_grad_(False)
    assert "3.weight, 3.bias changed, though described as frozen" in _found(case)["thawed"]
