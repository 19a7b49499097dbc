"""The attack benchmark believes a figure only for the same work on the same objective; no peer is needed here."""

import sys
from copy import deepcopy
from dataclasses import replace
from math import log10
from pathlib import Path

import pytest
import torch
from attack_speed import contest, few
from attack_speed.contest import heat_of
from attack_speed.contestants import CONTESTANTS
from attack_speed.material import Material, made
from attack_speed.objectives import border_variation, objective
from attack_speed.report import page, table
from attack_speed.rows import rows
from attack_speed.runs import Measurement, check, measured
from attack_speed.ways import GRADIENT, ways
from attack_speed.ways import measured as measured_ways
from attack_speed.ways import page as page_of_ways
from attack_speed.workers.measuring import Meter, psnr
from attack_speed.workers.ours import Ours
from attack_speed.workers.plain import Plain
from attack_speed.workloads import INNER, WORKLOADS, Workload
from speed import contest as shared_contest
from speed import environments
from speed.contest import Results, hold
from speed.contestants import OURS
from speed.costs import StepCost, step_cost
from speed.environments import NotInstalledError
from speed.processes import FailedError

from leaklab.attacks.matching import compiled
from leaklab.attacks.matching.gradients import layered_gradients
from leaklab.models.lanes.library import library

PYTHON = Path(sys.executable)
DLG = replace(WORKLOADS[0], name="tiny-dlg", trials=2, iterations=INNER, image_shape=(3, 8, 8))
IG = replace(DLG, name="tiny-ig", attack="ig", model="resnet-small", iterations=3, fewest=1.0)
OUR, _, PLAIN, PEER = CONTESTANTS
COST = StepCost(flop=1_000_000, parameters=1)


@pytest.fixture(scope="module")
def materials():
    return {workload.name: made(workload) for workload in (DLG, IG)}


def run_of(workload: Workload, cpu_ms: float, **more: object) -> Measurement:
    """Return a measurement of so many milliseconds per iteration."""
    cpu = cpu_ms * workload.most / 1e3
    run = Measurement(
        cpu=cpu,
        iterations=workload.most,
        attack_cpu=2 * cpu,
        attack_wall=3 * cpu,
        startup_cpu=1.0,
        startup_wall=1.5,
        parameters=1,
        reached=0,
        found=0.25,
        objective=[1.0, 2.0],
    )
    return replace(run, **more)


def results_of(ours: list[float], plain: list[float], workload: Workload = DLG, peak: float = 100.0) -> Results:
    """Return results from milliseconds per iteration; a gradient is 1 MFLOP."""
    return Results(
        costs={workload.name: COST},
        runs={
            (workload.name, OURS): [run_of(workload, cost) for cost in ours],
            (workload.name, "plain"): [run_of(workload, cost) for cost in plain],
        },
        peaks={"sgemm": peak},
    )


@pytest.mark.parametrize("workload", WORKLOADS, ids=lambda workload: workload.name)
def test_a_workload_survives_the_way_to_its_worker(workload):
    assert Workload.from_json(workload.to_json()) == workload
    assert workload.attack != "dlg" or workload.iterations % INNER == workload.quick_iterations % INNER == 0


@pytest.mark.parametrize("workload", [DLG, IG], ids=lambda workload: workload.name)
def test_the_material_is_the_same_again_and_in_its_file(workload, materials, tmp_path):
    first, again = materials[workload.name], made(workload)
    first.save(tmp_path / "material.safetensors")
    for other in (again, Material.load(tmp_path / "material.safetensors", workload)):
        assert not other.network.training
        torch.testing.assert_close(dict(other.network.state_dict()), dict(first.network.state_dict()), rtol=0, atol=0)
        for name in ("gradients", "images", "labels", "starts", "points", "objective"):
            torch.testing.assert_close(getattr(other, name), getattr(first, name), rtol=0, atol=0)


@pytest.mark.parametrize("workload", [DLG, IG], ids=lambda workload: workload.name)
def test_the_private_image_matches_its_gradient(workload, materials):
    material = materials[workload.name]
    logits = torch.full((1, 10), -60.0).scatter(1, material.labels[:1, None], 60.0)
    labels = logits if workload.attack == "dlg" else material.labels[:1]
    value = objective(workload.attack, material.network, material.observed(0), material.images[:1], labels)
    prior = 0.2 * border_variation(material.images[:1][None])[0] if workload.attack == "ig" else 0.0
    assert (value - prior).item() == pytest.approx(0.0, abs=1e-5)
    assert (material.objective > 0.05).all()  # but not at the common points


