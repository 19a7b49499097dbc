"""OUTPOST against a plain version, entry by entry; its schedule, shares and noise (F13); the public code's no-op."""

from dataclasses import dataclass, replace
from functools import partial
from math import ceil, floor, sqrt

import pytest
import torch
from scipy import stats

from leaklab.defenses.base import Alone, ClientContext, NoDefense
from leaklab.defenses.outpost import Outpost
from leaklab.federated.batches import Batch
from leaklab.federated.forms.network import trainable
from leaklab.federated.local import local_training
from leaklab.models.cnns import DLGLeNet
from leaklab.records import plugins
from leaklab.records.errors import UserError
from leaklab.records.streams import stream

SHAPES = {"conv1.weight": (12, 3, 5, 5), "conv1.bias": (12,), "fc.weight": (10, 40), "fc.bias": (10,)}


@pytest.fixture
def gradient():
    draws = stream(4, "gradient")
    return {name: draws.normal(*shape) for name, shape in SHAPES.items()}


@pytest.fixture
def weights():
    draws = stream(5, "weights")
    scales = [0.3, 0.1, 2.0, 0.5]
    return {name: scale * draws.normal(*shape) for scale, (name, shape) in zip(scales, SHAPES.items(), strict=True)}


def fresh(context, **change):
    return replace(context, _streams={}, **change)


def defended(defense, gradient, weights, context, step=0):
    return defense.gradient(gradient, fresh(context).at(Alone(step, weights)))


def slow(gradient, weights, pruned, noised, noise):
    """Perturb tensor by tensor and entry by entry; ``noise`` gives each tensor's draws, largest Fisher entry first."""
    result = {}
    for name, value in gradient.items():
        entries, own = value.flatten().tolist(), weights[name].flatten().tolist()
        mean = sum(own) / len(own)
        risk = min(1.0, sum((one - mean) ** 2 for one in own) / len(own))
        order = sorted(range(len(entries)), key=lambda place: -(entries[place] ** 2))
        kept = order[: len(entries) - floor(pruned * len(entries) + 1e-6)]
        chosen = order[: len(entries) - floor((1 - noised) * len(entries) + 1e-6)]
        out = [entry if place in kept else 0.0 for place, entry in enumerate(entries)]
        for place, drawn in zip(chosen, noise(name, len(chosen)), strict=True):
            out[place] += 0.8 * risk * drawn
        result[name] = torch.tensor(out, dtype=torch.float64).reshape(value.shape)
    return result


@pytest.mark.parametrize(("pruned", "noised"), [(0.8, 0.4), (0.5, 0.7), (0.29, 0.1)])
def test_a_perturbed_step_equals_the_plain_version(gradient, weights, context, pruned, noised):
    draws = fresh(context)
    expected = slow(gradient, weights, pruned, noised, lambda name, n: draws.stream(f"noise of {name}").normal(n))
    found = defended(Outpost(pruned=pruned, noised=noised), gradient, weights, context)
    assert list(found) == list(gradient)
    for name, value in expected.items():
        torch.testing.assert_close(found[name], value, rtol=1e-12, atol=1e-14)


def test_the_noise_covers_what_pruning_keeps_and_as_many_zeroed_entries(gradient, weights, context):
    """With the paper's shares: 20 % of the entries survive, 40 % are noised, the survivors among them."""
    kept = defended(Outpost(parts="prune"), gradient, weights, context)
    noised = defended(Outpost(parts="noise"), gradient, weights, context)
    both = defended(Outpost(), gradient, weights, context)
    for name, value in gradient.items():
        survivors, changed = kept[name] != 0, noised[name] != value
        assert int(survivors.sum()) == ceil(0.2 * value.numel())
        assert int(changed.sum()) == ceil(0.4 * value.numel() - 1e-6)
        assert bool(changed[survivors].all())
        assert torch.equal(kept[name][survivors], value[survivors])
        torch.testing.assert_close(both[name], kept[name] + (noised[name] - value))


@pytest.mark.parametrize(("init", "expected"), [("wide", 1 / 12), ("pytorch", 1 / (3 * 75))])
def test_the_noise_has_the_strength_of_the_weights_variance(context, init, expected):
    weights = dict(DLGLeNet(initialisation=init).initialised((3, 32, 32), 10, 0, torch.float64).named_parameters())
    own = {"conv1.weight": weights["conv1.weight"].detach()}
    zero = {"conv1.weight": torch.ones_like(own["conv1.weight"])}
    client, defense = fresh(context), Outpost(parts="noise", decay=0.0)
    steps = [defense.gradient(zero, client.at(Alone(step, own)))["conv1.weight"] - 1 for step in range(60)]
    drawn = torch.stack([step[step != 0] for step in steps])
    assert float(drawn.std()) == pytest.approx(0.8 * expected, rel=0.05)
    assert float(drawn.std()) == pytest.approx(0.8 * float(own["conv1.weight"].var(correction=0)), rel=0.01)


