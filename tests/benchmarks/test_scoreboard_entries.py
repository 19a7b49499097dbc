"""Entries of older attackers: two are judged again, and only where both are read as before do all stand."""

from copy import deepcopy
from pathlib import Path

import scoreboard_entries

from leaklab.guests import attackers, scoreboard
from leaklab.guests.scoreboard import FOLDER, read_entries
from leaklab.records.files import write_json

ENTRIES = {one.name: one for one in read_entries(Path(__file__).parents[2] / FOLDER)}
NAMES = ["no-defense", "lrp", "noise"]
NOW = "1" * 16


def judging(monkeypatch, tmp_path, change):
    """Put the entries into a folder of older attackers; judging one again gives what stands, ``change`` d."""
    monkeypatch.chdir(tmp_path)
    for name in NAMES:
        old = ENTRIES[name].model_dump(mode="json", by_alias=True)
        write_json(FOLDER / f"{name}.json", old)
    asked = []

    def judged(name, _made):
        asked.append(name)
        again = deepcopy(ENTRIES[name].model_dump(mode="json", by_alias=True))
        change(again)
        rest = {key: value for key, value in again.items() if key != "digest"}
        return ENTRIES[name].model_validate({**rest, "digest": scoreboard._digest(rest)})

    monkeypatch.setattr(scoreboard_entries, "judged", judged)
    monkeypatch.setattr(scoreboard_entries, "attackers_digest", lambda: NOW)
    monkeypatch.setattr("leaklab.report.site.scoreboard.attackers_digest", lambda: NOW)
    return asked


def other_seconds(entry):
    for own in entry["card"]["arenas"]["tiny"].values():
        for row in own["rows"]:
            row["seconds"] = 99.0


def other_reading(entry):
    entry["card"]["arenas"]["tiny"]["mlp"]["rows"][0]["each"][0] += 0.5


def test_entries_of_older_attackers_stand_where_two_are_read_as_before(monkeypatch, tmp_path):
    asked = judging(monkeypatch, tmp_path, other_seconds)
    assert scoreboard_entries.adopt() == 0
    assert len(asked) == attackers.EVIDENCE
    assert attackers.same(NOW) == {NOW, ENTRIES["lrp"].attackers}


def test_one_that_is_read_otherwise_is_kept_and_no_other_stands(monkeypatch, tmp_path, capsys):
    asked = judging(monkeypatch, tmp_path, other_reading)
    assert scoreboard_entries.adopt() == 1
    assert len(asked) == 1
    assert f"{asked[0]}: read otherwise" in capsys.readouterr().out
    assert attackers.same(NOW) == {NOW}
