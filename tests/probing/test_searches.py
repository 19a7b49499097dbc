"""Searches on small models: what they read, that they do not peek, and that controls stay unread."""

import json
from dataclasses import replace
from functools import cache

import pytest
import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.nn import functional as F

from leaklab.probing.case import Case
from leaklab.probing.client import Client
from leaklab.probing.searches.attackers import annealed_map, inverting_gradients, without_prior
from leaklab.probing.searches.beliefs import FLOOR, SMOOTH_DEVIATION, of_nothing, of_public
from leaklab.probing.searches.labels import counted
from leaklab.probing.searches.matching import Deadline, Posterior, Sent
from leaklab.probing.searches.search import searches
from leaklab.probing.searches.simulation import Simulation
from leaklab.probing.searches.targets import Targets
from leaklab.probing.yardstick import graded
from leaklab.records.errors import UserError
from leaklab.records.streams import stream

PUBLIC = 400
UNIT = torch.zeros(()).double(), torch.ones(()).double()


@cache
def digits() -> tuple[torch.Tensor, torch.Tensor]:
    data = load_digits()
    order = stream(0, "digits").permutation(len(data.target))
    return torch.as_tensor(data.images / 16).float()[order, None], torch.as_tensor(data.target)[order]


def model(act: type[nn.Module] = nn.Sigmoid) -> nn.Module:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return nn.Sequential(nn.Conv2d(1, 8, 3, 2, 1), act(), nn.Flatten(), nn.Linear(128, 10))


def case_of(samples: int = 1, *, public: bool = True, start: int = 0, own: nn.Module | None = None, **changes) -> Case:
    inputs, targets = digits()
    client = Client(own or model(), **changes)
    mine, wanted = inputs[start : start + samples], targets[start : start + samples]
    others = (inputs[-PUBLIC:], targets[-PUBLIC:]) if public else None
    return Case(client, client.round(mine, wanted), mine, wanted, others)


