"""Planted mistakes and right descriptions: the replay names what was planted, and nothing else."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from leaklab.probing.case import Case
from leaklab.probing.client import Client
from leaklab.probing.grids import rounded
from leaklab.probing.replay.bench import Bench
from leaklab.probing.replay.mistake import Mistake, Setting, numbered, tuned
from leaklab.probing.replay.replay import replay
from leaklab.probing.replay.result import Replay
from leaklab.probing.replay.search import equals, with_parts
from leaklab.probing.replay.target import Target
from leaklab.records.errors import UserError

LABELS = torch.tensor([3, 1, 4, 1, 5, 2])


def mlp(**settings) -> tuple[Client, Tensor, Tensor]:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Flatten(), nn.Linear(48, 12), nn.ReLU(), nn.Linear(12, 6))
    return Client(model, **settings), torch.rand(6, 3, 4, 4), LABELS


def cnn(**settings) -> tuple[Client, Tensor, Tensor]:
    torch.manual_seed(1)
    layers = [nn.Conv2d(3, 6, 3), nn.BatchNorm2d(6), nn.ReLU(), nn.Dropout(0.2), nn.Flatten()]
    return Client(nn.Sequential(*layers, nn.Linear(96, 6)), **settings), torch.rand(6, 3, 6, 6), LABELS


def case(client: Client, truth: Client, inputs: Tensor, targets: Tensor, *used: Tensor) -> Case:
    """Return the description's case with what another client sent of the same or other samples."""
    sent = truth.round(*(used or (inputs, targets))).sent
    return Case(client, replace(client.round(inputs, targets), sent=sent), inputs, targets)


def each(change: Callable[[Tensor], Tensor]) -> Callable[[Mapping[str, Tensor]], dict[str, Tensor]]:
    return lambda sent: {name: change(value) for name, value in sent.items()}


@dataclass(frozen=True)
class Planted:
    make: Callable[..., tuple[Client, Tensor, Tensor]]
    steps: int
    names: tuple[str, ...]
    changes: dict
    number: float | None = None
    inputs: Callable[[Tensor], Tensor] = lambda x: x


def noisy(value: Tensor) -> Tensor:
    return value + 1e-3 * torch.randn(value.shape, generator=torch.Generator().manual_seed(value.numel()))


SMOOTH = {"loss": partial(F.cross_entropy, label_smoothing=0.07)}
DECAY = {"optimizer": lambda these: torch.optim.SGD(these, lr=0.1, weight_decay=0.003)}
PLANTED = {
    "rate, one step": Planted(mlp, 1, ("factor",), {"rate": 0.03}, 0.3),
    "rate, three steps": Planted(mlp, 3, ("rate",), {"rate": 0.03}, 0.03),
    "smoothing": Planted(cnn, 1, ("label smoothing",), SMOOTH, 0.07),
    "decay": Planted(mlp, 1, ("decay",), DECAY, 0.003),
    "clipping": Planted(mlp, 3, ("clip",), {"clip": 0.3}, 0.3),
    "Adam": Planted(mlp, 3, ("Adam",), {"optimizer": lambda these: torch.optim.Adam(these, lr=0.002)}, 0.002),
    "eval mode": Planted(cnn, 1, ("mode",), {"mode": "eval"}),
    "seed": Planted(cnn, 1, ("seed",), {"seed": 9}),
    "BGR": Planted(cnn, 1, ("channels",), {}, None, lambda x: x.flip(1)),
    "noise": Planted(mlp, 1, ("noise",), {"defense": each(noisy)}, 1e-3),
    "bfloat16": Planted(cnn, 1, ("rounding",), {"defense": each(lambda value: value.bfloat16().float())}),
    "weights sent": Planted(mlp, 1, ("sends",), {"sends": "weights"}),
    "smoothing, mirrored": Planted(mlp, 1, ("label smoothing", "mirror"), SMOOTH, 0.07, lambda x: x.flip(-1)),
    "three steps, decay": Planted(mlp, 1, ("steps", "decay"), DECAY | {"steps": 3}, 0.003),
}


@pytest.mark.parametrize("planted", PLANTED.values(), ids=list(PLANTED))
def test_a_planted_mistake_is_named_with_its_number(planted):
    client, inputs, targets = planted.make(steps=planted.steps)
    used = planted.inputs(inputs)
    found = replay(case(client, replace(client, **planted.changes), inputs, targets, used, targets))
    assert not found.matches
    named = [one for one in found.explanations if set(one.names) == set(planted.names)]
    assert len(named) == 1, found.lines()
    if planted.number is not None:
        close = 0.05 if "noise" in planted.names else 1e-3
        assert any(number == pytest.approx(planted.number, rel=close) for number in named[0].numbers)
    assert found.seconds < 10
    json.dumps(found.record())
    if "noise" not in planted.names:
        assert found.corrected is not None
        assert replay(found.corrected).matches