def test_the_risk_is_cut_at_one(gradient, weights, context):
    """The weights of ``fc.weight`` have a variance near 4: their noise is that of variance 1."""
    wide = {**weights, "fc.weight": 10 * weights["fc.weight"]}
    first, second = (defended(Outpost(), gradient, own, context) for own in (weights, wide))
    assert float(weights["fc.weight"].var()) > 1
    assert torch.equal(first["fc.weight"], second["fc.weight"])


def test_each_step_looks_at_its_own_weights(gradient, weights, context):
    later = {name: 0.5 * value for name, value in weights.items()}
    assert not torch.equal(
        defended(Outpost(), gradient, weights, context)["conv1.weight"],
        defended(Outpost(), gradient, later, context)["conv1.weight"],
    )


def perturbed_steps(defense, context, steps):
    """Return which steps of a round change a gradient."""
    one, own = {"w": torch.arange(1.0, 11.0)}, {"w": torch.linspace(-1, 1, 10)}
    client = fresh(context)
    return [not torch.equal(defense.gradient(one, client.at(Alone(step, own)))["w"], one["w"]) for step in range(steps)]


@pytest.mark.parametrize(("steps", "share"), [(80, 0.27), (180, 0.16)])
def test_f13_the_expected_share_of_steps_is_perturbed_and_always_the_first(context, steps, share):
    """Step i = 1, 2, ... with probability 1 / (1 + 0.1 i), the first one always; shares as the paper's rounds have."""
    chances = [1.0] + [1 / (1 + 0.1 * i) for i in range(2, steps + 1)]
    assert sum(chances) / steps == pytest.approx(share, abs=0.005)
    rounds = torch.tensor([perturbed_steps(Outpost(), fresh(context, round=r), steps) for r in range(200)]).double()
    error = 4 * sqrt(sum(p * (1 - p) for p in chances) / steps**2 / len(rounds))
    assert float(rounds.mean()) == pytest.approx(sum(chances) / steps, abs=error)
    assert bool((rounds[:, 0] == 1).all())
    early, late = rounds[:, 1:11].mean(), rounds[:, -40:].mean()
    assert float(early) == pytest.approx(sum(chances[1:11]) / 10, abs=0.05)
    assert float(late) == pytest.approx(sum(chances[-40:]) / 40, abs=0.05)


def test_f13_step_i_counts_from_one_and_each_has_its_own_chance(context):
    """A count from 0 would perturb the second step in half of the rounds, not in a third."""
    defense, rounds, steps = Outpost(decay=1.0), 1500, 8
    perturbed = torch.tensor([perturbed_steps(defense, fresh(context, round=r), steps) for r in range(rounds)])
    for step, count in enumerate(perturbed.sum(0).tolist()):
        chance = 1.0 if step == 0 else 1 / (1 + (step + 1))
        low, high = stats.binom.interval(1 - 1e-6, rounds, chance)
        assert low <= count <= high, step


def test_a_step_that_is_not_perturbed_leaves_the_gradient_as_it_is(gradient, weights, context):
    client, defense = fresh(context), Outpost(decay=1e5)
    first, second = (defense.gradient(gradient, client.at(Alone(step, weights))) for step in range(2))
    assert not torch.equal(first["fc.weight"], gradient["fc.weight"])
    assert all(torch.equal(second[name], value) for name, value in gradient.items())


def test_f13_noise_is_fresh_in_each_step_and_belongs_to_its_client(gradient, weights, context):
    client, defense = fresh(context), Outpost(decay=0.0)
    state = torch.get_rng_state()
    steps = [defense.gradient(gradient, client.at(Alone(step, weights)))["fc.weight"] for step in range(2)]
    others = [
        defended(defense, gradient, weights, fresh(context, **{key: 9}))["fc.weight"] for key in ("seed", "round")
    ]
    again = defended(defense, gradient, weights, context)["fc.weight"]
    found = [*steps, *others]
    assert all(not torch.equal(found[i], found[j]) for i in range(4) for j in range(i))
    assert torch.equal(again, steps[0])
    assert torch.equal(state, torch.get_rng_state())


def test_entries_as_large_as_each_other_do_not_widen_the_noise(weights, context):
    """Most entries of a gradient through dead units are zero: a threshold would take all of them."""
    sparse = {"fc.weight": torch.zeros(10, 40, dtype=torch.float64)}
    sparse["fc.weight"][0, :5] = torch.arange(1.0, 6.0, dtype=torch.float64)
    found = defended(Outpost(), sparse, weights, context)["fc.weight"]
    assert int((found != 0).sum()) == 160
    assert bool((found[0, :5] != sparse["fc.weight"][0, :5]).all())


