"""Impossible combinations are refused at planning time, without torch."""

import ast
import re
import subprocess
import sys
from dataclasses import fields

import pytest
from torch import nn

from leaklab.models.adapted import StillBatchNorm2d
from leaklab.observations import client_requirements, requirements
from leaklab.observations.base import Knowledge
from leaklab.observations.declared import declared
from leaklab.observations.requirements import check_text
from leaklab.observations.threat_models import FACTS, MARKS, OF_A_LETTER, OWN, THREAT_MODELS, granted
from leaklab.planning.resources import cost
from leaklab.records import plugins
from leaklab.records.errors import UserError
from leaklab.records.traits import chosen, model_traits
from leaklab.specs.attack import AttackSpec
from leaklab.specs.capture import CaptureSpec
from leaklab.specs.generator import GeneratorSpec
from leaklab.specs.text import TextAttackSpec

ROOMS = ("attacks", "attacks/adaptive", "attacks/text")


def test_every_granted_fact_is_described():
    assert all(facts <= set(FACTS) for facts in THREAT_MODELS.values())
    assert set(FACTS) >= OWN


def test_the_older_threat_models_withhold_what_they_always_did():
    active = {"server", "queries", "data_statistics"}
    assert set(FACTS) - granted("honest-but-curious") == active | {"labels"}
    assert set(FACTS) - granted("honest-but-curious-with-labels") == active
    assert set(FACTS) - granted("blind-rate") == active | {"labels", "nominal_rate"}
    assert set(FACTS) - granted("malicious-server") == {"labels"}


def test_each_letter_grants_what_the_one_before_it_grants():
    informed, aware, enhanced = OF_A_LETTER.values()
    assert informed < aware < enhanced
    assert not enhanced & {"labels", "defense", "defense_settings", "server"}
    for facts in THREAT_MODELS.values():
        assert ("defense" in facts) == ("defense_settings" in facts)
    assert granted("informed+y+d") == informed | {"labels", "defense", "defense_settings"}
    assert len(THREAT_MODELS) == 4 + 3 * len(MARKS)


