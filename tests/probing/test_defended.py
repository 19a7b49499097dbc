"""Defenses inside of simulated rounds: what experiments find of them, and what searches read who know them."""

import random
import time
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from statistics import fmean

import numpy as np
import pytest
import torch
from sklearn.datasets import load_digits
from torch import Tensor, nn

from leaklab.probing.algebra.proofs import proofs
from leaklab.probing.case import Case
from leaklab.probing.client import Change, Client
from leaklab.probing.grids import on_eight_bits
from leaklab.probing.owned import all_drawing
from leaklab.probing.searches.defended import Defended, generators_of
from leaklab.probing.searches.experiments import met
from leaklab.probing.searches.search import Searches, searches
from leaklab.probing.searches.simulation import Simulation
from leaklab.probing.yardstick import graded
from leaklab.records.errors import UserError
from leaklab.records.streams import stream

OWN, OWNS = torch.Generator().manual_seed(3), np.random.default_rng(0)


@cache
def digits() -> tuple[Tensor, Tensor]:
    data = load_digits()
    return torch.as_tensor(data.images / 16).float()[:, None], torch.as_tensor(data.target)


def cnn() -> nn.Module:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return nn.Sequential(nn.Conv2d(1, 8, 3, 2, 1), nn.Sigmoid(), nn.Flatten(), nn.Linear(128, 10))


def mlp() -> nn.Module:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        layers = [nn.Linear(64, 64, bias=False), nn.Tanh(), nn.Linear(64, 32), nn.Tanh(), nn.Linear(32, 10)]
        return nn.Sequential(nn.Flatten(), *layers)


def normed() -> nn.Module:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        layers = [nn.Conv2d(1, 4, 3, 2, 1), nn.BatchNorm2d(4), nn.Tanh(), nn.Flatten(), nn.Linear(64, 10)]
        return nn.Sequential(*layers)


def each(change: Callable[[Tensor], Tensor]) -> Change:
    return lambda sent: {name: change(one) for name, one in sent.items()}


def clipped(sent: dict[str, Tensor]) -> dict[str, Tensor]:
    norm = torch.stack([one.double().square().sum() for one in sent.values()]).sum().sqrt()
    return {name: one * min(1.0, 0.03 / norm) for name, one in sent.items()}


def largest(sent: dict[str, Tensor], share: float = 0.1) -> dict[str, Tensor]:
    sizes = torch.cat([one.abs().flatten() for one in sent.values()]).sort().values
    least = sizes[int((1 - share) * len(sizes))]
    return {name: torch.where(one.abs() >= least, one, 0.0) for name, one in sent.items()}


def noisy(size: float) -> Change:
    return each(lambda one: one + size * torch.randn_like(one))


def scaled(sent: dict[str, Tensor]) -> dict[str, Tensor]:
    factor = random.uniform(0.5, 2)
    return {name: factor * one for name, one in sent.items()}


def case_of(defense: Change | None, build: Callable[[], nn.Module] = cnn, samples: int = 1, **changes) -> Case:
    inputs, targets = digits()
    client = Client(build(), defense=defense, **changes)
    mine, wanted = inputs[:samples], targets[:samples]
    with all_drawing(5, generators_of(defense) if defense else ()):
        exchange = client.round(mine, wanted)
    return Case(client, exchange, mine, wanted, (inputs[-400:], targets[-400:]))


def blind(case: Case) -> Case:
    return replace(case, client=replace(case.client, defense=None))


def found(case: Case) -> Searches:
    return searches(case, 60.0, evaluations=25, only=["annealed-map"])


def score(case: Case) -> float:
    return fmean(graded(case, found(case).readings).attackers[0].scores)


def known(case: Case) -> Defended:
    simulation = Simulation(case.client, case.exchange)
    others = digits()[0][-2:].to(simulation.dtype), digits()[1][-2:]
    return met(simulation, case.exchange, others, 60.0)


@pytest.mark.parametrize("sends", ["delta", "gradient", "weights"])
def test_a_defense_that_does_nothing_changes_no_byte(sends: str) -> None:
    case = case_of(lambda sent: sent, sends=sends)
    mine, plain = found(case), found(blind(case))
    assert mine.defense
    assert [one.error for one in mine.tried] == [one.error for one in plain.tried]
    assert all(torch.equal(one.values, other.values) for one, other in zip(mine.readings, plain.readings, strict=True))


