"""The page of an item says what each of its attacks has to know."""

from leaklab.records.expand import expand
from leaklab.records.items import load_items
from leaklab.report.site.threat_models import threat_models

ITEMS = load_items()


def found(key, scale="small"):
    return {(threat.attack, threat.transform): threat for threat in threat_models(expand(ITEMS[key], scale))}


def test_the_attackers_of_a_table_have_the_letters_of_what_they_ask_for():
    letters = {attack: (threat.letter, threat.attackers) for attack, threat in found("hyperfl/table3").items()}
    assert letters["ig", ""] == ("B+y", ("paper",))
    assert letters["ig", "private-classifier"] == ("C+y", ("paper", "knowing"))
    assert letters["ig", "linear-heads"] == ("C+y", ("knowing",))
    assert letters["annealed-map", "matched-dp-sgd"] == ("D+y+d", ("knowing",))


def test_a_server_that_changes_weights_is_an_active_one():
    assert {threat.letter[0] for threat in found("outpost/figure6").values()} == {"F"}
    assert found("outpost/figure5")["ig", ""].has.startswith("active manipulator")


def test_each_stands_there_once_the_weakest_first():
    threats = threat_models(expand(ITEMS["lrp/figure2"], "small"))
    assert len({(one.attack, one.transform, one.letter) for one in threats}) == len(threats)
    assert [one.letter for one in threats] == sorted(one.letter for one in threats)


def test_a_training_attacks_nothing():
    assert threat_models(expand(ITEMS["lrp/table1"], "small")) == ()