def test_planning_imports_no_torch():
    code = (
        "import sys; from leaklab.observations.requirements import check;"
        "check('dlg', {}, 'honest-but-curious', 'closed-form-scale'); sys.exit('torch' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.parametrize("attack", ["dlg", "idlg"])
@pytest.mark.parametrize("threat_model", THREAT_MODELS)
def test_the_default_attacks_go_with_every_threat_model(attack, threat_model):
    requirements.check(attack, {}, threat_model, "profiled-scale", kind="delta")


def test_a_delta_without_its_rate_is_for_scale_aware_attackers():
    requirements.check("dlg", {}, "honest-but-curious", "none", kind="delta")
    with pytest.raises(UserError, match="needs 'nominal_rate'"):
        requirements.check("dlg", {}, "blind-rate", "none", kind="delta")
    with pytest.raises(UserError, match="choose kind: delta"):
        requirements.check("dlg", {}, "blind-rate", "profiled-scale", kind="gradient")


def test_a_setting_can_need_more():
    settings = {"label_rule": "known"}
    requirements.check("idlg", settings, "honest-but-curious-with-labels")
    with pytest.raises(UserError, match=r"'idlg' needs 'labels', which threat model 'honest-but-curious' withholds"):
        requirements.check("idlg", settings, "honest-but-curious")


@pytest.mark.parametrize(("room", "name"), [(room, name) for room in ROOMS for name in plugins.available(room)])
def test_what_is_read_from_source_is_what_the_imported_class_says(room, name):
    plugin = plugins.imported(room, name)
    asked = declared(room, name)
    assert asked == plugin.requirements
    assert {*asked.facts, *asked.facts_for_delta, *asked.facts_if_granted} <= set(FACTS)
    assert {*asked.fits, *asked.unfit} <= set(plugins.available("defenses"))
    assert not (asked.fits and asked.unfit)
    own = {field.name: field.default for field in fields(plugin)}
    for setting, by_value in asked.facts_when.items():
        assert chosen(room, name, {}, setting) == own[setting]
        assert {fact for facts in by_value.values() for fact in facts} <= set(FACTS)
    for setting, facts in asked.facts_when_set.items():
        assert chosen(room, name, {}, setting) == own[setting]
        assert set(facts) <= set(FACTS)


def reached_within(offer):
    """Return the definitions of a plug-in's file that its class names, directly or by way of others; and itself."""
    body = ast.parse(offer.file.read_text(encoding="utf-8")).body
    known = {node.name: node for node in body if isinstance(node, ast.ClassDef | ast.FunctionDef)}
    found, left = {}, [offer.offered]
    while left:
        name = left.pop()
        if name in known and name not in found:
            found[name] = known[name]
            left += [node.id for node in ast.walk(known[name]) if isinstance(node, ast.Name)]
    return found.values()


@pytest.mark.parametrize(("room", "name"), [(room, name) for room in ROOMS for name in plugins.available(room)])
def test_what_a_plug_in_reads_it_declares(room, name):
    """All of ``knowledge.require("...")`` and ``knowledge.knows("...")`` in what its class reaches within its file."""
    asked = declared(room, name)
    declares = {*asked.facts, *asked.facts_for_delta, *asked.facts_if_granted, *granted("informed")}
    declares |= {fact for by_value in asked.facts_when.values() for facts in by_value.values() for fact in facts}
    declares |= {fact for facts in asked.facts_when_set.values() for fact in facts}
    text = "\n".join(map(ast.unparse, reached_within(plugins.find(room, name))))
    text = text.replace("'", '"')
    assert set(re.findall(r'knowledge\.(?:require|knows)\("(\w+)"', text)) <= declares


@pytest.mark.parametrize(
    "declaration",
    [
        "needs: int = 1",
        "requirements: ClassVar[Requirements] = Requirements(fact=('weights',))",
        "requirements: ClassVar[Requirements] = Requirements(facts=WEIGHTS)",
        "requirements: ClassVar[Requirements] = Requirements(('weights',))",
        "requirements: ClassVar[Requirements] = EVERYTHING",
    ],
)
def test_a_declaration_that_cannot_be_read_is_one_line(tmp_path, package_at, declaration):
    (tmp_path / "attacks").mkdir()
    (tmp_path / "attacks" / "sly.py").write_text(f"class Sly:\n    {declaration}\n\nPLUGIN: type = Sly\n")
    package_at(tmp_path)
    with pytest.raises(UserError, match="attacks plug-in 'sly' declares no readable requirements") as caught:
        declared("attacks", "sly")
    assert "\n" not in str(caught.value)


def test_no_attack_on_text_is_known_by_name():
    """The read-out takes one step and searches nothing; TAG divides a delta by what the server prescribes."""
    capture = {"dataset": "printed-sentences", "sentences": {}, "model": "bert-classifier"}

    def attack(name, labels="searched", **changes):
        return TextAttackSpec.model_validate({"capture": capture | changes, "attack": name, "labels": labels})

    check_text(attack("token-order"))
    check_text(attack("tag", local_steps=3))
    with pytest.raises(UserError, match="'token-order' works for local_steps <= 1, not 3"):
        check_text(attack("token-order", local_steps=3))
    with pytest.raises(UserError, match="'tag' needs 'nominal_rate'"):
        check_text(attack("tag", kind="delta", threat_model="blind-rate"))
    check_text(attack("profiled-tag", kind="delta", threat_model="blind-rate"))
    with pytest.raises(UserError, match="'tag' needs 'labels'"):
        check_text(attack("tag", "known"))
    assert cost(attack("token-order")).evaluations == 0 < cost(attack("tag")).evaluations


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("nothing", {}, "honest-but-curious"), "unknown attacks plug-in"),
        (("dlg", {"speed": 1}, "honest-but-curious"), "no setting 'speed'"),
        (("dlg", {}, "omniscient"), "unknown threat model"),
        (("dlg", {}, "honest-but-curious", "magic"), "unknown attacks/adaptive plug-in"),
    ],
)
def test_unknown_names_are_refused(arguments, message):
    with pytest.raises(UserError, match=message):
        requirements.check(*arguments)


