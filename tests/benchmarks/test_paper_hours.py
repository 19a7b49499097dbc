"""Hours on paper: operations by closed forms, each job counted once, and every number of the page stands in a table."""

import shutil
from math import prod
from pathlib import Path

import pandas as pd
import pytest
import torch
from paper_hours.attacks import emptied, evaluation_of, network_of
from paper_hours.counting import counted, fake
from paper_hours.hours import EVERY, SCALE, each_once, jobs_by_item, load_of, table
from paper_hours.kinds import read_kinds, units_of, words_of
from paper_hours.page import HEAVIEST, KINDS, MEASURED, PAGE, TABLE, WAYS, write_page
from paper_hours.searches import lbfgs_step
from paper_hours.shapes import shape_of
from paper_hours.training import step_of
from torch import nn
from torch.nn import functional as F

from leaklab.items.items import load_items
from leaklab.planning.plan import build_plan
from leaklab.planning.resources import cost
from leaklab.specs.training import TrainSpec

ROOT = Path(__file__).parents[2]
ITEMS = ("lrp/figure5", "lrp/table2", "lrp/table3", "lrp/figure3", "lrp/figure-training", "outpost/table3")


def test_an_affine_layer_has_its_three_products():
    with fake():
        layer, inputs = nn.Linear(30, 20), torch.zeros(8, 30, requires_grad=True)
        found = counted(lambda: layer(inputs).sum().backward())
    assert found.flop == 3 * 2 * 8 * 30 * 20