@pytest.mark.parametrize("attacker", [Ours, Plain])
@pytest.mark.parametrize("workload", [DLG, IG], ids=lambda workload: workload.name)
def test_contestants_minimise_the_same(attacker, workload, materials):
    material = materials[workload.name].double()
    values = attacker(workload, material).objective()
    assert values == pytest.approx(material.objective.tolist(), rel=1e-9)


@pytest.mark.parametrize("workload", [DLG, IG], ids=lambda workload: workload.name)
def test_contestants_take_the_same_steps_and_count_them(workload, materials):
    found = {}
    for attacker in (Ours, Plain):
        material = materials[workload.name].double()
        meter = Meter(material.images.flatten(1), None)
        found[attacker] = attacker(workload, material).attack(workload.iterations, 1, meter)
        assert meter.iterations == workload.most
        assert meter.cpu > 0
    # ours also evaluates where the last step has led, and may have found less there
    assert all(ours <= plain * (1 + 1e-6) for ours, plain in zip(found[Ours], found[Plain], strict=True))
    assert found[Ours] == pytest.approx(found[Plain], rel=0.2)


@pytest.mark.parametrize("attacker", [Ours, Plain])
def test_a_trial_ends_at_its_target(attacker, materials):
    material = materials[DLG.name]
    near = (material.images.flatten(1), torch.zeros(DLG.trials, 10))
    # the first start of the second trial is its private image; the others are noise
    starts = torch.stack([material.starts[0], material.starts[0]])
    starts[0, 1] = torch.cat(near, 1)[1]
    meter = Meter(material.images.flatten(1), 60.0)
    workload = replace(DLG, starts=2)
    attacker(workload, replace(material, starts=starts, network=deepcopy(material.network))).attack(INNER, 2, meter)
    assert meter.reached == 1
    assert 2 * INNER - 2 <= meter.iterations <= 2 * INNER + 2  # both starts of the first trial


def test_the_border_counts_in_the_variation():
    flat = torch.full((1, 1, 1, 4, 4), 0.5)
    # a flat image differs from the zeros right of and below it only: 4 of 16 pixels each
    assert border_variation(flat).item() == pytest.approx(0.5 * 4 / 16 * 2)
    ramp = torch.arange(9.0).view(1, 1, 1, 3, 3)
    inside = 6 * 1 + 6 * 3
    outside = (2 + 5 + 8) + (6 + 7 + 8)
    assert border_variation(ramp).item() == pytest.approx((inside + outside) / 9)


def test_an_evaluation_without_a_step_is_no_iteration():
    meter = Meter(torch.zeros(3, 4), None)
    for _ in range(5):
        meter.evaluating(torch.zeros(3, 4), [0, 1, 2])
    meter.ended()
    assert meter.iterations == 4 * 3
    meter.evaluating(torch.zeros(1, 4), [1])
    meter.stepped()
    meter.ended()
    assert meter.iterations == 4 * 3 + 1


def test_the_meter_sees_who_is_close():
    truths = torch.tensor([[0.5, 0.5], [1.0, 0.0]])
    points = torch.tensor([[0.6, 0.5, 9.0], [0.99, -7.0, 9.0]])
    assert psnr(points[:1, :2], truths[:1]).item() == pytest.approx(-10 * torch.tensor(0.005).log10().item(), rel=1e-4)
    meter = Meter(truths, 30.0)
    assert meter.evaluating(points, [0, 1]).tolist() == [False, True]
    assert meter.reached == 1


