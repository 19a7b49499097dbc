"""Guests are found by name in `mine/`, listed folders and installed distributions, and are told apart by digest."""

import ast
import importlib
import subprocess
import sys

import pytest
import torch

from leaklab.defenses.base import ClientContext
from leaklab.guests import admission, places
from leaklab.guests.admission import admit, said_of_guests
from leaklab.guests.files import find
from leaklab.guests.places import MARK, lodgers
from leaklab.records import plugins
from leaklab.records.errors import UserError

DEFENSE = """
from dataclasses import dataclass

from leaklab import Defense


@dataclass(frozen=True)
class Shrinking(Defense):
    least: float = 0.5

    def gradient(self, gradients, context):
        return {name: self.least * value for name, value in gradients.items()}


PLUGIN = Shrinking
"""
METRIC = """
from dataclasses import dataclass

from leaklab.metrics.base import Metric, MetricCard
from levels import STEPS


@dataclass(frozen=True)
class Largest(Metric):
    card = MetricCard("largest", "", "higher", "[0, 1]", None, "none", "", "[0, 1]")

    def values(self, reconstruction, truth):
        return ((reconstruction - truth).abs().flatten(1).amax(1) * STEPS).double()


PLUGIN = Largest
"""
FUNCTION = """
def defend(gradients, context):
    return {name: (value * 100).round() / 100 for name, value in gradients.items()}
"""
PYPROJECT = '[tool.leaklab]\nplugins = ["plugins"]\n'


class Home:
    """The user's folder."""

    def __init__(self, folder, monkeypatch):
        self.folder, self.monkeypatch = folder, monkeypatch

    def write(self, name, text):
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        return path

    def install(self, entries, modules):
        """Put a small distribution on the path, as pip would leave it."""
        site = self.folder / "site"
        for module, text in modules.items():
            self.write(f"site/{module}.py", text)
        self.write("site/toy-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: toy\nVersion: 1.0\n")
        self.write("site/toy-1.0.dist-info/entry_points.txt", entries)
        self.monkeypatch.syspath_prepend(str(site))

    def forget(self):
        """Forget what was read, as a new process would."""
        for one in vars(plugins).values():
            if hasattr(one, "cache_clear"):
                one.cache_clear()
        importlib.invalidate_caches()


@pytest.fixture
def home(tmp_path, monkeypatch, package_at):
    """An empty folder, which is the working folder; what guests leave in this process is taken away."""
    package_at(plugins.PACKAGE_FOLDER)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setattr(admission._FINDER, "known", {})
    before = set(sys.modules)
    yield Home(tmp_path, monkeypatch)
    for name in set(sys.modules) - before:
        if str(tmp_path) in (getattr(sys.modules[name], "__file__", None) or "") or name.startswith("leaklab_guest_"):
            del sys.modules[name]


def refusal(call=lodgers):
    with pytest.raises(UserError) as caught:
        call()
    assert "\n" not in str(caught.value)
    return str(caught.value)


def loaded(room, name, **settings):
    return plugins.load(room, admit()[room][name].key, settings)


def in_mine(home):
    home.write("mine/defenses/shrinking.py", DEFENSE)
    home.write("mine/metrics/largest.py", METRIC)
    home.write("mine/metrics/levels.py", "STEPS = 255\n")


def in_a_listed_folder(home):
    in_mine(home)
    (home.folder / "mine").rename(home.folder / "plugins")
    home.write("pyproject.toml", PYPROJECT)


def installed(home):
    metric = METRIC.replace("from levels", "from toy.levels")
    modules = {"__init__": "", "defense": DEFENSE, "metric": metric, "levels": "STEPS = 255\n"}
    home.install(
        "[leaklab.defenses]\nshrinking = toy.defense:Shrinking\n[leaklab.metrics]\nlargest = toy.metric:Largest\n",
        {f"toy/{name}": text for name, text in modules.items()},
    )


@pytest.mark.parametrize("place", [in_mine, in_a_listed_folder, installed])
class TestEachPlace:
    def test_a_defense_and_a_metric_are_found_and_work(self, home, place):
        place(home)
        context = ClientContext(scaled_rate=0.1, seed=0, client=0)
        found = loaded("defenses", "shrinking", least=0.25).gradient({"w": torch.ones(2)}, context)
        assert found["w"].tolist() == [0.25, 0.25]
        images = torch.zeros(1, 1, 2, 2)
        assert loaded("metrics", "largest").values(images, images + 1).tolist() == [255.0]
        with pytest.raises(UserError, match="has no setting 'most'"):
            loaded("defenses", "shrinking", most=1)

    def test_an_edit_is_another_name_and_a_comment_is_none(self, home, place):
        place(home)
        before = {name: one.key for own in lodgers().values() for name, one in own.items()}
        assert all(MARK.search(key) for key in before.values())
        (file,) = home.folder.rglob("levels.py")
        file.write_text("STEPS = 255  # of a byte\n")
        assert {name: one.key for own in lodgers().values() for name, one in own.items()} == before
        file.write_text("STEPS = 1\n")
        home.forget()
        after = {name: one.key for own in lodgers().values() for name, one in own.items()}
        assert after["largest"] != before["largest"]
        # of an installed distribution all files count, whoever imports them
        assert (after["shrinking"] != before["shrinking"]) == (place is installed)

    def test_a_name_that_the_house_has_is_refused(self, home, place):
        place(home)
        home.write("mine/metrics/largest.py", METRIC)
        home.write("mine/metrics/levels.py", "STEPS = 255\n")
        home.write("mine/defenses/lrp.py", DEFENSE)
        line = refusal()
        assert "leaklab itself" in line or "mine/metrics/largest.py" in line
        assert "rename one" in line