@pytest.mark.parametrize("groups", [1, 4, 8])
def test_groups_do_not_multiply_the_work_of_a_convolution(groups):
    with fake():
        layer, inputs = nn.Conv2d(8, 16, 3, groups=groups), torch.zeros(5, 8, 10, 12, requires_grad=True)
        found = counted(lambda: layer(inputs).sum().backward())
    assert found.flop == 3 * 2 * 5 * 16 * 8 * 10 * (8 // groups) * 9


def test_products_that_add_to_what_is_there_are_counted():
    with fake():
        whole, left, right = torch.zeros(3, 4, 5), torch.zeros(3, 4, 6), torch.zeros(3, 6, 5)
        found = counted(lambda: whole.baddbmm_(left, right))
    assert found.flop == 2 * 3 * 4 * 5 * 6


def test_a_double_backward_of_an_mlp_has_its_closed_form():
    batch, inputs, hidden, classes = 4, 30, 20, 10
    with fake():
        network = nn.Sequential(nn.Linear(inputs, hidden), nn.Sigmoid(), nn.Linear(hidden, classes))
        images, labels = torch.zeros(batch, inputs, requires_grad=True), torch.zeros(batch, dtype=torch.long)

        def twice():
            loss = F.cross_entropy(network(images), labels)
            gradients = torch.autograd.grad(loss, list(network.parameters()), create_graph=True)
            torch.autograd.grad(sum((one**2).sum() for one in gradients), images)

        found = counted(twice)
    first, last = 2 * batch * inputs * hidden, 2 * batch * hidden * classes
    # forward: both layers; backward: both kernels, and the inputs of the last layer
    once = (first + last) + (first + last + last)
    # what comes back: through the first kernel's gradient to its inputs and to the derivative at its outputs; the same
    # of the last, then through the two products that made that derivative, and through the forward pass
    twice = 2 * first + 2 * last + last + (last + first)
    assert found.flop == once + twice


def test_bytes_are_inputs_and_outputs_and_views_are_free():
    with fake():
        one, other = torch.zeros(10, 4), torch.zeros(4, 3)
        found = counted(lambda: one.view(2, 20))
        product = counted(lambda: one @ other)
        broadcast = counted(lambda: one + torch.zeros(1, 4).expand(10, 4))
    assert (found.bytes, found.kernels) == (0, 0)
    assert (product.bytes, product.kernels) == (4 * (40 + 12 + 30), 1)
    assert broadcast.bytes == 4 * (4 + 40 + 4 + 40)  # zeros, then the sum


@pytest.fixture(scope="module")
def plan():
    items = load_items(ROOT / "config/items")
    return build_plan({key: items[key] for key in ITEMS}, (SCALE,))


@pytest.fixture(scope="module")
def kinds():
    return read_kinds(ROOT / "benchmarks" / KINDS)


def test_every_training_and_search_is_of_a_kind_that_was_counted(plan, kinds):
    jobs = each_once(job for own in jobs_by_item(plan).values() for job in own)
    assert {words_of(job.spec) for job in jobs} - {""} <= set(kinds)
    assert all(words_of(job.spec) for job in jobs if isinstance(job.spec, TrainSpec))


def test_the_whole_has_each_job_once_however_many_items_need_it(plan, kinds):
    rows = table(plan, kinds)
    stages = [row for row in rows if row["item"] == EVERY and row["stage"] != EVERY]
    (whole,) = [row for row in rows if row["item"] == row["stage"] == EVERY]
    jobs = {(job.spec.stage, job.name): job for own in jobs_by_item(plan).values() for job in own}
    once = sum(load_of(job, plan, kinds).hours for job in jobs.values())
    assert whole["jobs"] == len(jobs)
    assert whole["hours"] == pytest.approx(once) == pytest.approx(sum(row["hours"] for row in stages))
    assert sum(row["hours"] for row in rows if row["stage"] == EVERY and row["item"] != EVERY) > once


def test_rounds_of_a_shorter_training_are_not_done_again(plan):
    trainings = list(plan.jobs["train"].values())
    asked = sum(cost(job.spec).steps for job in trainings)
    assert 0 < sum(units_of(job, plan) for job in trainings) < asked
    assert all(units_of(job, plan) >= 0 for job in trainings)


def test_every_number_of_the_page_is_of_a_table(tmp_path):
    names = TABLE, KINDS, MEASURED, WAYS
    for name in names:
        shutil.copy(ROOT / "benchmarks" / name, tmp_path / name)
    assert write_page(tmp_path) == (ROOT / "benchmarks" / PAGE).read_text()


def test_a_training_counts_a_step_of_one_model_of_those_that_share_a_launch(plan):
    trainings = (job.spec for job in plan.jobs["train"].values())
    spec = next(one for one in trainings if one.model.name == "logistic-regression" and one.clients_per_round)
    found, models = step_of(spec)
    assert models == spec.clients_per_round * spec.replicates
    # both products of an affine layer; its inputs need no derivative
    assert found.flop == pytest.approx(2 * 2 * spec.batch_size * 784 * 10)
    assert found.kernels < 20 / models * 2


def test_an_evaluation_of_an_image_has_a_second_backward(plan):
    jobs = (job.spec for job in plan.jobs["attack"].values())
    spec = next(one for one in jobs if one.attack.name == "idlg" and one.capture.model.name == "dlg-lenet")
    found, together = evaluation_of(spec)
    network = network_of(spec)
    with fake():
        emptied(network, torch.float64)
        forward = counted(lambda: network(torch.rand(1, *shape_of(spec.capture.dataset), dtype=torch.float64)))
    search = lbfgs_step(prod(shape_of(spec.capture.dataset)), torch.float64, together)
    assert 4 * forward.flop < found.flop - search.flop / together < 8 * forward.flop


def test_no_unit_asks_for_less_than_nothing(kinds):
    assert all(min(kind.flop, kind.bytes, kind.kernels, kind.product_bytes) > 0 for kind in kinds.values())


def test_ways_never_cost_more():
    ways = pd.read_csv(ROOT / "benchmarks" / WAYS)
    for _, own in ways.groupby("item"):
        assert own["hours"].is_monotonic_decreasing
    assert ways["item"].nunique() == HEAVIEST