def test_a_sample_in_place_of_another_is_named_though_weights_of_classes_do_the_same():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Flatten(), nn.Linear(48, 12), nn.Tanh(), nn.Linear(12, 6))
    client, inputs, targets = Client(model), torch.rand(6, 3, 4, 4), torch.arange(6)
    rows = torch.tensor([0, 1, 2, 5, 4, 5])  # each class has one sample: 3 counts nothing, and 5 twice
    found = replay(case(client, client, inputs, targets, inputs[rows], targets[rows]))
    assert found.explanations[0].says == "sample 5 in place of sample 3"


def test_entries_that_a_grid_rounds_to_zero_are_not_told_as_set_to_zero():
    client, inputs, targets = mlp()
    sent = each(lambda value: rounded(value, "int8"))
    found = replay(case(client, replace(client, defense=sent), inputs**8, targets))
    assert [one.names for one in found.explanations] == [("rounding",)]


def test_a_factor_in_one_step_is_told_with_all_its_names():
    client, inputs, targets = mlp()
    found = replay(case(client, replace(client, rate=0.05), inputs, targets))
    (line,) = [line for line in found.lines() if line.startswith("Explained by")]
    assert "a factor of 0.5, which is also a learning rate of 0.05 or a loss times 0.5 or clipping" in line
    assert "this round cannot tell which" in line


def test_right_descriptions_have_no_explanation():
    for make in (mlp, cnn):
        for settings in (
            {"sends": "gradient"},
            {"steps": 3, "batch_size": 4, "optimizer": lambda these: torch.optim.Adam(these, lr=1e-3)},
            {"sends": "weights", "clip": 0.1, "precision": torch.bfloat16},
            {"defense": each(lambda value: value.half().float()), **SMOOTH},
        ):
            client, inputs, targets = make(**settings)
            found = replay(case(client, client, inputs, targets))
            assert found.matches, found.lines()
            assert found.explanations == ()
            assert found.client is client
            assert found.lines()[0].startswith("The description is right")


def test_a_right_description_on_another_machine_differs_by_rounding_only():
    client, inputs, targets = mlp(steps=3, rate=1e-3)
    fine = replace(client, model=mlp()[0].model.double())
    sent = {name: value.float() for name, value in fine.round(inputs.double(), targets).sent.items()}
    here = Case(client, replace(client.round(inputs, targets), sent=sent), inputs, targets)
    found = replay(here)
    assert 0 < found.error < found.tolerance
    assert found.matches


def test_weights_of_another_round_are_named_only_where_they_are_given():
    client, inputs, targets = mlp()
    other = replace(client, steps=4, rate=0.5, sends="weights").round(inputs.flip(0) / 2, targets).sent
    model = mlp()[0].model
    model.load_state_dict(other)
    here = case(client, replace(client, model=model), inputs, targets)
    named = replay(here, {"round 3": other})
    assert [one.says for one in named.explanations] == ["the weights of round 3"]
    assert torch.equal(named.corrected.exchange.before["1.weight"], other["1.weight"])
    alone = replay(here, budget=1.0)
    assert alone.explanations == ()
    assert "1.weight lies in the span of the given samples: they are the client's" in " ".join(alone.notes)


def test_other_samples_are_not_explained_and_told_by_the_span():
    client, inputs, targets = mlp()
    here = case(client, client, inputs, targets, torch.rand(inputs.shape), targets)
    found = replay(here, budget=1.0)
    assert found.explanations == ()
    assert found.corrected is None
    assert "rate" not in found.excluded
    assert {"factor", "mirror", "decay", "Adam"} <= set(found.excluded)
    assert "lies outside the span of the given samples" in " ".join(found.lines())


def test_a_fit_finds_the_number_that_least_squares_allow():
    client, inputs, targets = mlp(steps=3)
    target = Target.of(replace(client, rate=0.03).round(inputs, targets), ("1.weight", "3.bias"))
    bench = Bench(Setting(client, inputs, targets), target, float("inf"))
    rate = numbered("rate", "rate {:.4g}", lambda one, value: tuned(one, lr=value), (0.1,))
    fit = bench.refined(bench.fit(((rate, (0.1,)),)))
    assert fit.hypothesis[0][1][0] == pytest.approx(0.03, rel=1e-4)
    assert fit.error < 1e-5


