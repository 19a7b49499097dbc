"""Laws that are learnt from rehearsals of defenses of which the law is known."""

from dataclasses import replace

import pytest
import torch

from leaklab.attacks.learnt import entries, invariants, linear
from leaklab.attacks.learnt.runs import SlicedLaw
from leaklab.records.streams import stream

IMAGES, DRAWS, SIZES = 12, 8, (3000, 500)


def rehearsed(defend):
    """Rehearsals of a defense: ``defend(gradients, draws)`` of one image's gradient and one draw."""
    gradients, sent = [], []
    for image in range(IMAGES):
        draws = stream(image, "gradient")
        own = [scale * draws.normal(size) for scale, size in zip((1.0, 0.01), SIZES, strict=True)]
        for draw in range(DRAWS):
            gradients.append(own)
            sent.append(defend(own, stream(image, "draw", draw)))
    columns = (tuple(map(torch.stack, zip(*rows, strict=True))) for rows in (gradients, sent))
    return linear.Rehearsals(*columns, draws=DRAWS)


def each(change):
    return lambda own, draws: [change(value, draws) for value in own]


def compressed(value, _):
    least = value.abs().kthvalue(int(0.9 * len(value))).values
    return torch.where(value.abs() > least, value, 0.0)


class TestLinear:
    @pytest.mark.parametrize("sigma", [0.02, 0.3])
    def test_the_deviation_of_noise_is_found(self, sigma):
        law = linear.learnt(rehearsed(each(lambda v, draws: v + sigma * draws.normal(len(v)))))
        assert (law.scope, law.fixed, law.beta) == ("none", (), (0.0, 0.0))
        assert [value**0.5 for value in law.alpha] == pytest.approx([sigma, sigma], rel=0.03)
        assert law.gains[0] == pytest.approx(1, abs=0.02)

    def test_a_factor_of_each_tensor_is_one_of_its_own(self):
        law = linear.learnt(rehearsed(each(lambda v, draws: draws.number() * v)))
        assert law.scope == "tensor"
        assert max(law.alpha) < 1e-20

    def test_a_factor_of_all_tensors_is_one(self):
        def shrunk(own, draws):
            factor = draws.number()
            return [factor * value for value in own]

        law = linear.learnt(rehearsed(shrunk))
        assert law.scope == "whole"
        assert max(law.alpha) < 1e-20

    def test_what_is_added_at_any_strength_is_found_where_it_is_shared(self):
        public = [stream(9, "public").normal(size) for size in SIZES]

        def shared(own, draws):
            share = draws.number()
            return [value + share * more for value, more in zip(own, public, strict=True)]

        law = linear.learnt(rehearsed(shared))
        found, true = torch.cat(law.fixed), torch.cat(public)
        assert abs(float(torch.nn.functional.cosine_similarity(found, true, 0))) > 0.99

    def test_noise_that_grows_with_the_entry_is_told_from_noise(self):
        law = linear.learnt(rehearsed(each(lambda v, draws: v * (1 + 0.5 * draws.normal(len(v))))))
        assert law.beta == pytest.approx((0.25, 0.25), rel=0.15)

    def test_profiled_factors_are_those_of_least_squares(self):
        draws = stream(0, "profile")
        scaled = [draws.normal(2, size) for size in (30, 20)]
        fixed = [draws.normal(size) for size in (30, 20)]
        sent = [draws.normal(2, size) for size in (30, 20)]
        weights = [1.0, 3.0]
        for scope in ("whole", "tensor"):
            factors, share = linear.profiled(scaled, sent, fixed, scope, weights)
            for row in range(2):
                roots = [weight**0.5 for weight in weights]
                columns = [root * g[row] for root, g in zip(roots, scaled, strict=True)]
                zeros = [torch.zeros_like(value) for value in columns]
                own = (
                    [torch.cat(columns)]
                    if scope == "whole"
                    else [torch.cat([columns[0], zeros[1]]), torch.cat([zeros[0], columns[1]])]
                )
                own.append(torch.cat([root * u for root, u in zip(roots, fixed, strict=True)]))
                wanted = torch.cat([root * o[row] for root, o in zip(roots, sent, strict=True)])
                best = torch.linalg.lstsq(torch.stack(own, 1), wanted[:, None]).solution[:, 0]
                found = [factors[0][row]] if scope == "whole" else [factor[row] for factor in factors]
                torch.testing.assert_close(torch.stack([*found, share[row]]), best)


