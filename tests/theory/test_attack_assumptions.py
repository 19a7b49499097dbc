"""OUTPOST table II as data: the marks follow from what the attacks' papers state."""

from leaklab.theory.attack_assumptions import TABLE, Assumptions, AttackAssumptions


def test_only_an_attack_that_faces_several_epochs_samples_and_batches_holds_in_practice():
    numbers = list(AttackAssumptions().run(0, None, lambda steps, total, label: steps))
    assert {one.row["attack"]: one.value for one in numbers} == {"DLG": 0, "iDLG": 0, "csDLG": 1, "GradInversion": 0}
    assert numbers[1].row == {
        "attack": "iDLG", "E": "1", "n": "1", "B": "1", "labels": "read off, one sample", "prior": "none"
    }  # fmt: skip


def test_each_of_the_three_counts():
    good = TABLE[2]
    assert good.holds_in_practice
    for field, value in (("epochs", "one"), ("samples", "one"), ("batch", "all")):
        worse = Assumptions(**{**good.__dict__, field: value})
        assert not worse.holds_in_practice, field