def test_transforms_are_held_against_defense_and_batch():
    requirements.check_transform("closed-form-scale", "lrp", 1)
    requirements.check_transform("none", "outpost", 16)
    with pytest.raises(UserError, match="does not fit defense 'lrp': it is made for gradient-compression, none"):
        requirements.check_transform("support-only", "lrp", 1)
    with pytest.raises(UserError, match="does not fit defense 'hide-classifier': it keeps the last layer back"):
        requirements.check_transform("closed-form-scale", "hide-classifier", 1)
    with pytest.raises(UserError, match="batch_size <= 1"):
        requirements.check_transform("closed-form-scale", "lrp", 4)


def test_of_a_defense_that_is_withheld_a_transform_knows_no_fit():
    requirements.check_transform("closed-form-scale", None, 1)
    with pytest.raises(UserError, match="batch_size <= 1"):
        requirements.check_transform("closed-form-scale", None, 4)


@pytest.mark.parametrize(("rule", "fact"), [("known", "labels"), ("counts", "input_range"), ("unmixed", "input_range")])
def test_a_label_rule_asks_for_its_facts(rule, fact):
    assert fact in requirements.needs("idlg", {"label_rule": rule})
    assert fact not in requirements.needs("idlg", {"label_rule": "bias"})


def test_an_attack_that_reads_one_image_is_held_against_the_batch():
    requirements.check_batch("analytic", 1)
    requirements.check_batch("idlg", 64)
    with pytest.raises(UserError, match="attack 'analytic' works for batch_size <= 1, not 2"):
        requirements.check_batch("analytic", 2)


@pytest.mark.parametrize("transform", ["profiled-scale", "closed-form-scale"])
@pytest.mark.parametrize("defense", [*plugins.available("defenses"), "that-of-tomorrow"])
def test_a_scale_free_transform_fits_every_defense_or_says_why_not(transform, defense):
    reason = declared("attacks/adaptive", transform).unfit.get(defense)
    if reason is None:
        requirements.check_transform(transform, defense, 1)
    else:
        with pytest.raises(UserError, match=f"does not fit defense '{defense}': {reason}"):
            requirements.check_transform(transform, defense, 1)


def test_knowledge_refuses_what_is_withheld():
    knowledge = Knowledge("blind-rate", {"batch_size": 1})
    assert knowledge.require("batch_size") == 1
    with pytest.raises(UserError, match="'dlg' needs 'nominal_rate', which threat model 'blind-rate' withholds"):
        knowledge.require("nominal_rate", "dlg")


def attack_spec(attack="ggl", generator=None, split="test", dataset="digits"):
    capture = {"dataset": dataset, "images": {"count": 1, "split": split}, "model": "dlg-lenet"}
    fields = {"capture": capture, "attack": attack, "iterations": 1, "generator": generator}
    return AttackSpec.model_validate(fields)


PRIOR = {"dataset": "digits", "steps": 5}
KEEPS = {**PRIOR, "model": {"name": "class-gaussian", "kept": 3}}


def asks(attack, threat_model="data-enhanced", transform="none", kind="gradient", prior=None, **settings):
    transform, *of_transform = [transform] if isinstance(transform, str) else transform
    generator = GeneratorSpec.model_validate(prior) if prior else None
    requirements.check(attack, settings, threat_model, transform, *of_transform or [{}], kind, generator)


