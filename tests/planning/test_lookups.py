"""Functions of wildcards that Snakemake may ask as often as it likes, and what they find."""

import inspect
import json
from types import SimpleNamespace

import pytest
from snakemake.exceptions import WorkflowError

from leaklab.items.items import load_items
from leaklab.planning.code_lock import CodeLock
from leaklab.planning.known_plan import KnownPlan
from leaklab.planning.lookups import Runs, of_run, signed
from leaklab.planning.piece_lookups import Pieces
from leaklab.planning.plan import Plan, build_plan
from leaklab.planning.result_lookups import OF_SCORES, WITH_CARDS, Results, pictures
from leaklab.records.files import write_json
from leaklab.specs.base import run_folder, run_id
from leaklab.specs.training import TrainSpec


@pytest.fixture
def runs():
    """Those of a plan without items."""
    return Runs(lambda: Plan({}), "cpu", CodeLock({}))


@pytest.fixture
def pieces():
    """Those of runs of six pieces, in chains of three."""
    cut = SimpleNamespace(pieces=6, chain=3, minutes=7, told={"pieces": 6})
    return Pieces(SimpleNamespace(cut=lambda stage, run: cut, spec_of=lambda stage: lambda wildcards: '{"seed":1}'))


def wildcards(**values):
    return SimpleNamespace(**values)


def test_a_run_is_looked_up_once():
    asked = []
    path = of_run(lambda wildcards: asked.append(wildcards.run) or f"{wildcards.run}.csv")
    pieces = [SimpleNamespace(run=run, piece=str(piece)) for piece in range(3) for run in ("a", "b")]
    assert [path(piece) for piece in pieces] == ["a.csv", "b.csv"] * 3
    assert asked == ["a", "b"]


def test_what_a_function_takes_is_what_it_says():
    """Snakemake gives a function by name what it says that it takes."""

    def memory(wildcards, attempt, input):
        return attempt * len(input) * int(wildcards.run)

    plain = inspect.signature(memory)
    assert inspect.signature(signed(memory)) == plain
    assert memory.__signature__ == plain
    assert list(inspect.signature(of_run(lambda wildcards: 1)).parameters) == ["wildcards"]


@pytest.mark.parametrize("look_up", ["spec_of", "generation_of", "rank_of"])
def test_a_run_that_nobody_asks_for_is_one_line(runs, look_up):
    with pytest.raises(WorkflowError, match=r"^leaklab: no item asks for train run some-run$"):
        getattr(runs, look_up)("train")(wildcards(run="some-run"))


def test_an_item_that_nobody_wrote_is_one_line(runs):
    results = Results(runs, lambda: [])
    with pytest.raises(WorkflowError, match=r"^leaklab: cannot make lrp/none at scale demo: there is no such item$"):
        results.item_spec(wildcards(paper="lrp", item="none", scale="demo"))


def test_of_an_attack_each_chain_begins_anew_and_the_last_piece_of_each_is_joined(pieces):
    before = pieces.part_before()
    assert [bool(before(wildcards(run="a", piece=str(number)))) for number in range(6)] == [False, True, True] * 2
    assert before(wildcards(run="a", piece="4")) == "results/runs/attack/a/piece-3.safetensors"
    assert pieces.parts_of("attack")(wildcards(run="a")) == [
        "results/runs/attack/a/piece-2.safetensors",
        "results/runs/attack/a/piece-5.safetensors",
    ]


def test_of_a_training_the_pieces_that_are_left_are_counted(pieces):
    before = pieces.marker_before()
    assert before(wildcards(run="a", left="5")) == []
    assert before(wildcards(run="a", left="1")) == "results/runs/train/a/left-2.json"
    assert pieces.after("train", "left-1.json")(wildcards(run="a")) == "results/runs/train/a/left-1.json"


@pytest.mark.parametrize(("stage", "at"), [("attack", {"piece": "4"}), ("train", {"left": "1"})])
def test_a_piece_is_told_its_number_and_what_the_run_is_told(pieces, stage, at):
    told = pieces.spec_of(stage)(wildcards(run="a", **at))
    assert json.loads(told) == {"pieces": 6, "piece": 4, "spec": {"seed": 1}}


def test_minutes_grow_with_attempts(pieces):
    assert pieces.runtime_of("attack")(wildcards(run="a"), attempt=3) == 21


def test_a_call_that_may_not_make_all_takes_what_is_here(runs, tmp_path):
    (tmp_path / "there").touch()
    paths = [str(tmp_path / name) for name in ("there", "away")]
    for allowed, found in (([], paths), (["publish_runs"], paths[:1])):
        assert Results(runs, lambda allowed=allowed: allowed).here(lambda _: paths)(wildcards(scale="demo")) == found


@pytest.mark.parametrize(("item", "data"), [("figure5", ["digits.safetensors", "digits.json"]), ("figure6", [])])
def test_a_figure_of_whole_batches_is_drawn_from_the_data_set_too(item, data):
    key = f"outpost/{item}"
    plan = KnownPlan.of(build_plan({key: load_items()[key]}, ("demo",)))
    found = pictures(plan, "demo", plan.items[key])
    assert [path for path in found if path.startswith("data/")] == [f"data/prepared/{name}" for name in data]
    assert len(found) > 10


TRAIN = {"dataset": "digits", "partition": "iid", "model": "mlp", "rates": [[0.1]], "rounds": 4, "local_steps": 1,
         "batch_size": 8, "seeds": [1]}  # fmt: skip


def test_a_training_that_is_there_keeps_what_it_went_on_from(tmp_path, monkeypatch):
    short, long = (TrainSpec.model_validate({**TRAIN, "until": until}) for until in (2, 4))
    plan = Plan({})
    plan.add(short)
    plan.add(long)
    monkeypatch.chdir(tmp_path)
    left = [f"{run_folder(short)}/{name}" for name in ("sweep.parquet", "weights.safetensors")]

    def shorter():
        return Pieces(Runs(lambda: plan, "cpu", CodeLock({}))).shorter()(wildcards(run=run_id(long)))

    assert shorter() == left
    record = run_folder(long) / "run.json"
    for read, expected in ([{}, []], [dict.fromkeys(left, "0"), left]):
        write_json(record, {"inputs": {"data/prepared/digits.safetensors": "0", **read}})
        assert shorter() == expected
    write_json(run_folder(short) / "run.json", {"inputs": {}})
    assert Pieces(Runs(lambda: plan, "cpu", CodeLock({}))).shorter()(wildcards(run=run_id(short))) == []


@pytest.mark.parametrize(
    ("wanted", "recorded", "device"), [("auto", None, "cuda"), ("auto", "cpu", "cpu"), ("", "cpu", "cuda")]
)
def test_what_device_auto_finds_is_no_reason_to_run_again(tmp_path, monkeypatch, wanted, recorded, device):
    monkeypatch.chdir(tmp_path)
    spec = TrainSpec.model_validate(TRAIN)
    if recorded:
        write_json(run_folder(spec) / "run.json", {"device": recorded})
    runs = Runs(lambda: Plan({}), "cuda", CodeLock({}), wanted)
    assert runs.device_of("train")(wildcards(run=run_id(spec))) == device


def test_a_table_reads_the_metric_cards_of_all_runs_that_have_some():
    """Or an archive of what it was made of could not show them."""
    read = dict(OF_SCORES)
    assert set(read) == set(WITH_CARDS)
    assert all("cards.json" in names for names in read.values())
