"""The documentation says what is there: links, paths, functions and keys exist, and its examples run."""

import ast
import re
import sys
from pathlib import Path
from types import ModuleType

import pytest
import yaml
from pydantic import BaseModel

from leaklab.attacks.annealed import AnnealedMap
from leaklab.data import catalog
from leaklab.data import download as weights
from leaklab.data.prepare import READERS
from leaklab.defenses.base import Defense, overrides
from leaklab.guests import moments
from leaklab.guests.calls import Subject
from leaklab.guests.exposure import Attacker, Exposure
from leaklab.guests.files import find
from leaklab.guests.peeking import refuse_peeking
from leaklab.guests.verdict import STATUS
from leaklab.items import items, layouts
from leaklab.items.expand import BLOCK_KEYS, LABELS, expand
from leaklab.items.items import load_items
from leaklab.metrics.gains import gain
from leaklab.observations.declared import declared
from leaklab.observations.requirements import TRANSFORMS
from leaklab.planning.outputs import nothing_done
from leaklab.records import config, plugins, record
from leaklab.report.judge import claims, tolerances
from leaklab.report.site import coverage
from leaklab.report.site.headlines import nobody_knows
from leaklab.specs import capture, stages, training
from leaklab.specs.text import SentenceChoice

ONE_FILE_ROOMS = {"augmentations", "optimizers", "schedules"}
ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "src/leaklab"
FOLDERS = (".", "docs", "docs/examples", "docs/papers", "config", "profiles", "benchmarks")
PAGES = sorted(path for folder in FOLDERS for path in (ROOT / folder).glob("*.md"))
NAMES = [str(page.relative_to(ROOT)) for page in PAGES]
FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
MACHINE_PATH = re.compile(r"(?<![\w.~/<>-])/(work|tmp|root|home|mnt|usr|opt|var)\b")
PACKAGE_INDEX = re.compile(r"index-url|pypi|pythonhosted|/simple\b", re.IGNORECASE)
CONFIGURED: dict[str, list[type[BaseModel]]] = {
    "config.yaml": [config.Config],
    "items": [items.Item, items.Cells, items.RowValue, items.MetricMeaning, items.Comparison, items.ScaleChange],
    "papers": [items.Paper],
    "layouts": [
        layouts.TableLayout,
        layouts.GridLayout,
        layouts.PicturesLayout,
        layouts.CurvesLayout,
        layouts.TargetLine,
        layouts.PathsLayout,
        layouts.ScatterLayout,
        layouts.SentencesLayout,
        layouts.LandscapeLayout,
    ],
    "blocks": [
        stages.TrainSpec,
        stages.GeneratorSpec,
        stages.CaptureSpec,
        stages.AttackSpec,
        stages.ScoreSpec,
        stages.CheckSpec,
    ],
    "blocks of text": [stages.TextCaptureSpec, stages.TextAttackSpec, stages.TextScoreSpec, SentenceChoice],
    "blocks of landscapes": [stages.LandscapeSpec, stages.ProjectionSpec],
    "parts of blocks": [
        record.Component,
        training.PartitionChoice,
        capture.ImageChoice,
        capture.ClientChoice,
        training.Goal,
    ],
    "datasets.yaml": [
        catalog.Entry,
        catalog.Source,
        catalog.MirrorFile,
        catalog.PackageFile,
        catalog.OfficialFile,
        catalog.OwnFile,
    ],
    "weights.yaml": [weights.Weights, weights.WeightsFile],
    "coverage.yaml": [coverage.Coverage, coverage.Row, coverage.Statement],
    "tolerances.yaml": [tolerances.Tolerances, tolerances.StandIns, tolerances.Rule, tolerances.Tolerance],
}
# an attack block is flat: the specs inside each other are not keys of their own
NESTED = {"capture"}


@pytest.fixture(params=PAGES, ids=NAMES)
def page(request):
    return request.param