def test_as_coded_one_threshold_over_all_layers_decides(gradient, weights, context):
    """Scores are squares averaged over the first axis; tensors with large gradients get all the noise."""
    uneven = {**gradient, "fc.weight": 1e-3 * gradient["fc.weight"], "fc.bias": 1e-3 * gradient["fc.bias"]}
    scores = {name: value.square().mean(0) for name, value in uneven.items()}
    every = sorted(torch.cat([score.flatten() for score in scores.values()]).tolist())
    threshold = every[floor(0.6 * len(every) + 1e-6)]
    found = defended(Outpost(as_coded=True, decay=0.0, parts="noise"), uneven, weights, context)
    for name, value in uneven.items():
        expected = (scores[name] >= threshold).expand_as(value)
        assert torch.equal(found[name] != value, expected), name
    assert torch.equal(found["fc.weight"], uneven["fc.weight"])


def test_as_coded_the_counter_is_epoch_times_batch(context):
    """Epochs count from 1, batches from 1 in each; no step is sure to be perturbed."""
    defense = Outpost(as_coded=True, epoch_steps=4, decay=0.125)
    rounds = torch.tensor([perturbed_steps(defense, fresh(context, round=r), 12) for r in range(1500)]).double()
    counters = [1, 2, 3, 4, 2, 4, 6, 8, 3, 6, 9, 12]
    expected = torch.tensor([1 / (1 + 0.125 * i) for i in counters], dtype=torch.float64)
    torch.testing.assert_close(rounds.mean(0), expected, rtol=0, atol=0.05)
    assert float(rounds[:, 0].mean()) < 1


@dataclass(frozen=True)
class NeverWrittenBack(Outpost):
    """The public code's later form: the perturbed tensor is a new name, and the old ones are returned."""

    def gradient(self, gradients, context):
        for value in super().gradient(gradients, context).values():
            gradient = value.clone()  # noqa: F841 - the fault itself
        return gradients


SHAPE, CLASSES, CLIENTS = (1, 8, 8), 5, 7


def trained(defense, chunk, steps=3):
    """Return the weights of seven clients after their local steps, ``chunk`` of them trained together."""
    model = DLGLeNet(n_conv=3)
    network = model.initialised(SHAPE, CLASSES, 1, torch.float64)
    draws = stream(0, "samples")
    images, labels = draws.normal(CLIENTS, 2, *SHAPE), draws.integers(0, CLASSES, CLIENTS, 2)
    found = []
    for first in range(0, CLIENTS, chunk):
        who = range(first, min(first + chunk, CLIENTS))
        state = {name: value.detach().expand(len(who), *value.shape) for name, value in network.state_dict().items()}
        batch = Batch(images[who.start : who.stop], labels[who.start : who.stop], {})
        contexts = [ClientContext(0.5, seed=0, client=client) for client in who]
        found.append(
            local_training(
                trainable(model.build(SHAPE, CLASSES).double(), SHAPE), state, [batch] * steps, contexts, defense,
                build=partial(model.build, SHAPE, CLASSES),
            ).weights
        )  # fmt: skip
    return {name: torch.cat([one[name] for one in found]) for name in found[0]}


def test_lifted_clients_are_what_each_is_alone():
    alone, together = (trained(Outpost(), chunk) for chunk in (1, CLIENTS))
    for name, value in alone.items():
        torch.testing.assert_close(together[name], value, rtol=1e-12, atol=1e-13)


def test_the_public_no_op_is_seen():
    """What guards all defenses (what is sent differs from what is sent without) fails on a result that is lost."""
    plain, lost, kept = (trained(defense, CLIENTS) for defense in (NoDefense(), NeverWrittenBack(), Outpost()))
    assert all(torch.equal(lost[name], value) for name, value in plain.items())
    assert all(not torch.equal(kept[name], value) for name, value in plain.items())


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"pruned": 0.0}, "pruned"),
        ({"pruned": 1.2}, "pruned"),
        ({"noised": 0.0}, "noised"),
        ({"noised": 40}, "noised"),
        ({"noise_scale": float("inf")}, "noise_scale"),
        ({"noise_scale": float("nan")}, "noise_scale"),
        ({"decay": -0.1}, "decay"),
        ({"parts": "neither"}, "parts"),
        ({"epoch_steps": -1}, "epoch_steps"),
    ],
)
def test_settings_out_of_range_are_refused_while_planning(settings, message):
    with pytest.raises(UserError, match=f"'outpost': {message}"):
        plugins.check("defenses", "outpost", settings)


@pytest.mark.parametrize("settings", [{"pruned": 80}, {"noised": 0.0}, {"noise_scale": 0.0}, {"decay": -1.0}])
def test_and_without_a_plan_too(settings):
    with pytest.raises(UserError, match="defense outpost: "):
        Outpost(**settings)