FUNCTIONS: dict[str, tuple[Change, set[str]]] = {
    "opposite": (each(lambda one: -one), set()),
    "clipped": (clipped, set()),
    "dropped": (lambda sent: {name: one * ("3" in name) for name, one in sent.items()}, set()),
    "in place": (each(lambda one: one.mul_(2)), set()),
    "seeded": (each(lambda one: one + torch.randn(one.shape, generator=torch.Generator().manual_seed(7))), set()),
    "pruned": (largest, {"kept"}),
    "signs": (each(lambda one: 1e-3 * one.sign()), {"straight", "signs"}),
    "eight bits": (each(on_eight_bits), {"straight"}),
    "half": (each(lambda one: one.half().to(one)), {"straight"}),
    "numpy": (each(lambda one: torch.as_tensor(2 * one.detach().numpy())), {"straight"}),
    "noise": (noisy(1e-3), {"deviations", "added"}),
    "own noise": (each(lambda one: one + 1e-3 * torch.randn(one.shape, generator=OWN)), {"deviations", "added"}),
    "numpy noise": (
        each(lambda one: torch.as_tensor(one.detach().numpy() + OWNS.laplace(size=tuple(one.shape)) * 1e-3)),
        {"deviations", "added", "straight"},
    ),
    "clipped, noise": (lambda sent: noisy(1e-3)(clipped(sent)), {"deviations", "added"}),
    "noise as large": (each(lambda one: one + one.std() * torch.randn_like(one)), {"deviations", "added", "against"}),
    "scaled": (scaled, {"scale_free"}),
    "mask": (each(lambda one: nn.functional.dropout(one, 0.3)), {"passed", "kept"}),
}  # fmt: skip


@pytest.mark.parametrize(("defense", "traits"), FUNCTIONS.values(), ids=list(FUNCTIONS))
def test_experiments_find_what_a_defense_does(defense: Change, traits: set[str]) -> None:
    case = case_of(defense)
    met_with = known(case)
    every = ("straight", "signs", "kept", "passed", "added", "against", "scale_free")
    told = {name for name in every if getattr(met_with, name)}
    if not told & {"straight", "kept"}:
        told |= {"deviations"} if met_with.deviations else set()
    assert told - {"straight"} == traits - {"straight"} - ({"deviations"} if "straight" in traits else set())
    assert "straight" not in traits or "straight" in told
    # what is simulated of the truth is what was sent, but for what nobody can know
    simulation = Simulation(case.client, case.exchange, defended=met_with)
    mine = torch.cat([one.detach().flatten() for one in simulation(case.inputs.double(), case.targets, soft=0.0)])
    sent = torch.cat([one.flatten() for one in simulation.observed(case.exchange)])
    if met_with.scale_free:
        mine = mine * (sent @ mine) / (mine @ mine)
    rest = (mine - sent).square().mean().sqrt() / sent.square().mean().sqrt()
    noise = [met_with.deviations[name] ** 2 * case.exchange.sent[name].numel() for name in simulation.names
             if met_with.added]  # fmt: skip
    floor = (sum(noise) / float(sent.square().sum())) ** 0.5
    assert float(rest) < 1e-3 if not floor else float(rest) == pytest.approx(floor, rel=0.25)


@pytest.mark.parametrize("sends", ["delta", "gradient", "weights"])
def test_a_simulated_round_with_buffers_and_steps_is_the_defended_client_s(sends: str) -> None:
    steps = 1 if sends == "gradient" else 3
    shares = None if sends == "gradient" else list(normed().state_dict())
    small = each(lambda one: 0.5 * one if one.is_floating_point() else one)
    case = case_of(lambda sent: small(clipped_floats(sent)), normed, 4, sends=sends, steps=steps, shares=shares)
    simulation = Simulation(case.client, case.exchange)
    others = digits()[0][-8:].to(simulation.dtype), digits()[1][-8:]
    simulation = Simulation(case.client, case.exchange, defended=met(simulation, case.exchange, others, 60.0))
    for mine, sent in zip(
        simulation(case.inputs.double(), case.targets), simulation.observed(case.exchange), strict=True
    ):
        torch.testing.assert_close(mine, sent, rtol=1e-3, atol=1e-6)


def clipped_floats(sent: dict[str, Tensor]) -> dict[str, Tensor]:
    """Clip all together, running statistics too: what these are decides how much is left of the rest."""
    floats = {name: one for name, one in sent.items() if one.is_floating_point()}
    return {**sent, **clipped(floats)}


class Stateful:
    """Adds one more each time."""

    calls = 0

    def __call__(self, sent: dict[str, Tensor]) -> dict[str, Tensor]:
        self.calls += 1
        return {name: one + self.calls for name, one in sent.items()}


REFUSED: dict[str, tuple[Change, str]] = {
    "factors": (each(lambda one: one * torch.rand_like(one)), "more than noise, a factor or a mask"),
    "noise, signs": (lambda sent: each(torch.sign)(noisy(1e-3)(sent)), "more than noise, a factor or a mask"),
    "state": (Stateful(), "something else each time"),
    "raises": (each(lambda one: one[None][1]), "it fails on a simulated update"),
    "names": (lambda sent: {f"{name}s": one for name, one in sent.items()}, "'0.weights', which it was not given"),
    "fewer": (lambda sent: {"0.bias": sent["0.bias"]}, "no '0.weight'"),
    "shapes": (each(lambda one: one.flatten()), r"'0.weight' as \[72\]"),
    "nothing": (lambda sent: None, "a NoneType and no tensors"),
    "not finite": (each(lambda one: one / 0), "not finite"),
}  # fmt: skip