def one_hot(output: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    return F.binary_cross_entropy_with_logits(output, F.one_hot(labels, 10).to(output))


@pytest.mark.parametrize(
    "changes", [{}, {"loss": one_hot, "sends": "gradient"}, {"steps": 2, "sends": "weights"}, {"clip": 0.01}]
)
def test_a_sample_is_read_of_any_loss_and_round(changes: dict) -> None:
    case = case_of(**changes)
    found = searches(case, evaluations=25)
    grades = graded(case, found.readings)
    assert found.targets.tolist() == case.targets.tolist()
    assert grades.share == 1
    assert grades.attackers[0].gain.mean > 8
    assert found.tried[0].error < 1e-2
    json.dumps([found.record(), grades.record()])


def test_a_sample_is_read_of_three_steps_of_adam() -> None:
    case = case_of(steps=3, optimizer=lambda these: torch.optim.Adam(these, 0.01))
    found = searches(case, evaluations=40, only=["annealed-map"])
    assert found.unlike(case.inputs, case.targets) == ""
    assert found.tried[0].error < 1e-2
    assert graded(case, found.readings).share == 1


def test_what_the_model_draws_and_no_search_knows_is_told_by_the_truth() -> None:
    own = nn.Sequential(nn.Conv2d(1, 8, 3, 2, 1), nn.Sigmoid(), nn.Dropout(0.6), nn.Flatten(), nn.Linear(128, 10))
    case = case_of(2, own=own)
    found = searches(case, evaluations=2, only=["annealed-map"])
    assert "of the true samples differs from what was sent" in found.unlike(case.inputs, case.targets)


def test_nothing_but_the_form_of_the_private_samples_is_used() -> None:
    case = case_of(2)
    blind = replace(case, inputs=torch.full_like(case.inputs, torch.nan), targets=torch.zeros_like(case.targets))
    mine, others = (searches(one, evaluations=4) for one in (case, blind))
    assert all(torch.equal(a.values, b.values) for a, b in zip(mine.readings, others.readings, strict=True))
    assert [one.loss for one in mine.readings] == [one.loss for one in others.readings]
    assert len(mine.readings) == 2 * len(mine.tried)


@pytest.mark.parametrize("start", [1, 2, 3])
def test_what_was_sent_of_another_sample_reads_nothing(start: int) -> None:
    case = replace(case_of(), exchange=case_of(start=start).exchange)
    assert graded(case, searches(case, evaluations=15).readings).share == 0


def test_an_update_of_zero_is_refused() -> None:
    case = case_of()
    zero = {name: torch.zeros_like(one) for name, one in case.exchange.sent.items()}
    with pytest.raises(UserError, match="zero or not finite"):
        searches(replace(case, exchange=replace(case.exchange, sent=zero)))


def test_without_public_samples_smoothness_leads_and_nothing_is_left_out_silently() -> None:
    case = case_of(public=False)
    found = searches(case, evaluations=25)
    assert graded(case, found.readings).share == 1
    names = [one.by for one in found.tried] + [name for name, _ in found.untried]
    assert names == ["annealed-map", "ig", "dlg"]


def test_labels_of_a_batch_are_read_and_granted_ones_are_used() -> None:
    case = case_of(3)
    found = searches(case, evaluations=2)
    assert sorted(found.targets.tolist()) == sorted(case.targets.tolist())
    granted = searches(case, evaluations=2, labels=case.targets)
    assert granted.words == "granted"
    assert torch.equal(granted.targets, case.targets)


def test_numbers_to_regress_are_sought_beside_the_samples() -> None:
    draws = stream(0, "patients")
    inputs, targets = draws.normal(120, 6).float(), draws.normal(120).float()
    with torch.random.fork_rng():
        torch.manual_seed(0)
        own = nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 1))
    client = Client(own, loss=lambda output, wanted: F.mse_loss(output[:, 0], wanted))
    case = Case(client, client.round(inputs[:1], targets[:1]), inputs[:1], targets[:1], (inputs[1:], targets[1:]))
    found = searches(case, evaluations=40)
    assert found.targets is None
    assert graded(case, found.readings).share == 1


def test_time_that_is_over_leaves_what_was_found() -> None:
    ticks = iter(range(10_000))
    found = searches(case_of(), 40.0, clock=lambda: float(next(ticks)))
    assert found.tried
    assert not found.tried[0].complete
    assert all(bool(one.values.isfinite().all()) for one in found.readings)
    assert any("used up" in line or "cut by the budget" in line for line in found.lines())


def posterior_of(samples: int = 2) -> Posterior:
    case = case_of(samples)
    simulation = Simulation(case.client, case.exchange)
    beliefs = of_nothing((1, 8, 8), UNIT, boxed=True)
    return Posterior(Sent.of(simulation, case.exchange), beliefs, Targets(samples, case.targets, None), weight=50.0)


