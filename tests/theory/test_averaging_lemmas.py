"""The proof's steps: they hold as assumed, come near their limit, and break where an assumption does."""

import pytest
import torch

from leaklab.records.errors import UserError
from leaklab.theory.averaging_lemmas import AveragingLemmas
from leaklab.theory.progress import exact_descents

torch.set_num_threads(1)
SMALL = {"clients": 5, "participants": 3, "local_steps": 3, "problems": 9, "steps": 200, "points": 200}


def plain(items, total, label):
    return items


def numbers(**changes):
    return list(AveragingLemmas(**{**SMALL, **changes}).run(0, None, plain))


@pytest.fixture(scope="module")
def found():
    return numbers()


def of(found, metric="left_over_right", **keys):
    return {
        (one.row["statement"], one.row["case"]): one.value
        for one in found
        if one.metric == metric and keys.items() <= one.row.items()
    }


def test_every_statement_is_asked_as_assumed_and_where_an_assumption_fails(found):
    assumed, violated = of(found, kind="assumed"), of(found, kind="violated")
    assert {name for name, _ in assumed} == {"lemma-1", "lemma-3", "step-17", "step-18", "induction", "theorem"}
    assert {name for name, _ in violated} == {"lemma-1", "lemma-3", "step-17", "induction"}
    assert all(0 < value <= 1 + 1e-12 for value in assumed.values())
    assert all(value > 1.2 for value in violated.values())


def test_lemma_1_is_nearly_attained_and_breaks_by_its_closed_forms(found):
    """At a rate of 2 / L with kappa = 10: 1 / 0.8; with mu said to be ten times what it is: 0.975^2 / 0.75."""
    assumed, violated = of(found, kind="assumed"), of(found, kind="violated")
    assert 0.8 < assumed["lemma-1", "worst-points"] < 1 - 0.1 / 4
    assert 0.97 < assumed["lemma-1", "softmax"] < 1
    assert violated["lemma-1", "rate-too-large"] == pytest.approx(1.25, rel=1e-9)
    assert violated["lemma-1", "too-flat"] == pytest.approx(0.975**2 / 0.75, rel=1e-9)


def test_lemma_3_reaches_a_third_of_its_bound_and_all_of_the_tighter_one(found):
    """N opposed clients, one step apart at twice the rate: 4 (1 + (1 - 1/N) / 3) eta^2 G^2; at four times 16 of it."""
    spread = 1 + (1 - 1 / 50) / 3
    tightest = ("lemma-3", "opposed-clients")
    assert of(found, kind="assumed")[tightest] == pytest.approx(4 * spread / 16, rel=1e-3)
    assert of(found, "left_over_tighter", kind="assumed")[tightest] == pytest.approx(spread * 3 / 4, rel=1e-3)
    assert of(found, kind="violated")["lemma-3", "rates-quartered"] == pytest.approx(spread, rel=1e-3)


def test_eq_17_is_attained_by_noise_alone_and_breaks_with_another_law(found):
    """Exponential rates have second moment 2, not 4 / 3."""
    assert of(found, kind="assumed")["step-17", "noise-alone"] == pytest.approx(1, rel=1e-9)
    assert of(found, kind="violated")["step-17", "exponential-rates"] == pytest.approx(1.5, rel=1e-9)


def test_misprints_by_their_closed_forms(found):
    """A loud client of share 0.91 among ten; one of ten drawn with C eta^2 nearly zero; eq. (7) before any step."""
    misprints = of(found, kind="misprint")
    assert misprints["step-17", "root-of-nu"] == pytest.approx(0.91 * (4 / 3) / (0.1 + 1 / 3), rel=1e-9)
    # eta_1 = 2 / (7 + 1) with kappa = 1
    loud, sampled = 4 / 3, (4 / 3) / 10 + 16 / 16
    assert misprints["step-18", "c-with-rate"] == pytest.approx(loud / sampled, rel=1e-9)
    assert misprints["theorem", "equation-7"] == pytest.approx(9 / (8 + 4 / 30), rel=1e-9)
    assert of(found, kind="assumed")["theorem", "before-any-step"] == pytest.approx(1 / (1 + 1 / 60), rel=1e-9)


def test_courses_are_those_of_the_largest_ratios(found):
    """Of the drawn problems and of the induction the ratio is told step by step; its largest is at most the whole's."""
    whole = of(found)
    steps = {}
    for one in found:
        if one.metric == "ratio":
            steps.setdefault((one.row["statement"], one.row["case"]), {})[one.row["t"]] = one.value
    assert {name for name, case in steps if case == "drawn"} == {"lemma-1", "lemma-3", "step-18", "induction"}
    assert ("induction", "slow-rate") in steps
    for key, course in steps.items():
        assert 1e-9 < min(course.values()) <= max(course.values()) <= whole[key] * (1 + 1e-12), key
        assert max(course.values()) > 0.5 * whole[key], key
        assert list(course) == sorted(course), key


def test_a_step_that_does_not_hold_would_be_seen(monkeypatch):
    """Were gradients thought a thousand times smaller than they are, lemma 3 and eq. (18) would not hold."""

    def understated(*given, **named):
        known = exact_descents(*given, **named)
        for one in known.constants:
            object.__setattr__(one, "gradient_square", 1e-6 * one.gradient_square)
            object.__setattr__(one, "variances", tuple(1e-6 * v for v in one.variances))
            object.__setattr__(one, "heterogeneity", 0.0)
        return known

    monkeypatch.setattr("leaklab.theory.averaging_lemmas.exact_descents", understated)
    wrong = of(numbers(), case="drawn")
    assert wrong["lemma-3", "drawn"] > 1
    assert wrong["step-18", "drawn"] > 1


@pytest.mark.parametrize("changes", [{"participants": 5}, {"local_steps": 1}])
def test_settings_that_make_no_sense_are_refused(changes):
    with pytest.raises(UserError, match="averaging-lemmas: needs"):
        numbers(**changes)
