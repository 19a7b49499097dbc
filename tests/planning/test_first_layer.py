"""Attacks on a first affine layer are planned only where there is one, wide enough for the samples."""

import pytest

from leaklab.observations.requirements import ATTACKS, check, check_batch
from leaklab.planning.checks import check_first_layer
from leaklab.records import plugins
from leaklab.records.errors import UserError
from leaklab.records.traits import model_traits
from leaklab.specs.attack import AttackSpec


def spec(model, attack="exact-batch", batch_size=8, **settings):
    capture = {"dataset": "mnist", "images": {"count": batch_size}, "model": model, "batch_size": batch_size}
    return AttackSpec.model_validate(
        {"capture": capture, "attack": {"name": attack, "settings": settings}, "iterations": 1}
    )


@pytest.mark.parametrize("attack", ["analytic", "exact-batch", "support-quotient", "unmixed-pictures"])
def test_a_first_layer_that_is_a_convolution_is_refused(attack):
    with pytest.raises(UserError, match=rf"attack '{attack}' reads a first layer .* 'dlg-lenet' does not begin with"):
        check_first_layer(spec("dlg-lenet", attack))
    for model in ("mlp", "logistic-regression"):
        check_first_layer(spec(model, attack))


@pytest.mark.parametrize(("units", "samples", "fits"), [(64, 64, True), (64, 65, False), (200, 65, True)])
def test_more_samples_than_units_are_refused(units, samples, fits):
    model = {"name": "mlp", "settings": {"hidden": units}}
    cases = [spec(model, batch_size=samples), spec(model, samples=samples)]
    for case in cases:
        if fits:
            check_first_layer(case)
        else:
            with pytest.raises(UserError, match="cannot tell 65 samples apart in a first layer of 64 units"):
                check_first_layer(case)
    check_first_layer(spec(model, "unmixed-pictures", samples))  # pictures of mixtures


def test_a_quotient_is_of_one_sample():
    check_batch("exact-batch", 1, {"method": "ratio"})
    check_batch("exact-batch", 8, {"method": "peel"})
    with pytest.raises(UserError, match="with method: ratio works for batch_size <= 1, not 8"):
        check_batch("exact-batch", 8, {"method": "ratio"})


def test_a_batch_size_that_is_withheld_is_named(monkeypatch):
    monkeypatch.setattr(
        "leaklab.observations.requirements.granted",
        lambda model: frozenset({"architecture", "weights", "nominal_rate"}),
    )
    with pytest.raises(UserError, match=r"attack 'exact-batch' needs 'batch_size', which .* withholds"):
        check("exact-batch", {}, "honest-but-curious")


def test_models_say_it_of_a_setting_that_they_have():
    named = {name: model_traits(name).first_affine for name in plugins.available("models")}
    assert {name for name, setting in named.items() if setting is not None} == {"mlp", "logistic-regression"}
    assert plugins.class_attribute("models", "mlp", "hidden") is not None
    assert "exact-batch" in plugins.available(ATTACKS)
