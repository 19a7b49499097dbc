"""The yardstick of a probe against scores that are written out, and against readings that are no readings."""

import json
from math import log10

import pytest
import torch
from torch import nn

from leaklab.probing.case import Case
from leaklab.probing.client import Client
from leaklab.probing.measure import measure_of
from leaklab.probing.reading import Reading
from leaklab.probing.yardstick import graded
from leaklab.records.errors import UserError
from leaklab.records.streams import stream


def case_of(inputs: torch.Tensor, targets: torch.Tensor, public=None, model: nn.Module | None = None) -> Case:
    model = model or nn.Sequential(nn.Flatten(), nn.Linear(inputs[0].numel(), 3))
    client = Client(model)
    return Case(client, client.round(inputs, targets), inputs, targets, public)


def pictures(number: int, name: str = "private") -> torch.Tensor:
    return stream(0, name).uniform(number, 1, 4, 4).float()


def read(values: torch.Tensor, proven: bool = False, loss: float | None = None, by: str = "search") -> Reading:
    return Reading(by, "input", values, proven, loss)


def test_a_picture_is_scored_by_its_psnr_on_the_range_of_the_data_and_paired_with_its_original() -> None:
    inputs, targets = 255 * pictures(3), torch.arange(3)
    noisy = inputs + 255 * 0.01 * torch.tensor([1.0, -1.0]).repeat(8).view(1, 4, 4)
    grades = graded(case_of(inputs, targets), [read(one) for one in noisy.flip(0)])
    expected = [
        -10 * log10(float((((a - b.clamp(0, 255)) / 255) ** 2).mean())) for a, b in zip(inputs, noisy, strict=True)
    ]
    assert grades.attackers[0].scores == pytest.approx(expected)
    assert grades.share == 1
    assert grades.exact == 0


def test_the_best_guess_is_the_class_mean_the_mean_or_one_number() -> None:
    public = pictures(40, "public").double(), torch.arange(40) % 4
    means = [public[0][public[1] == label].mean(0) for label in range(4)]
    blank = torch.full((1, 4, 4), 0.2).double()
    inputs, targets = torch.stack([means[1], public[0].mean(0), blank]).float(), torch.tensor([1, 2, 3])
    grades = graded(case_of(inputs, targets, public, nn.Sequential(nn.Flatten(), nn.Linear(16, 4))), [])
    assert min(grades.guesses) > 100  # each sample is one of the three guesses
    assert grades.share == 0
    others = case_of(pictures(2), torch.arange(2))
    error = others.inputs[0].double().var(correction=0)
    assert graded(others, []).guesses[0] == pytest.approx(float(-10 * error.log10()))


def test_who_returns_a_guess_reads_nothing() -> None:
    public = pictures(40, "public"), torch.arange(40) % 4
    inputs, targets = pictures(8), torch.arange(8) % 4
    case = case_of(inputs, targets, public, nn.Sequential(nn.Flatten(), nn.Linear(16, 4)))
    for values in (public[0].mean(0).expand_as(inputs), pictures(8, "others"), torch.full_like(inputs, 0.5)):
        grades = graded(case, [read(one) for one in values])
        assert grades.share == 0
        assert not grades.attackers[0].gain.reads


def test_a_proof_of_another_sample_is_false_and_counts_as_no_reading() -> None:
    inputs, targets = pictures(2), torch.arange(2)
    grades = graded(case_of(inputs, targets), [read(inputs[1], True), read(pictures(1, "others")[0], True)])
    assert (grades.attackers[0].proven, grades.attackers[0].false, grades.read) == (2, 1, (False, True))
    assert any("1 of them falsely" in line for line in grades.lines())
    assert json.loads(json.dumps(grades.record()))["false"] == 1


def test_of_more_readings_than_samples_those_of_the_smallest_loss_count() -> None:
    inputs, targets = pictures(1), torch.arange(1)
    wrong, right = read(1 - inputs[0], loss=0.1), read(inputs[0], loss=0.2)
    assert graded(case_of(inputs, targets), [right, wrong]).share == 0
    assert graded(case_of(inputs, targets), [right, read(1 - inputs[0], loss=0.3)]).share == 1


def test_a_broken_search_is_scored_and_reads_nothing() -> None:
    inputs, targets = pictures(1), torch.arange(1)
    assert graded(case_of(inputs, targets), [read(torch.full_like(inputs[0], torch.nan))]).share == 0


def test_values_are_measured_by_the_deviation_of_each_entry() -> None:
    scales = torch.tensor([1e-3, 1.0, 1e3])
    public, inputs = (scales * stream(0, name).normal(size, 3).float() for name, size in (("public", 50), ("own", 2)))
    measure = measure_of(inputs, public)
    assert measure.kind == "values"
    found = inputs + 0.1 * measure.unit
    grades = graded(case_of(inputs, torch.rand(2, 3), (public, torch.rand(50, 3))), [read(one) for one in found])
    assert grades.attackers[0].scores == pytest.approx([20.0, 20.0], abs=1e-3)


def test_tokens_are_counted() -> None:
    inputs = torch.tensor([[1, 2, 3, 4], [5, 5, 5, 6]])
    model = nn.Sequential(nn.Embedding(9, 2), nn.Flatten(), nn.Linear(8, 3))
    grades = graded(case_of(inputs, torch.arange(2), None, model), [read(torch.tensor([1, 2, 3, 9]), by="tokens")])
    assert grades.attackers[0].scores == (75.0, 75.0)  # the second sample has no reading, and is guessed
    assert grades.read == (True, False)


def test_what_a_layer_saw_is_looked_up_with_the_client_s_own_dropout() -> None:
    inputs, targets = pictures(2), torch.arange(2)
    model = nn.Sequential(nn.Flatten(), nn.Dropout(0.5), nn.Linear(16, 3))
    case, seen = case_of(inputs, targets, None, model), []
    client = case.client
    model[2].register_forward_pre_hook(lambda _, given: seen.append(given[0].detach()))
    client.round(inputs, targets)
    right, wrong = Reading("ratio", "2", seen[0][1], True), Reading("ratio", "2", inputs[0].flatten(), True)
    grades = graded(case, [right, wrong])
    assert (grades.layers[0].exact, grades.layers[0].false, grades.share) == (1, 1, 0)
    with pytest.raises(UserError, match="no layer '7'"):
        graded(case, [Reading("ratio", "7", seen[0][1], True)])


def test_what_cannot_be_graded_is_one_line() -> None:
    inputs, targets = pictures(1), torch.arange(1)
    case = case_of(inputs, targets)
    with pytest.raises(UserError, match="give it the shape of a sample"):
        graded(case, [read(torch.zeros(3))])
    with pytest.raises(UserError, match="give the case its inputs"):
        graded(Case(case.client, case.exchange), [])
