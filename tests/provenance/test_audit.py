"""The audit of a small project: dataset, partition, training, table, figure, each with its record."""

import json
import shutil
from pathlib import Path

import pytest

from leaklab.items.items import load_item
from leaklab.planning.code import code_of, code_of_result
from leaklab.planning.code_lock import CodeLock, witnessed
from leaklab.planning.plan import Plan, build_plan
from leaklab.provenance import published
from leaklab.provenance.audit import audit, spec_of
from leaklab.records.files import read_json, write_json
from leaklab.records.ledger import Ledger
from leaklab.records.record import canonical_json
from leaklab.records.recorder import Recorder
from leaklab.specs.attack import AttackSpec
from leaklab.specs.base import run_folder
from leaklab.specs.capture import CaptureSpec
from leaklab.specs.stages import observation_folder
from leaklab.specs.training import PartitionSpec, TrainSpec

ROOT = Path(__file__).parents[2]
PARTITION = PartitionSpec.model_validate(
    {"dataset": "digits", "partition": {"name": "two-clients", "shard_size": 25}},
)
TRAIN = TrainSpec.model_validate(
    {
        **PARTITION.model_dump(),
        "model": "mlp",
        "rates": [[0.1]],
        "rounds": 1,
        "local_steps": 1,
        "batch_size": 4,
        "seeds": [1],
    }
)
LEFT_OVER = TRAIN.model_copy(update={"rounds": 2})
ITEM = {"paper": "lrp", "item": "table1", "scale": "small"}
DATA = Path("data/prepared/digits.safetensors")
DEALT = run_folder(PARTITION) / "partition.json"
SWEEP = run_folder(TRAIN) / "sweep.parquet"
OLD_SWEEP = run_folder(LEFT_OVER) / "sweep.parquet"
CAPTURE = CaptureSpec.model_validate({"dataset": "digits", "images": {"count": 1, "seed": 3}, "model": "mlp"})
ATTACK = AttackSpec.model_validate({"capture": CAPTURE, "attack": "idlg", "iterations": 2, "seed": 4})
SEEN = observation_folder(CAPTURE) / "observation.safetensors"
FOUND = run_folder(ATTACK) / "reconstruction.safetensors"
YAML = Path("config/items/lrp/table1.yaml")
TABLE = Path("results/small/lrp/table1.csv")
FIGURE = Path("figures/small/lrp/table1.png")


