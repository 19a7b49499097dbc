"""Entries of the scoreboard: made of cards, checked against themselves, shown where least is left."""

import json
from copy import deepcopy
from pathlib import Path

import jsonschema
import pytest

from leaklab.guests import attackers, scoreboard
from leaklab.guests.scoreboard import Entry, checked, entry_of, line_of, ranked, read_entries, schema
from leaklab.records.errors import UserError

NAMED = {"name": "own", "title": "Own", "origin": "guest", "source": "nowhere", "file": "mine/own.py"}
NOW = "0" * 16
ROOT = Path(__file__).parents[2]


def row(attacker, each, low, high, by="somebody", guess=13.8):
    psnr = sum(each) / len(each)
    return {
        "attacker": attacker, "by": by, "seconds": 1.0, "psnr": round(psnr, 2), "tokens": None, "each": each,
        "gain": round(psnr - guess, 2), "low": low, "high": high, "labels": 6,
    }  # fmt: skip


def network(rows, word, price=None):
    return {
        "updates": 6, "samples": 1, "facts": [], "unit": "dB", "guess_psnr": 13.8, "guess_tokens": None,
        "control": True, "rows": rows, "price": price, "complete": True, "verdict": word,
    }  # fmt: skip


PLAIN = row("undefended", [40.0, 41, 42, 43, 44, 45], 25.0, 32.0)
READ = row("learnt", [20.0, 21, 22, 23, 24, 25], 4.0, 12.0, "law")
MISSED = row("rule", [10.0, 11, 12, 11, 10, 12], -4.5, -1.0, "rule")
NOISE = row("noise of the same price", [14.0, 15, 14, 15, 14, 15], -1.0, 2.0, "matched-noise")
PRICE = {
    "network": None, "pairs": 6, "rounds": 60, "clients": 4, "without": 90.0, "accuracy": 80.0, "lost": 10.0,
    "low": 8.0, "high": 12.0, "milliseconds": 1.5, "gradient_milliseconds": 2.0, "bytes": 40, "bytes_without": 80,
    "noise": 0.4,
}  # fmt: skip


def card(**networks):
    word = "read" if any(one["verdict"] == "read" for one in networks.values()) else "stood"
    return {
        "schema": "leaklab-card/1", "subject": {"kind": "defense", "file": "own.py", "name": "Own", "sha256": "a" * 64},
        "seed": 0, "versions": {"leaklab": "1", "python": "3", "torch": "2"}, "warnings": [],
        "arenas": {"tiny": networks}, "ended": "complete", "verdict": word, "status": {"read": 3, "stood": 0}[word],
        "sentence": "so", "not measured": [],
    }  # fmt: skip


TWO = card(mlp=network([PLAIN, MISSED], "stood", PRICE), lenet=network([PLAIN, MISSED, READ, NOISE], "read"))


def entry(of=TWO, **more):
    return entry_of(of, attackers=NOW, **{**NAMED, **more})


def dumped(one):
    return one.model_dump(mode="json", by_alias=True)


def test_an_entry_reads_back_as_it_was_made_and_fits_its_schema(tmp_path):
    made = entry()
    (tmp_path / "own.json").write_text(json.dumps(dumped(made)), encoding="utf-8")
    assert read_entries(tmp_path) == [made]
    jsonschema.validate(dumped(made), schema())


def test_the_line_is_that_of_the_weakest_network_with_its_strongest_attacker():
    line = line_of(entry(), {NOW})
    assert (line.network, line.attacker, line.read) == ("lenet", "attacker who learnt it (law)", 22.5)
    # of the ten decibels that count, those above the guess of 13.8
    levels = [min(one, 23.8) for one in READ["each"]]
    assert line.protection.value == pytest.approx(100 * (23.8 - sum(levels) / 6) / 10)
    assert line.price["lost"] == 10  # of the other network, where it was measured
    assert (line.noise, line.noise_name, line.better_noise) == (14.5, "noise of the same price", True)
    assert line.tried == ("rule", "law")
    assert line.current
    assert not line_of(entry(), {"1" * 16}).current


def test_what_stands_leaves_all_and_no_defense_leaves_nothing():
    whole = line_of(entry(card(mlp=network([PLAIN, MISSED], "stood"))), {NOW})
    none = line_of(entry(card(mlp=network([PLAIN, {**PLAIN, "attacker": "unaware"}], "read"))), {NOW})
    assert whole.protection.value > 100
    assert none.protection.value == 0
    order = ranked([entry(card(mlp=network([PLAIN, {**PLAIN, "attacker": "rule"}], "read")), name="b"), entry()], {NOW})
    assert [one.entry.name for one in order] == ["own", "b"]


def claims(change):
    changed = deepcopy(dumped(entry()))
    change(changed)
    return changed


def digested(change):
    """Return an entry that was changed, with a digest that fits: what a forger would send."""
    changed = claims(change)
    rest = {key: value for key, value in changed.items() if key != "digest"}
    return {**rest, "digest": scoreboard._digest(rest)}