def prose(page):
    """Return the page's text without its fenced examples."""
    return FENCE.sub("", page.read_text(encoding="utf-8"))


def quoted(page):
    return re.findall(r"`([^`\n]+)`", prose(page))


def fenced(page, language):
    return [text for kind, text in FENCE.findall(page.read_text(encoding="utf-8")) if kind == language]


def anchor(heading):
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def test_the_pages_that_readers_need_are_there():
    wanted = {"README.md", "config/README.md", "profiles/README.md", "benchmarks/README.md"}
    pages = ("architecture", "attacks", "cluster", "coverage", "findings", "masked-sums", "own-defense", "provenance",
             "scales", "training", "verdicts")  # fmt: skip
    assert wanted | {f"docs/{name}.md" for name in pages} <= set(NAMES)


def test_relative_links_lead_somewhere(page):
    for target in re.findall(r"\]\(([^)\s]+)\)", prose(page)):
        if re.match(r"[a-z]+:", target):
            continue
        path, _, place = target.partition("#")
        file = (page.parent / path) if path else page
        assert file.exists(), target
        if place:
            headings = re.findall(r"^#+ (.*)$", prose(file), re.MULTILINE)
            assert place in map(anchor, headings), target


def test_quoted_paths_exist(page):
    for text in quoted(page):
        path = text.partition("::")[0]
        if path.startswith(("src/", "config/", "workflow/", "tests/", "profiles/")) and not set(path) & set("<>*{} "):
            assert (ROOT / path).exists(), text


@pytest.mark.parametrize(("name", "at_least"), [("architecture", 40), ("training", 4)])
def test_named_functions_exist(name, at_least):
    named = [text for text in quoted(ROOT / f"docs/{name}.md") if re.fullmatch(r"\S+\.(py|smk)::\S+", text)]
    named = [text for text in named if text != "file.py::name"]
    assert len(named) > at_least
    for text in named:
        path, _, name = text.partition("::")
        file = next((base / path for base in (ROOT, PACKAGE) if (base / path).is_file()), None)
        assert file is not None, text
        assert name in definitions(file), text


def definitions(file):
    """Return the functions, classes and methods (``Class.method``) of a module, or the rules of a rule file."""
    text = file.read_text(encoding="utf-8")
    if file.suffix == ".smk":
        return set(re.findall(r"^(?:def|rule) (\w+)", text, re.MULTILINE))
    found = set()
    for node in ast.parse(text).body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            found.add(node.name)
        if isinstance(node, ast.ClassDef):
            found |= {f"{node.name}.{inner.name}" for inner in node.body if isinstance(inner, ast.FunctionDef)}
    return found


def named(name, language="python", page="own-defense"):
    """Return the block of a page of ``docs`` that begins with its name."""
    (block,) = (one for one in fenced(ROOT / f"docs/{page}.md", language) if one.startswith(f"# {name}\n"))
    return block


def test_the_example_is_a_working_defense_with_a_working_test(monkeypatch):
    source, test = named("src/leaklab/defenses/shrinking.py"), named("tests/defenses/test_shrinking.py")
    module = run_as("leaklab.defenses.shrinking", source, monkeypatch)
    defense = module.PLUGIN()
    assert isinstance(defense, Defense)
    assert overrides(defense, "gradient")
    tests = [value for name, value in vars(run_as("test_shrinking", test, monkeypatch)).items() if name[:5] == "test_"]
    assert tests
    for function in tests:
        (mark,) = function.pytestmark
        name, values = mark.args
        for value in values:
            function(**{name: value})