def write(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


def make(rule, record, spec, inputs, output, code):
    write(output, f"made by {rule} of {record}")
    Recorder(rule, code).finish(Path(record), spec, {"read": inputs}, {"made": output})


def make_run(rule, spec, inputs, output):
    make(rule, output.parent / "run.json", spec.model_dump(mode="json"), inputs, output, code_of(spec).digest)


@pytest.fixture(autouse=True)
def project(tmp_path, monkeypatch):
    """The chain of one table, and a training that an earlier setting has left over."""
    monkeypatch.chdir(tmp_path)
    # whatever lies above the folder of temporary files is not the project's checkout
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    write(YAML, "title: a table\n")
    dataset = {"dataset": "digits"}
    make("fetch_dataset", DATA.with_suffix(".run.json"), dataset, [], DATA, code_of_result("fetch_dataset").digest)
    make_run("partition_data", PARTITION, [DATA], DEALT)
    make_run("train_federated", TRAIN, [DATA, DEALT], SWEEP)
    make_run("train_federated", LEFT_OVER, [DATA, DEALT], OLD_SWEEP)
    make("make_table", TABLE.with_suffix(".run.json"), ITEM, [YAML, SWEEP], TABLE, code_of_result("make_table").digest)
    make(
        "make_figure",
        FIGURE.with_suffix(".run.json"),
        ITEM,
        [YAML, TABLE],
        FIGURE,
        code_of_result("make_figure").digest,
    )


def found():
    return audit(Ledger.scan())


def change_record(path, **fields):
    write_json(path, {**read_json(path), **fields})


def flip_one_bit(path):
    content = bytearray(path.read_bytes())
    content[3] ^= 1
    path.write_bytes(content)


def test_an_untouched_project_passes():
    result = found()
    assert (result.breaks, result.stale, result.absent) == ([], [], set())
    assert (result.records, result.files) == (6, 7)


@pytest.mark.parametrize("path", [TABLE, FIGURE, OLD_SWEEP])
def test_one_flipped_bit_in_an_output_is_named(path):
    flip_one_bit(path)
    changed = [line for line in found().breaks if "changed since" in line]
    assert len(changed) == 1
    record = path.parent / "run.json" if path == OLD_SWEEP else path.with_suffix(".run.json")
    assert changed[0] == f"{path}: changed since {record} recorded it"


def test_a_changed_output_is_named_by_everything_that_was_made_from_it():
    flip_one_bit(SWEEP)
    assert found().breaks == [
        f"{SWEEP}: changed since {SWEEP.parent}/run.json recorded it",
        f"{SWEEP}: not the file that {TABLE.with_suffix('.run.json')} was made from",
    ]


def test_a_changed_input_of_the_repository_is_named():
    write(YAML, "title: another table\n")
    assert found().breaks == [
        f"{YAML}: not the file that {record.with_suffix('.run.json')} was made from" for record in (TABLE, FIGURE)
    ]


def test_what_is_not_in_this_checkout_is_listed_and_is_no_break():
    for path in (SWEEP, DATA):
        path.unlink()
    result = found()
    assert (result.breaks, result.stale) == ([], [])
    assert result.absent == {str(SWEEP), str(DATA)}
    assert result.files == 5


def test_a_run_of_another_machine_is_no_break_where_the_published_result_cannot_be_made_again():
    """The sweep is what its own record says; the table rests on another one, and on a file that is not here."""
    other = SWEEP.with_name("weights.safetensors")
    record = TABLE.with_suffix(".run.json")
    inputs = {**read_json(record)["inputs"], str(SWEEP): "1" * 64}
    change_record(record, inputs=inputs)
    line = f"{SWEEP}: not the file that {record} was made from"
    assert (found().breaks, found().remade) == ([line], [])
    change_record(record, inputs={**inputs, str(other): "2" * 64})
    assert (found().breaks, found().remade) == ([], [line])
    flip_one_bit(SWEEP)
    assert line in found().breaks


def test_the_record_of_a_run_that_was_made_again_is_no_break_where_the_published_costs_cannot_be():
    """Costs are read from the records of runs, and no run takes the same time twice."""
    of_run, record = SWEEP.parent / "run.json", TABLE.with_suffix(".run.json")
    inputs = {**read_json(record)["inputs"], str(of_run): "1" * 64}
    change_record(record, inputs=inputs)
    line = f"{of_run}: not the file that {record} was made from"
    assert (found().breaks, found().remade) == ([line], [])
    inputs[str(SWEEP.with_name("weights.safetensors"))] = "2" * 64
    change_record(record, inputs=inputs, started="2000-01-01T00:00:00+00:00")
    assert (found().breaks, found().remade) == ([], [line])
    # a record older than its reader was not made again: somebody changed it
    change_record(record, started="2999-01-01T00:00:00+00:00")
    assert (found().breaks, found().remade) == ([line], [])


def test_a_result_of_uncommitted_code_is_stale():
    record = TABLE.with_suffix(".run.json")
    change_record(record, dirty=True)
    result = found()
    assert result.stale == [f"{record}: made by uncommitted code: commit, then run snakemake again"]
    assert result.breaks == []


@pytest.mark.parametrize("here", [False, True, None])
def test_other_changes_beside_a_run_do_not_count_where_its_code_is_all_in_git(monkeypatch, here):
    """The flag speaks of the whole checkout, the digest of what ran."""
    monkeypatch.setattr("leaklab.provenance.audit.git_state", lambda: {"commit": "c" * 40, "dirty": here})
    same, other = SWEEP.parent / "run.json", TABLE.with_suffix(".run.json")
    change_record(same, dirty=True)
    change_record(other, dirty=True, code="0" * 16)
    lines = [line.split(": ")[0] for line in found().stale if "uncommitted" in line]
    assert sorted(lines) == sorted(map(str, [other] if here is False else [same, other]))


@pytest.mark.parametrize("record", [SWEEP.parent / "run.json", TABLE.with_suffix(".run.json")])
def test_a_result_of_other_code_is_stale(record):
    change_record(record, code="0" * 16)
    assert found().stale == [
        f"{record}: made by other code than the code here: run snakemake again, or `leaklab adopt`"
    ]


def test_left_over_runs_are_checked_for_their_bytes_only():
    change_record(OLD_SWEEP.parent / "run.json", code="0" * 16, dirty=True, inputs={str(YAML): "0" * 64})
    assert found().breaks == found().stale == []
    flip_one_bit(OLD_SWEEP)
    assert len(found().breaks) == 1


def test_the_record_of_a_setting_that_is_no_longer_known_is_stale():
    """An old result must not keep the audit of the others from ending."""
    record = SWEEP.parent / "run.json"
    spec = read_json(record)["spec"]
    change_record(record, spec={**spec, "gone": 1})
    assert found().stale == [
        f"{record}: made by other code than the code here: run snakemake again, or `leaklab adopt`"
    ]


def test_the_record_of_a_step_that_is_gone_is_stale():
    record = TABLE.with_suffix(".run.json")
    change_record(record, rule="draw_table")
    assert found().stale == [
        f"{record}: made by other code than the code here: run snakemake again, or `leaklab adopt`"
    ]


def test_the_step_lists_what_is_stale_and_stops_at_what_was_changed():
    from leaklab.steps import audit_provenance
    from leaklab.steps.base import main

    verdict = Path("results/small/provenance/audit.json")

    def step():
        arguments = [
            "--input",
            f"index={FIGURE}",
            "--output",
            f"audit={verdict}",
            f"run={verdict.with_suffix('.run.json')}",
        ]
        main("audit_provenance", audit_provenance.run, arguments)

    change_record(TABLE.with_suffix(".run.json"), dirty=True)
    step()
    assert len(json.loads(verdict.read_text())["stale"]) == 1
    flip_one_bit(FIGURE)
    with pytest.raises(SystemExit, match=rf"leaklab audit_provenance: {FIGURE}: changed since .* \(1 in all\)"):
        step()
    assert str(FIGURE) in json.loads(verdict.read_text())["breaks"][0]


def test_the_step_leaves_alone_what_is_made_from_the_page_afterwards():
    """Without this, the crate of an earlier run would stop every later one."""
    from leaklab.steps import audit_provenance
    from leaklab.steps.base import main

    flip_one_bit(FIGURE)
    verdict = Path("results/small/provenance/audit.json")
    main("audit_provenance", audit_provenance.run, ["--input", f"index={TABLE}", "--output", f"audit={verdict}",
                                                    f"run={verdict.with_suffix('.run.json')}"])  # fmt: skip
    assert json.loads(verdict.read_text())["breaks"] == []


def attack_that_was_told(spec):
    """Make a capture and an attack on it that a table rests on; return what the record of the attack stands for."""
    make("capture_updates", run_folder(CAPTURE) / "run.json", CAPTURE.model_dump(mode="json"), [DATA], SEEN,
         code_of(CAPTURE).digest)  # fmt: skip
    make("run_attack", FOUND.parent / "run.json", spec, [SEEN], FOUND, code_of(ATTACK).digest)
    make("make_table", TABLE.with_suffix(".run.json"), ITEM, [YAML, FOUND], TABLE, code_of_result("make_table").digest)
    ledger = Ledger.scan()
    return spec_of(ledger.makers[str(FOUND)], ledger)


def test_the_spec_of_an_attack_is_what_it_was_told_and_the_capture_of_its_observation():
    made = attack_that_was_told(json.loads(canonical_json(ATTACK.told())))
    assert made == ATTACK
    assert run_folder(made) == FOUND.parent
    assert found().stale == []


def test_an_attack_whose_capture_has_no_record_is_stale():
    attack_that_was_told(json.loads(canonical_json(ATTACK.told())))
    (run_folder(CAPTURE) / "run.json").unlink()
    assert [line.partition(":")[0] for line in found().stale] == [f"{FOUND.parent}/run.json"]


def test_a_record_of_an_attack_that_was_told_its_capture_is_still_read():
    assert attack_that_was_told(ATTACK.model_dump(mode="json")) == ATTACK


def adopt_older_table(old):
    """Make the table a work of older code that today's code stands for."""
    record = TABLE.with_suffix(".run.json")
    change_record(record, code=old)
    (made,) = (entry for entry in Ledger.scan().entries if entry.path == record)
    shown = {str(record): witnessed(made)}
    CodeLock().with_adopted("make_table", (old,), code_of_result("make_table").digest, shown).write()


def test_an_adopted_record_is_not_stale_and_its_evidence_is_counted():
    adopt_older_table("0" * 16)
    result = found()
    assert (result.breaks, result.stale) == ([], [])
    assert result.adopted == {TABLE.with_suffix(".run.json")}
    assert result.evidence == {str(TABLE.with_suffix(".run.json"))}
    assert list(CodeLock.load().faults(Ledger.scan())) == []


def test_adopted_code_of_one_rule_says_nothing_about_another():
    adopt_older_table("0" * 16)
    record = FIGURE.with_suffix(".run.json")
    change_record(record, code="0" * 16)
    assert [line.split(":")[0] for line in found().stale] == [str(record)]


def test_an_adopted_record_of_uncommitted_code_stays_stale():
    adopt_older_table("0" * 16)
    change_record(TABLE.with_suffix(".run.json"), dirty=True)
    assert ["uncommitted" in line for line in found().stale] == [True]


def test_a_forged_record_contradicts_the_evidence():
    adopt_older_table("0" * 16)
    change_record(TABLE.with_suffix(".run.json"), outputs={str(TABLE): "0" * 64})
    (fault,) = CodeLock.load().faults(Ledger.scan())
    assert f"{TABLE.with_suffix('.run.json')} made something else" in fault


def plan_of_table():
    """Return the plan of table 1; a plan looks data sets up in the catalog."""
    Path("config").mkdir(exist_ok=True)
    shutil.copy(ROOT / "config/datasets.yaml", "config/datasets.yaml")
    return build_plan({"lrp/table1": load_item(ROOT / YAML)})


def test_a_table_without_a_record_is_named():
    plan = plan_of_table()
    TABLE.with_suffix(".run.json").unlink()
    lines = published.faults(plan, Ledger.scan())
    assert lines == [f"{TABLE}: no record says how it was made: delete it and run snakemake again"]


def test_a_lost_result_is_named_and_a_lost_run_is_not():
    TABLE.unlink()
    SWEEP.unlink()
    (line,) = published.faults(Plan({}), Ledger.scan())
    assert line.startswith(f"{TABLE}: missing")


def test_a_judged_scale_has_the_files_of_all_its_items():
    plan = plan_of_table()
    assert published.faults(plan, Ledger.scan()) == []
    make("judge_claims", "results/small/judgement.run.json", {"scale": "small"}, [], Path("results/small/claims.csv"),
         code_of_result("judge_claims").digest)  # fmt: skip
    missing = {line.split(":")[0] for line in published.faults(plan, Ledger.scan())}
    assert "figures/small/lrp/table1.pdf" in missing
    assert str(TABLE) not in missing