class TestEntries:
    def test_a_threshold_is_found_in_the_unit_of_which_it_is_a_share(self):
        law = entries.learnt(rehearsed(each(compressed))).tensors[0]
        places = entries._edges()
        live = law.shares[entries.KEPT] > 0.5
        # nine of ten entries of a normal law lie below 1.645 deviations, half of them below 0.674
        unit = {"fixed": 1.0, "rms": 1.0, "0.5": 0.674, "0.8": 1.282, "0.9": 1.645}[law.unit]
        assert float(places[live].min()) == pytest.approx(1.645 / unit, rel=0.1)
        assert float(law.shares[entries.ZERO][places < 0.5 * places[live].min()].min()) > 0.99

    def test_shares_of_a_mixture_are_those_of_its_draws(self):
        def mixed(value, draws):
            kind = draws.uniform(len(value))
            noisy = torch.where(
                kind < 0.75, value + 0.3 * value.pow(2).mean().sqrt() * draws.normal(len(value)), -value
            )
            return torch.where(kind < 0.5, value, torch.where(kind < 0.6, torch.zeros_like(value), noisy))

        law = entries.learnt(rehearsed(each(mixed))).tensors[0]
        middle = int(entries._cell(torch.tensor(1.0)))
        expected = {entries.KEPT: 0.5, entries.ZERO: 0.1, entries.NOISY: 0.15, entries.TURNED: 0.25}
        for kind, share in expected.items():
            assert float(law.shares[kind, middle]) == pytest.approx(share, abs=0.05)
        assert law.noise == pytest.approx(0.3, rel=0.1)

    @pytest.mark.parametrize("error", [0.3, 0.01])
    @pytest.mark.parametrize("defend", [compressed, lambda v, draws: v * (draws.uniform(len(v)) < 0.5).to(v)])
    def test_the_gradient_itself_is_the_likeliest_and_slopes_are_those_of_differences(self, defend, error):
        rehearsals = rehearsed(each(defend))
        law = entries.learnt(rehearsals)
        distance = law.widened(error, {})
        gradients = [value[:1] for value in rehearsals.gradients]
        sent = [value[:1] for value in rehearsals.sent]
        value, slopes, factor = distance(gradients, sent)
        for seed in range(3):
            other = [g + 0.3 * g.pow(2).mean().sqrt() * stream(seed, "off").normal(*g.shape) for g in gradients]
            assert float(distance(other, sent)[0]) > float(value)
        step = [1e-6 * stream(5, "step").normal(*g.shape) * g.pow(2).mean().sqrt() for g in gradients]
        up, down = ([g + sign * s for g, s in zip(gradients, step, strict=True)] for sign in (1, -1))
        # the unit is a constant of the derivative, and moves a little with the gradient
        expected = float(distance(up, sent)[0] - distance(down, sent)[0])
        found = 2 * sum(float((factor * slope * s).sum()) for slope, s in zip(slopes, step, strict=True))
        assert found == pytest.approx(expected, rel=0.2, abs=1e-3)


@pytest.mark.parametrize("kind", ["linear", "fixed", "entries", "invariants", "runs"])
def test_a_law_leaves_nothing_on_the_processor(lazy, kind):
    """On a device that refuses tensors of others; what was learnt is moved there, as an observation is."""
    rehearsals = rehearsed(each(compressed if kind == "entries" else lambda v, draws: 2 * v))
    gradient, sent = ([value[:2] for value in part] for part in (rehearsals.gradients, rehearsals.sent))
    learnt = {
        "linear": linear.learnt(rehearsals),
        "fixed": replace(linear.learnt(rehearsals), scope="whole", fixed=tuple(value[0] for value in gradient)),
        "entries": entries.learnt(rehearsals),
        "invariants": invariants.learnt(rehearsals, [value.shape[1:] for value in gradient]),
        "runs": SlicedLaw(0.4, 0.1),
    }[kind]
    there = learnt
    if kind == "fixed":
        there = replace(learnt, fixed=tuple(value.to(lazy) for value in learnt.fixed))
    if kind == "entries":
        there = replace(learnt, tensors=tuple(replace(one, shares=one.shares.to(lazy)) for one in learnt.tensors))
    wanted = learnt.widened(0.1, {})(gradient, sent)[0]
    moved = [[value.to(lazy) for value in part] for part in (gradient, sent)]
    found = there.widened(0.1, {})(*moved)[0].to("cpu")
    assert torch.allclose(found, wanted, rtol=1e-9, atol=0)