def on(name):
    return lambda one: one["card"]["arenas"]["tiny"][name]


def raised(one):
    on("lenet")(one)["rows"][2]["psnr"] = 10.0


def said_to_stand(one):
    on("lenet")(one)["verdict"] = "stood"
    one["card"]["verdict"], one["card"]["status"] = "stood", 0


def half_of_it(one):
    on("mlp")(one)["rows"][1]["each"].pop()


def another_gain(one):
    on("lenet")(one)["rows"][2]["gain"] = 1.0


def word_alone(one):
    one["card"]["verdict"], one["card"]["status"] = "stood", 0


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (raised, "claims a mean of 10.0"),
        (said_to_stand, "the lenet says 'stood' in place of 'read'"),
        (half_of_it, "has 5 of 6 updates"),
        (another_gain, "claims a gain of 1.0"),
        (word_alone, "the card says 'stood'"),
    ],
)
def test_what_an_entry_s_own_rows_do_not_say_is_refused_whatever_its_digest(change, said):
    with pytest.raises(UserError, match="its own rows do not say") as refused:
        checked(digested(change), "own.json")
    assert said in str(refused.value)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda one: one.update(title="Other"), "changed after it was made"),
        (lambda one: one.update(schema="leaklab-entry/2"), "its schema is 'leaklab-entry/2'"),
        (lambda one: one.update(name="Own Name"), "name: String should match"),
        (lambda one: one.update(file="/etc/own.py"), "file: String should match"),
        (lambda one: one.update(file="../own.py"), "file: String should match"),
        (lambda one: one.pop("card"), "card: Field required"),
    ],
)
def test_an_entry_that_is_not_whole_is_one_line_that_says_what_to_do(change, said):
    with pytest.raises(UserError) as refused:
        checked(claims(change), "own.json")
    assert said in str(refused.value)
    assert "leaklab submit" in str(refused.value)


def test_files_that_are_no_entries_are_named(tmp_path):
    (tmp_path / "own.json").write_text("{", encoding="utf-8")
    with pytest.raises(UserError, match=r"own\.json: it cannot be read"):
        read_entries(tmp_path)
    (tmp_path / "own.json").write_text(json.dumps(dumped(entry(name="other"))), encoding="utf-8")
    with pytest.raises(UserError, match=r"its name is 'other': call the file other\.json"):
        read_entries(tmp_path)


def test_a_card_that_was_cut_off_is_no_entry():
    with pytest.raises(UserError, match="run `leaklab try`"):
        entry({**TWO, "ended": "budget"})


def test_every_entry_of_the_house_is_right_and_its_defense_is_the_one_that_was_judged():
    from leaklab.guests.files import find

    entries = read_entries(ROOT / scoreboard.FOLDER)
    assert entries
    for one in entries:
        assert isinstance(one, Entry)
        assert find(ROOT / one.file, one.card.subject.name).sha256 == one.card.subject.sha256, one.name


# Entries of older attackers.

LATER = "1" * 16


def aged(**changes):
    """Return an entry's card as it is read again: other seconds, and what ``changes`` says of its last row."""
    again = deepcopy(TWO)
    for row in again["arenas"]["tiny"]["lenet"]["rows"]:
        row["seconds"] = 9.0
    again["arenas"]["tiny"]["lenet"]["rows"][-1].update(changes)
    return again


def test_readings_are_the_same_whatever_the_clock_says_and_no_others():
    old = attackers.readings(entry())
    assert attackers.readings(entry(aged())) == old
    assert attackers.readings(entry(aged(each=[14.0, 15, 14, 15, 15, 14]))) != old
    assert attackers.readings(entry(card(lenet=TWO["arenas"]["tiny"]["lenet"]))) != old


def test_entries_of_older_attackers_stand_for_those_who_were_seen_to_read_the_same_and_for_no_later_ones(tmp_path):
    assert attackers.same(LATER, tmp_path) == {LATER}
    attackers.remember(LATER, NOW, ["own"], tmp_path)
    attackers.remember(LATER, "2" * 16, ["own", "b"], tmp_path)
    assert attackers.same(LATER, tmp_path) == {LATER, NOW, "2" * 16}
    assert attackers.same("3" * 16, tmp_path) == {"3" * 16}
    assert read_entries(tmp_path) == []


def test_witnesses_are_those_of_each_older_version_whom_most_attackers_read():
    small = card(mlp=network([PLAIN, MISSED], "stood"))
    entries = [entry(small, name="a"), entry(name="c"), entry(name="b"), entry(small, name="d")]
    assert [one.name for one in attackers.witnesses(entries, LATER)[NOW]] == ["b", "c"]
    assert attackers.witnesses(entries, NOW) == {}


def test_a_file_of_same_attackers_that_cannot_be_read_is_one_line(tmp_path):
    (tmp_path / attackers.LOCK).write_text("[]", encoding="utf-8")
    with pytest.raises(UserError, match="delete it"):
        attackers.same(NOW, tmp_path)