@pytest.mark.parametrize(
    ("more", "reason"),
    [
        ({"parameters": 7}, "attacked 7 parameters instead of 1"),
        ({"iterations": DLG.most // 2 - 1}, f"did {DLG.most // 2 - 1} iterations instead of {DLG.most}"),
        ({"iterations": DLG.most + 1}, f"did {DLG.most + 1} iterations instead of {DLG.most}"),
        ({"objective": [1.0]}, "attacked 1 trials instead of 2"),
        ({"objective": [1.0, 2.0003]}, r"its objective is 2.0003 instead of 2 \(trial 1\)"),
        ({"objective": [1.0, float("nan")]}, "its objective is nan instead of 2"),
    ],
)
def test_other_work_is_refused(more, reason):
    check(run_of(DLG, 1.0), DLG, [1.0, 2.00019], COST)
    with pytest.raises(FailedError, match=f"^void: {reason}"):
        check(run_of(DLG, 1.0, **more), DLG, [1.0, 2.0], COST)


def test_a_reconstruction_that_is_none_is_refused():
    workload = replace(DLG, target=25.0)
    with pytest.raises(FailedError, match="no image came to 25 dB"):
        check(run_of(workload, 1.0), workload, [1.0, 2.0], COST)


def test_a_worker_measures_what_it_was_asked_for(materials, tmp_path):
    path = tmp_path / "material.safetensors"
    materials[DLG.name].save(path)
    wanted = materials[DLG.name].objective.tolist()
    run = measured(PYTHON, OUR.module, DLG, path, wanted, step_cost(DLG), limit=120)
    assert run.iterations == DLG.most
    assert 0 < run.cpu <= run.attack_cpu
    assert run.startup_wall > 0


def test_ratios_are_of_medians():
    ours, plain = rows(results_of([1.0, 1.1, 9.0], [2.2, 3.3, 4.4]), [DLG], [OUR, PLAIN])
    assert ours.figures.cpu_ms == pytest.approx(1.1)
    assert ours.figures.ratio == pytest.approx(1.0)
    assert (plain.figures.ratio, plain.figures.attack_ratio) == pytest.approx((3.0, 3.0))
    assert plain.figures.rate == pytest.approx(1e3 / 3.3)
    assert plain.figures.attack == pytest.approx(2 * 3.3e-3 * DLG.iterations)


def test_a_reconstruction_costs_all_that_was_done_for_it():
    workload = replace(DLG, target=25.0)
    results = results_of([1.0], [1.0], workload)
    runs = results.runs
    for name, reached in ((OURS, 2), ("plain", 1)):
        runs[workload.name, name] = [replace(run, reached=reached) for run in runs[workload.name, name]]
    ours, plain = rows(results, [workload], [OUR, PLAIN])
    assert ours.figures.attack_ratio == pytest.approx(1.0)
    assert plain.figures.attack_ratio == pytest.approx(2.0)
    text = page([ours, plain], results, "a machine", "a command", 1)
    assert f"| {workload.title} | 2.00 |" in text
    assert f"| 1 of 2 in {workload.most} iterations |" in text


def test_a_figure_above_the_peak_is_refused():
    ours, plain = rows(results_of([1.0], [0.0099]), [DLG], [OUR, PLAIN])
    assert ours.figures is not None
    assert plain.reason == "void: 101 GFLOP/s are above the peak of 100"


def test_the_page_has_every_row():
    results = results_of([1.0], [2.5])
    results.failures[DLG.name, PEER.name] = "not installed: no network"
    text = page(rows(results, [DLG], CONTESTANTS), results, "a machine", "a command", 3)
    assert f"| {DLG.title} | 2.50 | - |" in text
    assert "| ours | 1.00 | 1.00 | 1,000.0 | 0.04 | 1.00 | 1.5 | 0.25 |" in text
    assert "| plain | 2.50 | 2.50 | 400.0 | 0.10 | 2.50 | 1.5 | 0.25 |" in text
    assert "| breaching | not installed: no network | - | - | - | - | - | - |" in text


def test_the_table_has_every_run_and_every_reason():
    results = results_of([1.0, 1.1], [2.5])
    results.failures[DLG.name, PEER.name] = "failed: out of memory"
    lines = table(results)
    assert lines["repeat"].tolist()[:3] == [1, 2, 1]
    assert lines["objective"].tolist()[:3] == ["1 2"] * 3
    assert lines.loc[lines["contestant"] == PEER.name, "reason"].tolist() == ["failed: out of memory"]


def test_contestants_take_turns_and_a_missing_peer_is_one_clear_line(materials, monkeypatch, capsys):
    order = []

    def pretended(python, module, workload, path, wanted, cost, limit):
        assert path.is_file()
        order.append(module)
        if module == "plain":
            raise FailedError("void: did 1 iterations instead of 2")
        return run_of(workload, 1.0)

    def interpreter(environment):
        if environment == "breaching":
            raise NotInstalledError("no matching distribution")
        return PYTHON

    monkeypatch.setattr(contest, "made", lambda workload: materials[workload.name])
    monkeypatch.setattr(contest, "measured", pretended)
    monkeypatch.setattr(shared_contest, "output", lambda *given, limit: {"sgemm": 100.0})
    results = hold(heat_of, [DLG], CONTESTANTS, repeats=2, limit=1, interpreter=interpreter)
    assert order == ["ours", "without_compiler", "plain", "ours", "without_compiler"]
    assert results.failures == {
        (DLG.name, PEER.name): "not installed: no matching distribution",
        (DLG.name, "plain"): "failed: void: did 1 iterations instead of 2",
    }
    assert f"{DLG.name} breaching: not installed: no matching distribution" in capsys.readouterr().err


def test_breaching_borrows_the_torch_of_the_project():
    borrowed = {contestant.environment for contestant in CONTESTANTS} - {None}
    assert borrowed == {"breaching"}
    assert borrowed <= set(environments.BORROWING)
    assert "torch" not in (environments.REQUIREMENTS / "breaching.txt").read_text(encoding="utf-8")


def test_quality_is_that_of_the_last_images_and_has_its_column():
    truths = torch.zeros(3, 4)
    meter = Meter(truths, None, follow=True)
    meter.evaluating(torch.full((3, 4), 0.5), [0, 1, 2])
    meter.evaluating(torch.tensor([[0.1] * 4, [0.01] * 4]), [0, 2])
    assert meter.last == pytest.approx({0: 20.0, 1: -10 * log10(0.25), 2: 40.0}, rel=1e-5)
    workload = next(w for w in WORKLOADS if w.name == "a5-ig-quality")
    assert workload.trials >= 20
    results = Results(
        costs={workload.name: COST},
        runs={(workload.name, OURS): [replace(run_of(workload, 8.0), psnr=23.456)]},
        peaks={"sgemm": 1e6},
    )
    text = page(rows(results, [workload], CONTESTANTS), results, "a machine", "a command", 1)
    assert "23.46 dB" in text


def test_all_ways_to_an_evaluation_find_the_same_derivative(materials):
    workload = IG
    found = {name: way() for name, way in ways(materials[workload.name], workload).items()}
    matched = {name: derivative for name, derivative in found.items() if derivative is not None}
    assert [name for name in found if name not in matched] == [name for name in found if name.startswith(GRADIENT)]
    expected = next(iter(matched.values()))
    assert float(expected.norm()) > 0
    for derivative in matched.values():
        torch.testing.assert_close(derivative, expected, rtol=1e-3, atol=1e-3 * float(expected.abs().max()))


def test_ways_are_held_against_the_peak_by_the_operations_that_they_do(materials):
    found = measured_ways(ways(materials[IG.name], IG), IG.trials, 1)
    alone = found[GRADIENT].flop
    assert all(one.flop > 2 * alone for name, one in found.items() if not name.startswith(GRADIENT))
    assert all(one.flop == alone for name, one in found.items() if name.startswith(GRADIENT))
    text = page_of_ways(found, 100.0)
    assert all(f"| {name} | " in text for name in found)


@pytest.mark.skipif(library() is None, reason="no compiled steps on this machine")
def test_few_samples_are_measured_by_the_way_that_is_left_otherwise(monkeypatch):
    """The rule is back afterwards, and the page says it."""
    monkeypatch.setattr(few, "REPEATS", 1)
    before, asked = compiled.FEW, []
    monkeypatch.setattr(few.gradients, "layered_gradients", lambda *given: asked.append(1) or layered_gradients(*given))
    name, precision, products, *ratios = row = few.row_of("cnn-leaky", {"convolutions": 2}, (1, 28, 28), torch.float32)
    assert before == compiled.FEW
    assert (name, precision, products) == ("cnn-leaky, 1x28x28", "float32", "1.61")
    assert len(ratios) == len(asked) == len(few.SAMPLES)
    assert all(float(ratio) > 0 for ratio in ratios)
    text = few.page([row])
    assert all(f"up to {samples} samples" in text for _, samples in before)