@pytest.mark.parametrize(("defense", "said"), REFUSED.values(), ids=list(REFUSED))
def test_what_is_not_simulated_is_one_line_and_searches_go_on(defense: Change, said: str) -> None:
    case = replace(case_of(None), client=Client(cnn(), defense=defense))
    with pytest.raises(UserError, match=said):
        known(case)
    done = searches(case, 20.0, evaluations=2, only=["annealed-map"])
    assert done.readings
    assert done.unknown
    assert not done.defense
    assert "do not know the defense" in done.lines()[0]


def test_a_defense_that_takes_too_long_is_not_simulated() -> None:
    def slow(sent: dict[str, Tensor]) -> dict[str, Tensor]:
        time.sleep(0.1)
        return sent

    case, others = case_of(slow), (digits()[0][-2:].double(), digits()[1][-2:])
    with pytest.raises(UserError, match="a search asks for hundreds"):
        met(Simulation(case.client, case.exchange), case.exchange, others, 1.0)


def test_draws_of_a_defense_leave_everybody_else_s_alone() -> None:
    case = case_of(FUNCTIONS["own noise"][0])
    numbers = np.random.get_state()[1].copy()  # noqa: NPY002
    before = OWN.get_state(), torch.random.get_rng_state(), numbers, random.getstate()
    known(case)
    found(replace(case, client=replace(case.client, defense=scaled)))
    assert torch.equal(OWN.get_state(), before[0])
    assert torch.equal(torch.random.get_rng_state(), before[1])
    assert (np.random.get_state()[1] == before[2]).all()  # noqa: NPY002
    assert random.getstate() == before[3]


@pytest.mark.parametrize("build", [cnn, mlp])
def test_clipping_hides_nothing_of_who_knows_it(build: Callable[[], nn.Module]) -> None:
    plain, hidden = score(case_of(None, build)), case_of(clipped, build)
    assert score(hidden) > min(plain, 60.0) - 1
    assert score(blind(hidden)) < 20


def test_what_is_pruned_is_read_better_by_who_knows_it() -> None:
    case = case_of(largest)
    assert score(case) > score(blind(case)) + 10


def test_a_mask_that_is_drawn_is_seen_by_everybody() -> None:
    case = case_of(each(lambda one: nn.functional.dropout(one, 0.7)))
    assert score(case) > score(blind(case)) + 20


def test_of_signs_who_knows_them_reads_more_and_the_error_is_that_of_true_signs() -> None:
    case = case_of(each(lambda one: one.abs().mean() * one.sign()), mlp)
    done = found(case)
    assert done.sent is not None
    assert done.sent.error(case.inputs.double(), case.targets) < 0.02
    assert score(case) > score(blind(case)) + 3


def test_who_explains_all_signs_is_not_the_only_one_to_try() -> None:
    case = case_of(each(lambda one: 1e-3 * one.sign()))
    done = searches(case, 60.0, evaluations=30)
    assert done.tried[0].error < 1e-4
    assert len(done.tried) > 1


def test_noise_costs_a_reading_and_proves_nothing_false() -> None:
    case = case_of(noisy(1e-3))
    done = found(case)
    assert done.tried[0].error == pytest.approx(done.sent.noise, rel=0.15)
    assert score(case_of(None)) > score(case) + 10
    assert score(case) > score(blind(case))
    grades = graded(case, [*proofs(case).readings, *done.readings])
    assert grades.false == 0


def test_labels_of_a_batch_are_read_through_a_defense() -> None:
    for defense in (each(lambda one: -one), clipped, each(on_eight_bits), FUNCTIONS["seeded"][0]):
        case = case_of(defense, samples=3)
        done = searches(case, 20.0, evaluations=2, only=["annealed-map"])
        assert sorted(done.targets.tolist()) == sorted(case.targets.tolist())


def test_a_simulation_that_the_truth_contradicts_says_so() -> None:
    case = case_of(None)
    done = found(case)
    assert done.unlike(case.inputs, case.targets) == ""
    assert "differs from what was sent" in done.unlike(1 - case.inputs, (case.targets + 1) % 10)


def test_generators_are_found_where_a_function_holds_them() -> None:
    own, other = torch.Generator(), np.random.default_rng(1)

    class Holder:
        def __init__(self) -> None:
            self.draws = other

        def __call__(self, sent: dict[str, Tensor]) -> dict[str, Tensor]:
            return sent

    assert generators_of(lambda sent, given=own: sent) == [own]
    assert generators_of(lambda sent: {"0": own}) == [own]
    assert generators_of(Holder()) == [other]
    assert generators_of(Holder().__call__) == [other]
    assert OWN in generators_of(lambda sent: {"0": OWN})
    assert generators_of(stream) == []