@pytest.mark.parametrize("idle", [("factor", 1.0), ("decay", 1e-9)])
@pytest.mark.parametrize("seconds", [float("inf"), 0.0])
def test_a_mistake_that_changes_nothing_is_none_though_the_time_was_over(idle, seconds):
    client, inputs, targets = mlp(steps=3)
    target = Target.of(replace(client, rate=0.03).round(inputs, targets), ("1.weight", "3.bias"))
    bench = Bench(Setting(client, inputs, targets), target, seconds)
    rate = numbered("rate", "rate {:.4g}", lambda one, value: tuned(one, lr=value), (0.1,))
    nothing = {
        "factor": Mistake("factor", "a factor of {:.4g}", sends=lambda flat, numbers: flat * numbers[0]),
        "decay": numbered("decay", "decay {:.4g}", lambda one, value: tuned(one, weight_decay=value), (0.0,)),
    }[idle[0]]
    pair = bench.fit(((nothing, (idle[1],)), (rate, (0.03,))))
    assert pair.error < 1e-5
    assert [len(fit.hypothesis) for fit in equals([pair], 1e-4, 1e-6)] == [2]
    (fit,) = equals(with_parts(bench, [pair], 1e-4, 1e-7), 1e-4, 1e-6)
    assert [mistake.name for mistake, _ in fit.hypothesis] == ["rate"]


def test_pruning_and_frozen_tensors_are_told_by_their_zeros():
    client, inputs, targets = mlp()
    pruned = each(lambda value: torch.where(value.abs() >= value.abs().quantile(0.7), value, 0.0))
    found = replay(case(client, replace(client, defense=pruned), inputs, targets))
    assert [one.names for one in found.explanations] == [("pruned",)]
    assert "the smallest of each tensor" in found.lines()[1]
    assert replay(found.corrected).matches
    frozen = mlp()[0]
    frozen.model[1].requires_grad_(False)
    sent = {**client.round(inputs, targets).sent, **frozen.round(inputs, targets).sent}
    sent |= {name: torch.zeros_like(sent[name]) for name in ("1.weight", "1.bias")}
    found = replay(Case(client, replace(client.round(inputs, targets), sent=sent), inputs, targets))
    assert [one.says for one in found.explanations] == ["1.weight, 1.bias frozen"]
    assert not found.client.model[1].weight.requires_grad


def test_noise_that_is_described_is_told_from_other_samples_until_it_hides_them():
    for size, right, hidden in ((0.003, True, False), (10.0, True, True), (0.003, False, False)):
        client, inputs, targets = mlp(defense=each(lambda value, size=size: value + size * torch.randn_like(value)))
        used = inputs if right else 1 - inputs
        found = replay(case(client, client, inputs, targets, used, targets))
        assert (found.matches, found.hidden) == (right, hidden)
        assert found.drawn == right
        assert found.client is client or not right
        assert not right or found.lines()[0].endswith("is what its defense draws.")

    def scaled(sent):
        factor = 0.5 + torch.rand(())
        return {name: factor * value for name, value in sent.items()}

    client, inputs, targets = mlp(defense=scaled)
    assert replay(case(client, client, inputs, targets)).matches


def test_noise_with_a_factor_goes_into_the_corrected_case():
    client, inputs, targets = mlp(steps=3)
    blurred = each(lambda value: 0.5 * value + 1e-3 * torch.randn_like(value))
    found = replay(case(client, replace(client, defense=blurred), inputs, targets))
    assert set(found.explanations[0].names) == {"factor", "noise"}
    assert found.corrected.noise == pytest.approx(1e-3, rel=0.05)
    plain, halved = (one.round(inputs, targets).sent["1.weight"] for one in (client, found.corrected.client))
    torch.testing.assert_close(halved, 0.5 * plain, rtol=0.05, atol=1e-7)


def test_what_cannot_be_replayed_is_one_line():
    client, inputs, targets = mlp()
    exchange = client.round(inputs, targets)
    with pytest.raises(UserError, match="needs the client's samples"):
        replay(Case(client, exchange))
    with pytest.raises(UserError, match="every tensor that was sent is zero"):
        replay(Case(client, replace(exchange, sent=each(torch.zeros_like)(exchange.sent)), inputs, targets))


def test_the_lines_of_what_is_not_explained_say_what_was_excluded():
    found = Replay(False, 0.5, 0.8, 0.9, 1e-4, (), excluded=("rate", "mode"), pairs=(3, 10))
    assert "neither of 2 mistakes alone and 3 of 10 pairs" in found.lines()[1]
    assert "Excluded: rate, mode." in found.lines()[1]


@pytest.mark.parametrize("steps", [1, 3])
def test_what_rounding_alone_moves_is_not_called_frozen(steps: int) -> None:
    """The bias in front of a normalisation by the batch has no gradient but rounding."""
    torch.manual_seed(2)
    layers = [nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Linear(64, 6)]
    client, inputs = Client(nn.Sequential(*layers), rate=0.1, steps=steps), torch.rand(6, 3, 6, 6)
    found = replay(case(client, replace(client, rate=0.03), inputs, LABELS))
    assert found.explanations
    assert not any("frozen" in explanation.names for explanation in found.explanations)