def test_a_clash_of_two_guests_names_both(home):
    home.write("mine/defenses/shrinking.py", DEFENSE)
    home.write("plugins/defenses/shrinking.py", DEFENSE)
    home.write("pyproject.toml", PYPROJECT)
    expected = (
        "mine/defenses/shrinking.py and plugins/defenses/shrinking.py both offer the defenses plug-in 'shrinking'"
    )
    assert expected in refusal()
    home.write("pyproject.toml", '[tool.leaklab]\nplugins = ["mine"]\n')
    assert list(lodgers()["defenses"]) == ["shrinking"]  # the same folder twice is one place
    home.install("[leaklab.defenses]\nshrinking = toy:Shrinking\n", {"toy": DEFENSE})
    assert "both offer" in (line := refusal())
    assert "toy (entry point leaklab.defenses: shrinking = toy:Shrinking)" in line


def test_a_plain_function_needs_no_class(home):
    home.write("mine/defenses/rounding.py", FUNCTION)
    found = loaded("defenses", "rounding").gradient({"w": torch.tensor([0.126])}, ClientContext(0.1, 0, 0))
    assert found["w"].item() == pytest.approx(0.13)


def test_members_of_a_family_are_guests_each(home):
    home.write("mine/defenses/both.py", DEFENSE.replace("PLUGIN = Shrinking", 'PLUGINS = {"one": Shrinking}'))
    assert loaded("defenses", "one", least=0.5).least == 0.5


def test_a_file_that_was_changed_after_it_was_let_in_is_not_loaded(home):
    file = home.write("mine/defenses/shrinking.py", DEFENSE)
    key = admit()["defenses"]["shrinking"].key
    file.write_text(DEFENSE.replace("self.least *", "2 * self.least *"))
    assert "was changed" in refusal(lambda: plugins.load("defenses", key))


def test_two_guests_with_different_helpers_of_one_name_do_not_mix(home):
    in_mine(home)
    home.write("plugins/metrics/other.py", METRIC)
    home.write("plugins/metrics/levels.py", "STEPS = 7\n")
    home.write("pyproject.toml", PYPROJECT)
    assert loaded("metrics", "largest")
    assert "imports 'levels' from beside it" in refusal(lambda: loaded("metrics", "other"))


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("pyproject.toml", "[tool.leaklab]\nplugins = 3\n", "write a list of folders"),
        ("pyproject.toml", '[tool.leaklab]\nplugins = ["gone"]\n', "there is no folder gone"),
        ("pyproject.toml", "[tool", "cannot be read as TOML"),
        ("mine/defenses/Loud.py", DEFENSE, "small letters"),
        ("mine/defenses/broken.py", "def", "not Python"),
        ("mine/attacks/shrinking.py", DEFENSE.replace("PLUGIN", "GUEST"), "is no attack: move it to defenses"),
    ],
)
def test_what_is_wrong_is_said_in_one_line(home, name, text, said):
    home.write(name, text)
    assert said in refusal()


@pytest.mark.parametrize(
    ("group", "value", "said"),
    [
        ("leaklab.defences", "toy:Shrinking", "there is no such group"),
        ("leaklab.defenses", "nobody:Shrinking", "there is no module nobody"),
        ("leaklab.defenses", "toy", "its class or function"),
        ("leaklab.defenses", "toy:Defense", "name the module that defines it"),
    ],
)
def test_a_wrong_entry_point_is_refused(home, group, value, said):
    home.install(f"[{group}]\nshrinking = {value}\n", {"toy": DEFENSE})
    assert said in refusal()


def test_nothing_of_a_guest_runs_when_it_is_found(home):
    home.write("mine/defenses/loud.py", f"raise SystemExit\n{DEFENSE}")
    modules = {"toy/__init__": "raise SystemExit", "toy/inner": DEFENSE}
    home.install("[leaklab.defenses]\nquiet = toy.inner:Shrinking\n", modules)
    assert set(admit()["defenses"]) == {"loud", "quiet"}


def test_try_takes_the_name_of_a_guest(home):
    file = home.write("mine/defenses/rounding.py", FUNCTION)
    assert find(places.Path("rounding")).file == file
    assert "choose from rounding" in refusal(lambda: find(places.Path("rouding")))


def test_what_a_guest_raises_is_blamed_on_its_line(home):
    home.write("mine/defenses/rounding.py", "def defend(gradients):\n    return 1 / 0\n")
    with pytest.raises(ZeroDivisionError) as caught:
        loaded("defenses", "rounding").gradient({}, ClientContext(0.1, 0, 0))
    assert said_of_guests(caught.value).startswith("mine/defenses/rounding.py, line 2: ZeroDivisionError")


def test_list_says_where_each_is_from(home):
    home.write("mine/defenses/shrinking.py", DEFENSE)
    command = [sys.executable, "-m", "leaklab.cli", "list", "defenses"]
    done = subprocess.run(command, cwd=home.folder, capture_output=True, text=True, check=True)
    words = {line.split()[0]: line.split()[1:] for line in done.stdout.splitlines()[1:]}
    assert words["shrinking"] == ["mine/defenses/shrinking.py"]
    assert words["lrp"] == ["leaklab"]


def test_every_kind_of_plug_in_can_be_a_guest():
    house = plugins.PACKAGE_FOLDER
    offering = {
        str((file.with_suffix("") if file.parent.name in ("data", "federated") else file.parent).relative_to(house))
        for file in house.rglob("*.py")
        for node in ast.parse(file.read_text(encoding="utf-8")).body
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) in (plugins.ONE, plugins.FAMILY)
    }
    assert offering <= set(places.ROOMS)
    assert set(places.ROOMS) - offering == {"report/figures"}  # of which the house has no plug-in
