"""A plug-in that asks a clock cannot be repeated: those of users are refused by line, those of the house are listed."""

from pathlib import Path

import pytest

from leaklab.guests.admission import admit
from leaklab.guests.places import ROOMS
from leaklab.records import asked, plugins
from leaklab.records.errors import UserError

CLOCKS = {
    "module": ("import time", "time.time()", "time.time"),
    "nanoseconds": ("import time", "time.perf_counter_ns()", "time.perf_counter_ns"),
    "called otherwise": ("import time as clock", "clock.monotonic()", "time.monotonic"),
    "function": ("from time import process_time", "process_time()", "time.process_time"),
    "function, called otherwise": ("from time import time as now", "now()", "time.time"),
    "handed on": ("import time", "max([1], key=time.time)", "time.time"),
    "date": ("from datetime import datetime", "datetime.now()", "datetime.datetime.now"),
    "day": ("import datetime", "datetime.date.today()", "datetime.date.today"),
    "system": ("import os", "os.urandom(8)", "os.urandom"),
    "secrets": ("import secrets", "secrets.token_bytes(8)", "secrets.token_bytes"),
}
HARMLESS = {
    "sleep": "import time\ntime.sleep(0)\n",
    "zone": "import time\ntime.timezone\n",
    "own name": "class time:\n    time = 3\ntime.time\n",
    "argument": "def f(time):\n    return time.time()\n",
    "calendar": "from datetime import datetime\ndatetime(2020, 1, 1)\n",
}
BOUNDED = {
    "attacks/first_layer/spear.py": "a search among exponentially many submatrices ends by processor time",
    "attacks/search/savepoints.py": "a search that is left goes on where it was: its numbers are the same",
    "federated/engine.py": "how long a training took, and when it is saved",
    "federated/evaluation.py": "how long tests took",
    "federated/masked_sums/messages.py": "keys of clients that no seed may tell; their sums are the same",
    "models/lanes/check.py": "whether a library is quicker than autograd, once at its build; both compute the same",
}
"""Files of the house that may ask a clock, and why."""
FOLDERS = ("attacks", "captures", "data/augmentations.py", "data/partitions", "data/readers", "defenses", "federated",
           "metrics", "models", "observations")  # fmt: skip


@pytest.mark.parametrize("way", CLOCKS)
def test_a_clock_is_found_however_it_is_called(way, tmp_path):
    head, call, name = CLOCKS[way]
    (tmp_path / "one.py").write_text(f"{head}\n\n\ndef f():\n    return {call}\n")
    assert asked.clock_of(tmp_path / "one.py") == (5, name) or asked.clock_of(tmp_path / "one.py") == (1, name)


@pytest.mark.parametrize("name", HARMLESS)
def test_what_is_no_clock_passes(name, tmp_path):
    (tmp_path / "one.py").write_text(HARMLESS[name])
    assert asked.clock_of(tmp_path / "one.py") is None


@pytest.fixture
def mine(tmp_path, monkeypatch, package_at):
    """Return a function that lets a file of ``mine`` take part, and gives its name."""
    monkeypatch.chdir(tmp_path)

    def add(room, text, beside=""):
        folder = tmp_path / "mine" / room
        folder.mkdir(parents=True)
        (folder / "late.py").write_text(text)
        (folder / "watch.py").write_text(beside)
        package_at(plugins.PACKAGE_FOLDER)
        return admit()[room]["late"].key

    return add


PLUGIN = "\n\nclass Mine:\n    def reconstruct(self, case):\n        return {}\n\n\nPLUGIN = Mine\n"


@pytest.mark.parametrize("room", ROOMS)
def test_a_clock_in_a_plugin_of_a_user_is_refused_before_anything_runs(room, mine):
    key = mine(room, "import time" + PLUGIN.format("time.time()"))
    if room in asked.MEASURING:
        plugins.check(room, key, {})
        return
    with pytest.raises(UserError) as error:
        plugins.check(room, key, {})
    file = Path("mine", room, "late.py").absolute()
    assert str(error.value) == (
        f"{file}, line 5: it asks time.time, which no seed repeats: count steps in place of seconds, and draw from the "
        "streams that it is given"
    )


def test_a_clock_beside_it_is_refused_too(mine):
    key = mine("defenses", "from watch import now" + PLUGIN.format("now()"), "import time\nnow = time.time\n")
    with pytest.raises(UserError, match=r"watch.py, line 2: it asks time.time"):
        plugins.check("defenses", key, {})


def test_plugins_of_the_house_ask_no_clock_but_where_it_is_said_why():
    files = [one for place in FOLDERS for one in _python(plugins.PACKAGE_FOLDER / place)]
    assert len(files) > 100
    found = {one.relative_to(plugins.PACKAGE_FOLDER).as_posix() for one in files if asked.clock_of(one)}
    assert found == {*BOUNDED}


def _python(place):
    return [place] if place.is_file() else sorted(place.rglob("*.py"))