@pytest.mark.parametrize(
    ("case", "fact", "withheld_by", "granted_by"),
    [
        ({"attack": "ggl"}, "generator", "parameter-aware", "data-enhanced"),
        ({"attack": "ggl", "prior": PRIOR}, "generator", "parameter-aware", "honest-but-curious"),
        ({"attack": "head-lookup", "prior": KEEPS}, "generator", "parameter-aware", "data-enhanced"),
        (
            {"attack": "annealed-map", "label_rule": "known", "matching": "unrolled", "client_factor": 2.0},
            "client_weight",
            "informed+y",
            "data-enhanced+y",
        ),
        ({"attack": "annealed-sum"}, "defense", "data-enhanced+y", "data-enhanced+y+d"),
        ({"attack": "annealed-sum"}, "clients", "informed+y+d", "data-enhanced+y+d"),
        ({"attack": "idlg", "transform": "matched-noise"}, "defense", "parameter-aware", "parameter-aware+d"),
        (
            {"attack": "idlg", "transform": ["matched-noise", {"sigma": 0.1}]},
            "defense",
            "parameter-aware+y",
            "parameter-aware+d",
        ),
        ({"attack": "idlg", "transform": "support-only"}, "defense", "parameter-aware", "parameter-aware+d"),
        ({"attack": "dlg", "kind": "delta"}, "local_steps", "informed", "parameter-aware"),
        ({"attack": "ig", "label_rule": "known"}, "labels", "parameter-aware", "parameter-aware+y"),
        ({"attack": "imprint"}, "data_statistics", "data-enhanced", "malicious-server"),
    ],
)
def test_a_fact_that_the_letter_lacks_is_refused_in_one_line(case, fact, withheld_by, granted_by):
    asks(**case, threat_model=granted_by)
    refused = f"needs '{fact}', which threat model '{withheld_by}' withholds: choose another attack or threat model"
    with pytest.raises(UserError, match=rf"^attack '\S+( with transform \S+)?' {re.escape(refused)}$"):
        asks(**case, threat_model=withheld_by)


def test_a_generator_says_what_it_was_made_from():
    def facts(**fields):
        return requirements.needs_of_prior(GeneratorSpec.model_validate({"dataset": "digits", "steps": 0, **fields}))

    assert requirements.needs_of_prior(None) == frozenset()
    assert facts() == {"generator"}
    assert facts(steps=5) == {"generator", "surrogate_data"}
    assert facts(**KEEPS) == {"generator", "surrogate_data", "public_images"}


def test_what_is_used_where_it_is_granted():
    """unmixed-scale reads granted labels; exact-batch takes the decay off that the clients had."""

    def used(attack, transform="none", **fields):
        capture = {"dataset": "digits", "images": {"count": 1}, "model": "mlp", **fields}
        spec = {"capture": capture, "attack": attack, "transform": transform, "iterations": 1}
        return requirements.used(AttackSpec.model_validate(spec))

    assert "labels" in used("ig", "unmixed-scale", threat_model="honest-but-curious-with-labels") - used("idlg")
    assert "labels" not in used("idlg", "unmixed-scale")
    assert "weight_decay" in used("exact-batch", weight_decay=0.1)
    assert "weight_decay" not in used("exact-batch") | used("exact-batch", weight_decay=0.1, threat_model="informed")


def test_generators_are_held_against_the_attack_that_uses_them():
    prior = {"dataset": "digits", "steps": 5}
    requirements.check_generator(attack_spec(generator=prior))
    requirements.check_generator(attack_spec("dlg"))
    requirements.check_generator(attack_spec(generator=prior, dataset="mnist", split="train"))
    with pytest.raises(UserError, match=r"'ggl' needs a generator: add e\.g\. generator: {dataset: mnist, "):
        requirements.check_generator(attack_spec())
    with pytest.raises(UserError, match="'dlg' uses no generator: remove 'generator'"):
        requirements.check_generator(attack_spec("dlg", prior))
    with pytest.raises(UserError, match="very images that are attacked"):
        requirements.check_generator(attack_spec(generator=prior, split="train"))
    other = {**prior, "split": "test"}
    requirements.check_generator(attack_spec(generator=other, split="train"))
    with pytest.raises(UserError, match="very images that are attacked, the test part"):
        requirements.check_generator(attack_spec(generator=other))
    published = {"dataset": "digits", "steps": 0}
    requirements.check_generator(attack_spec(generator=published, split="train"))