def test_the_slope_of_the_posterior_is_that_of_differences() -> None:
    posterior = posterior_of()
    point, way = stream(0, "point").normal(1, posterior.unknowns), stream(0, "way").normal(1, posterior.unknowns)
    row, step = torch.zeros(1, dtype=torch.int64), 1e-6
    slope = (posterior(point, row)[1] * way).sum()
    difference = (posterior(point + step * way, row)[0] - posterior(point - step * way, row)[0]) / (2 * step)
    torch.testing.assert_close(slope, difference[0], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("attack", [annealed_map, inverting_gradients, without_prior])
def test_a_search_ends_at_the_best_point_it_saw(attack) -> None:
    posterior = posterior_of(1)
    ended = attack(posterior, stream(0, "draws"), 8, Deadline.after(1e6, lambda: 0.0))
    first = replace(ended.posterior, weight=1.0, believed=0.0)
    values = [float(first(point, torch.zeros(1, dtype=torch.int64))[0]) for point in (ended.point, 0 * ended.point)]
    assert values[0] < values[1]
    assert ended.complete


def test_beliefs_have_the_covariance_of_the_public_samples() -> None:
    rows, classes = stream(0, "rows").normal(500, 5) @ torch.diag(torch.tensor([0.3, 0.2, 0.1, 0.1, 0.0]).double()), 2
    labels = torch.arange(500) % classes
    own = of_public(rows + labels[:, None], labels, 3, UNIT, 0, boxed=False)
    factor = own.coloured(torch.eye(5).double())
    wanted = (
        rows.T @ rows / 498
        - torch.stack([rows[labels == k].mean(0) for k in (0, 1)]).T.matmul(
            torch.stack([rows[labels == k].mean(0) for k in (0, 1)])
        )
        * (250 / 498)
        + FLOOR**2 * torch.eye(5)
    )
    torch.testing.assert_close(factor @ factor.T, wanted, rtol=0.05, atol=2e-4)
    torch.testing.assert_close(own.means[2], (rows + labels[:, None]).mean(0))  # a class without samples


@pytest.mark.parametrize("shape", [(1, 8, 8), (3, 7, 10)])
def test_smooth_pictures_have_the_deviation_they_say(shape: tuple[int, int, int]) -> None:
    own = of_nothing(shape, UNIT, boxed=True)
    drawn = own.own(stream(0, "latents").normal(400, own.size)).view(-1, *shape)
    assert float(drawn.std()) == pytest.approx(SMOOTH_DEVIATION, rel=0.1)
    assert float(drawn.diff(dim=-1).std()) < 1.2 * float(drawn.std())


def test_counts_are_those_of_the_shares() -> None:
    assert counted(torch.tensor([0.5, 0.0, 0.26, 0.24]), 4).tolist() == [0, 0, 2, 3]
    assert counted(torch.zeros(3), 2).tolist() == [0, 1]


def test_what_cannot_be_searched_is_one_line() -> None:
    case = case_of()
    with pytest.raises(UserError, match="integers"):
        searches(replace(case, inputs=torch.zeros(1, 4, dtype=torch.int64)))
    with pytest.raises(UserError, match="give public samples"):
        searches(replace(case, inputs=None, public=None))
    with pytest.raises(UserError, match="give samples"):
        searches(replace(case, inputs=None))
    with pytest.raises(UserError, match="choose from annealed-map, annealed-smooth, ig, dlg"):
        searches(case, only=["guessing"])
    with pytest.raises(UserError, match="give labels"):
        searches(replace(case, targets=None, public=None))


class Refusing(torch.autograd.Function):
    @staticmethod
    def forward(context, x):
        return x.clone()

    @staticmethod
    def backward(context, slope):
        raise RuntimeError("no second derivative")


class Once(torch.autograd.Function):
    @staticmethod
    def forward(context, x):
        return x.clone()

    @staticmethod
    def backward(context, slope):
        return Refusing.apply(slope)


def test_a_loss_of_one_type_is_taken_and_a_layer_of_one_derivative_is_one_line() -> None:
    weights = torch.rand(10)
    case = case_of(loss=lambda output, labels: F.cross_entropy(output, labels, weight=weights))
    assert searches(case, evaluations=2, only=["annealed-map"]).readings[0].values.dtype == torch.float32
    own = model()
    own.register_forward_hook(lambda module, given, output: Once.apply(output))
    with pytest.raises(UserError, match="cannot be simulated: no second derivative"):
        searches(case_of(own=own))


def test_draws_of_the_model_leave_everybody_else_s_alone() -> None:
    own = model()
    own.register_forward_hook(lambda module, given, output: F.dropout(output, 0.2))
    case, before = case_of(own=own), torch.random.get_rng_state()
    searches(case, evaluations=2, only=["annealed-map"])
    assert torch.equal(torch.random.get_rng_state(), before)
