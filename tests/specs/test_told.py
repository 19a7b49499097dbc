"""An attacker is told everything of its spec but the capture, and the run keeps the name that the whole spec gives."""

import json

import pytest

from leaklab.records.errors import UserError
from leaklab.records.record import canonical_json
from leaklab.specs.attack import AttackerSpec, AttackSpec
from leaklab.specs.law import LawSpec
from leaklab.specs.stages import recorded

PRIOR = {"dataset": "mnist", "steps": 5, "seed": 7}
CAPTURE = {
    "dataset": "digits",
    "images": {"count": 2, "seed": 987654},
    "model": "dlg-lenet",
    "defense": {"name": "lrp", "class_slope": 0.1},
    "client_weight": 2.5,
    "seed": 456789,
}
ATTACK = {"attack": "ggl", "transform": "profiled-scale", "iterations": 3, "restarts": 4, "generator": PRIOR, "seed": 5}


def test_an_attacker_is_told_what_it_brings_along():
    spec = AttackSpec.model_validate({"capture": CAPTURE, **ATTACK})
    assert spec.told() == AttackerSpec.model_validate(ATTACK)
    text = canonical_json(spec.told())
    for hidden in ("987654", "456789", "digits", "dlg-lenet", "lrp", "2.5", "capture", "images"):
        assert hidden not in text


def test_other_steps_are_told_their_spec():
    spec = AttackSpec.model_validate({"capture": CAPTURE, **ATTACK}).capture
    assert spec.told() is spec


def test_no_planned_attack_is_told_of_its_capture(whole_plan):
    plan = whole_plan
    attacks = [job for stage in ("attack", "attack-text") for job in plan.jobs[stage].values()]
    assert len(attacks) > 100
    for job in attacks:
        whole, part = json.loads(job.text), json.loads(job.told)
        assert part == {name: value for name, value in whole.items() if name not in ("capture", "law")}
    told = {job.spec.stage for jobs in plan.jobs.values() for job in jobs.values() if job.told != job.text}
    assert told == {"attack", "attack-text", "law"}
    others = [job for stage, jobs in plan.jobs.items() if stage not in told for job in jobs.values()]
    assert all(job.told == job.text for job in others)


def test_the_spec_of_every_planned_run_follows_from_the_records_of_what_it_read(whole_plan):
    unequal = []
    for job in (job for jobs in whole_plan.jobs.values() for job in jobs.values()):
        read = [(type(one), one.model_dump(mode="json")) for one in job.spec.needs()]
        fields = recorded(type(job.spec), json.loads(job.told), read)
        if canonical_json(type(job.spec).model_validate(fields)) != job.text:
            unequal.append(job.folder)
    assert not unequal, unequal[:3]


@pytest.mark.parametrize("told", [{}, {"capture": {"images": 3}}, {"capture": None, "images": 24}])
def test_a_damaged_record_of_a_law_is_one_line(told):
    with pytest.raises(UserError, match="no record of a law"):
        recorded(LawSpec, told, [])