CLIENT = {"dataset": "digits", "images": {"count": 1}, "model": "resnet-small"}


def client(**changes):
    return CaptureSpec.model_validate({**CLIENT, **changes})


@pytest.mark.parametrize("attack", plugins.available("attacks"))
def test_training_state_and_optimizer_are_followed_by_the_attacks_that_say_so(attack):
    asked = declared("attacks", attack)
    refused = {
        "batch normalisations": (client(mode="train"), not asked.batch_statistics),
        "dropout masks": (client(model="mlp", mode="train"), not asked.dropout),
        "not of adam": (client(optimizer="adam"), "adam" not in asked.optimizers),
    }
    for words, (capture, refuses) in refused.items():
        if refuses:
            with pytest.raises(UserError, match=words):
                client_requirements.check_client(attack, capture)
        else:
            client_requirements.check_client(attack, capture)
    for capture in (client(), client(model={"name": "mlp", "settings": {"dropout": 0.0}}, mode="train")):
        client_requirements.check_client(attack, capture)


def test_the_attacks_that_follow_batch_statistics_are_those_on_updates():
    able = {name for name in plugins.available("attacks") if declared("attacks", name).batch_statistics}
    assert able == {"csdlg", "delta-dlg"}


@pytest.mark.parametrize("model", plugins.available("models"))
def test_models_say_what_mixes_or_drops_in_training_state(model):
    """The plan reads it from the source; here it is held against the layers that are built."""
    architecture = plugins.load("models", model)
    layers = list(architecture.build((3, 32, 32), 10).modules())
    mixing = any(isinstance(layer, nn.BatchNorm2d) and not isinstance(layer, StillBatchNorm2d) for layer in layers)
    assert model_traits(model).batch_statistics == mixing
    dropping = any(isinstance(layer, nn.Dropout) and layer.p > 0 for layer in layers)
    assert bool(getattr(architecture, "dropout", 0)) == dropping


def test_of_clients_of_a_deal_what_others_hold_is_public():
    def check(images, **settings):
        capture = {"dataset": "digits", "images": images, "model": "dlg-lenet"}
        prior = {"dataset": "digits", "steps": 1, "model": {"name": "class-gaussian", **settings}}
        spec = {"capture": capture, "attack": "annealed-map", "iterations": 1, "generator": prior}
        requirements.check_generator(AttackSpec.model_validate(spec))

    def of(clients, **partition):
        return {"clients": clients, "partition": {"name": "iid", "clients": 20, **partition}}

    check(of([0, 3]), dealt_to=20, attacked=4)
    check({"clients": [0], "partition": "iid"}, dealt_to=100, attacked=1)
    for images, settings in (
        (of([0, 4]), {"dealt_to": 20, "attacked": 4}), (of([0], seed=1), {"dealt_to": 20, "attacked": 4}),
        (of([0]), {"dealt_to": 10, "attacked": 4}), (of([0], validation=0.2), {"dealt_to": 20, "attacked": 4}),
        ({"clients": [0], "partition": {"name": "dirichlet", "clients": 20}}, {"dealt_to": 20, "attacked": 4}),
        ({"count": 2, "split": "train"}, {"dealt_to": 20, "attacked": 4}), (of([0]), {}),
    ):  # fmt: skip
        with pytest.raises(UserError, match="very images that are attacked, the train part"):
            check(images, **settings)