def test_the_guest_of_the_page_is_one_that_is_judged(tmp_path):
    guest = named("rounding.py")
    file = tmp_path / guest.splitlines()[0].removeprefix("# ")
    file.write_text(guest)
    assert find(file).offered == "defend"
    page = (ROOT / "docs/own-defense.md").read_text(encoding="utf-8")
    assert all(f"leaklab {command} {file.name}" in page for command in ("describe", "try"))
    assert all(re.search(rf"\*\*{word}\*\* \({status}\)", page) for word, status in STATUS.items())
    rules = (ROOT / "docs/try.md").read_text(encoding="utf-8")
    assert all(f"| {word} | {status} |" in rules for word, status in STATUS.items() if word != "invalid")


def test_in_the_arena_of_the_page_what_is_not_defended_is_read(tmp_path, monkeypatch):
    guest, images, content = named("rounding.py"), named("scans.py", page="try"), named("scans.yaml", "yaml", "try")
    monkeypatch.chdir(tmp_path)
    for text in (guest, images, content):
        Path(text.splitlines()[0].removeprefix("# ")).write_text(text)
    exec(compile(images, "scans.py", "exec"), {})
    exposure = Exposure(Subject.load(Path("rounding.py").resolve()), "lenet", arena=moments.load("scans.yaml"))
    read = exposure.read(Attacker("undefended", "annealed-map", AnnealedMap()), exposure.plain)
    truth = exposure.private.images
    assert gain(read.scores(truth), exposure.guesses().scores(truth)).reads
    page = (ROOT / "docs/try.md").read_text(encoding="utf-8")
    assert "python scans.py\nleaklab try rounding.py --arena scans.yaml\n" in page


def test_the_attack_of_the_page_is_one_that_may_run(tmp_path):
    attack = named("nearest.py", page="own-attack")
    file = tmp_path / attack.splitlines()[0].removeprefix("# ")
    file.write_text(attack)
    assert find(file).kind == "attack"
    refuse_peeking(file)
    assert f"leaklab try {file.name}" in (ROOT / "docs/own-attack.md").read_text(encoding="utf-8")


def run_as(name, source, monkeypatch):
    """Run source text as the module ``name``, so that a later text can import it."""
    module = ModuleType(name)
    monkeypatch.setitem(sys.modules, name, module)
    exec(compile(source, name, "exec"), module.__dict__)
    return module


def test_the_edits_of_the_example_fit_the_files_that_they_name():
    item = (ROOT / "config/items/lrp/figure2.yaml").read_text(encoding="utf-8")
    (edit,) = (one for one in fenced(ROOT / "docs/own-defense.md", "yaml") if "shrinking" in one)
    edited = yaml.safe_load(edit)
    original = yaml.safe_load(item)["runs"]["attack"]
    assert set(edited) <= set(original)
    assert {choice for choice in edited["defense"] if isinstance(choice, str)} <= set(map(str, original["defense"]))
    page = (ROOT / "docs/own-defense.md").read_text(encoding="utf-8")
    for transform in ("closed-form-scale", "profiled-scale"):
        assert f"`{transform}`" in page
        assert f"`{plugins.find(TRANSFORMS, transform).file.relative_to(ROOT)}`" in page
        asked = declared(TRANSFORMS, transform)
        assert asked.fits == ()
        assert not {"none", "lrp", "shrinking"} & set(asked.unfit)


@pytest.mark.parametrize("scale", ["demo", "small", "paper"])
def test_the_edits_of_the_example_hold_at_every_scale(scale):
    """A defense of the house stands for the reader's: only its name decides which override is for it."""
    (edit,) = (one for one in fenced(ROOT / "docs/own-defense.md", "yaml") if "shrinking" in one)
    edited = yaml.safe_load(edit.replace("{name: shrinking, least: 0.5}", "gradient-clipping").replace(
        "shrinking", "gradient-clipping"))  # fmt: skip
    figure2 = load_items(ROOT / "config/items")["lrp/figure2"]
    block = {**figure2.runs["attack"], **edited}
    runs = expand(figure2.model_copy(update={"runs": {"attack": block}}), scale)
    mine = [run.spec.attack.capture for run in runs if run.choice["defense"]["name"] == "gradient-clipping"]
    assert mine
    assert {(capture.draws, capture.client_weight) for capture in mine} == {(1, 1.0)}


def test_the_words_of_the_example_are_those_that_are_said():
    text = " ".join((ROOT / "docs/own-defense.md").read_text(encoding="utf-8").split())
    assert f"leaklab: {nothing_done('shrinking (least 0.5) on digits')}" in text
    assert nobody_knows("shrinking").partition(":")[0] in text


@pytest.mark.parametrize("models", CONFIGURED.values(), ids=list(CONFIGURED))
def test_every_key_is_explained(models):
    explained = set(quoted(ROOT / "config/README.md"))
    for model in models:
        keys = {field.alias or name for name, field in model.model_fields.items()} - NESTED
        assert keys <= explained, model.__name__


def test_every_key_of_blocks_and_claims_is_explained():
    explained = set(quoted(ROOT / "config/README.md"))
    assert explained >= BLOCK_KEYS | {LABELS, "rate", "grid", "when", "input_shape", "num_classes"}
    assert explained >= set(claims.CLAIM_COLUMNS)


def test_every_plugin_and_reader_is_named():
    explained = set(quoted(ROOT / "config/README.md"))
    offering = [
        path for path in PACKAGE.rglob("*.py") if re.search("^PLUGINS? = ", path.read_text("utf-8"), re.MULTILINE)
    ]
    rooms = {path.relative_to(PACKAGE).with_suffix("") for path in offering}
    rooms = {room if room.name in ONE_FILE_ROOMS else room.parent for room in rooms}
    named = {name for room in rooms for name in plugins.available(room.as_posix())}
    assert len(named) > 80
    assert named <= explained
    assert set(READERS) <= explained


def test_the_example_item_is_an_item_that_expands():
    example = next(text for text in fenced(ROOT / "config/README.md", "yaml") if text.startswith("paper:"))
    item = items.Item.model_validate(yaml.safe_load(example))
    assert {scale: len(expand(item, scale)) for scale in config.SCALES} == dict.fromkeys(config.SCALES, 4)
    assert (0.01, 0.02) in expand(item, "paper")[0].spec.rates


@pytest.mark.parametrize("name", ["default", "slurm"])
def test_every_profile_entry_is_explained(name):
    text = (ROOT / f"profiles/{name}/profile.yaml").read_text(encoding="utf-8")
    section = prose(ROOT / "profiles/README.md").split(f"## `profiles/{name}/profile.yaml`")[1]
    entries = re.findall(r"^[ #]*([a-z_-]+):(?= |$)", text, re.MULTILINE)
    entries = set(entries) - {"train_federated", "train_generator", "run_attack"}
    assert entries
    assert {entry for entry in entries if f"`{entry}`" not in section} == set()


def test_no_machine_and_no_package_index_is_named(page):
    text = page.read_text(encoding="utf-8")
    assert not MACHINE_PATH.search(text)
    assert not PACKAGE_INDEX.search(text)


def test_lines_are_short(page):
    text = prose(page) if page.name == "cards.md" else page.read_text(encoding="utf-8")  # which quotes what was printed
    long = [number for number, line in enumerate(text.splitlines(), 1)
            if len(line) > 120 and not line.startswith(("|", "#"))]  # fmt: skip
    assert not long


def test_what_belongs_to_a_list_is_indented_as_every_reader_of_markdown_wants(page):
    """A list or a paragraph within a list begins after four blanks, and a list after an empty line."""
    text = FENCE.sub("", page.read_text(encoding="utf-8"))
    assert re.findall(r"^ {1,3}(?:[*-]|\d+\.) .*", text, re.MULTILINE) == []
    assert re.findall(r"\n\n {1,3}\S.*", text) == []
    assert re.findall(r"^(?![*>| -]|\d+\.|<!--).+\n[*-] .*", text, re.MULTILINE) == []
