"""What every step does around its own work: arguments, errors in one line, the record."""

import errno
import hashlib
import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from torch.nn import Conv2d, Flatten, Linear, Sequential

from leaklab.federated.forms.network import trainable
from leaklab.models.lanes.library import FACT, library
from leaklab.records.errors import UserError
from leaklab.steps.base import main

ARGUMENTS = ["--spec", '{"scale": "small"}', "--output", "table=out/table.csv", "run=out/run.json"]
FAILING = """
import errno, os, signal, sys
from leaklab.records.errors import UserError
from leaklab.steps.base import main

def pressed(other):
    try:
        os.kill(os.getpid(), signal.SIGINT)
    except KeyboardInterrupt:
        return other

def run(job):
    raise {error}

main("make_table", run, {arguments})
"""


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    for name in ("one.csv", "two.csv"):
        Path(name).write_text(name, encoding="utf-8")
    return tmp_path


def write_table(job):
    job.outputs["table"].parent.mkdir(exist_ok=True)
    job.outputs["table"].write_text("a,b\n", encoding="utf-8")


def raising(error):
    def run(job):
        write_table(job)
        raise error

    return run


def run_of(*more):
    """Run a step that only looks at its job; return the job."""
    seen = []

    def run(job):
        write_table(job)
        seen.append(job)

    main("make_table", run, [*ARGUMENTS, *more])
    return seen[0]


def ended(error):
    """Return what a process prints on stderr when its step raises, and its exit status."""
    program = FAILING.format(error=error, arguments=ARGUMENTS)
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.stdout == ""
    return done.returncode, done.stderr


class TestJob:
    def test_spec_device_and_outputs_come_from_the_command_line(self):
        job = run_of("--device", "cpu", "--code", "abc")
        assert (job.spec, job.device, job.recorder.code) == ({"scale": "small"}, "cpu", "abc")
        assert job.outputs == {"table": Path("out/table.csv")}

    def test_a_name_may_stand_for_several_files(self):
        job = run_of("--input", "item=one.csv", "tables=one.csv", "tables=two.csv")
        assert job.inputs == {"item": [Path("one.csv")], "tables": [Path("one.csv"), Path("two.csv")]}
        assert job.input("item") == Path("one.csv")
        with pytest.raises(ValueError, match="too many values"):
            job.input("tables")

    def test_a_name_without_a_file_is_an_empty_list(self):
        """The shell writes ``sweeps=`` for an item that has none."""
        job = run_of("--input", "sweeps=", "tables=one.csv")
        assert job.inputs == {"sweeps": [], "tables": [Path("one.csv")]}

    def test_only_the_first_equals_sign_divides(self):
        Path("a=b.csv").write_text("", encoding="utf-8")
        assert run_of("--input", "item=a=b.csv").input("item") == Path("a=b.csv")

    @pytest.mark.parametrize("arguments", [[], ["--output", "run=r", "--device", "tpu"], ["--input", "a=b"]])
    def test_wrong_arguments_show_the_usage(self, arguments, capsys):
        with pytest.raises(SystemExit) as caught:
            main("make_table", write_table, arguments)
        assert caught.value.code == 2
        assert "usage: python -m leaklab.steps.make_table" in capsys.readouterr().err


class TestRecord:
    def test_inputs_and_outputs_are_recorded_with_their_hashes(self):
        run_of("--input", "item=one.csv", "tables=one.csv", "tables=two.csv", "sweeps=", "--code", "abc")
        record = json.loads(Path("out/run.json").read_text())
        assert record["inputs"] == {name: hashlib.sha256(name.encode()).hexdigest() for name in ("one.csv", "two.csv")}
        assert record["outputs"] == {"out/table.csv": hashlib.sha256(b"a,b\n").hexdigest()}
        assert (record["rule"], record["spec"], record["code"]) == ("make_table", {"scale": "small"}, "abc")

    def test_the_record_is_no_output_of_itself(self):
        run_of()
        assert "out/run.json" not in json.loads(Path("out/run.json").read_text())["outputs"]

    def test_notes_are_facts_and_later_ones_win(self):
        def run(job):
            write_table(job)
            job.note(rows=1, substitutes=[])
            job.note(rows=2)

        main("make_table", run, ARGUMENTS)
        assert json.loads(Path("out/run.json").read_text())["facts"] == {"rows": 2, "substitutes": []}

    def test_compiled_steps_are_a_fact_of_the_job_that_took_them_and_of_no_other(self):
        def train(job):
            write_table(job)
            trainable(Sequential(Conv2d(1, 2, 3), Flatten(), Linear(2 * 6 * 6, 3)), (1, 8, 8))

        facts = []
        for run in (train, write_table):
            main("make_table", run, ARGUMENTS)
            facts.append(json.loads(Path("out/run.json").read_text())["facts"])
        assert facts == [{FACT: True} if library() else {}, {}]

    def test_outputs_that_the_step_adds_are_recorded_too(self):
        def run(job):
            write_table(job)
            job.outputs["page"] = Path("one.csv")

        main("make_table", run, ARGUMENTS)
        assert set(json.loads(Path("out/run.json").read_text())["outputs"]) == {"out/table.csv", "one.csv"}

    @pytest.mark.parametrize(
        "error", [UserError("no"), OSError(errno.ENOSPC, "full"), ValueError("bug"), KeyboardInterrupt()]
    )
    def test_a_failed_step_is_not_recorded(self, error):
        with pytest.raises((SystemExit, ValueError, KeyboardInterrupt)):
            main("make_table", raising(error), ARGUMENTS)
        assert Path("out/table.csv").exists()
        assert not Path("out/run.json").exists()

    def test_a_step_that_did_not_write_its_output_is_not_recorded(self):
        with pytest.raises(FileNotFoundError, match=r"table\.csv"):
            main("make_table", lambda job: None, ARGUMENTS)
        assert not Path("out/run.json").exists()


class TestErrors:
    def test_what_the_user_can_mend_is_one_line(self):
        assert ended('UserError("mnist is missing: fetch it")') == (
            1,
            "leaklab make_table: mnist is missing: fetch it\n",
        )

    def test_ctrl_c_is_heard_by_what_tests_start_even_where_a_script_started_them_in_the_background(self):
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler

    def test_ctrl_c_is_one_line_whatever_was_raised(self):
        for error in ("KeyboardInterrupt()", 'pressed(ValueError("no shape"))', 'pressed(UserError("fetch it"))'):
            assert ended(error) == (
                130,
                "leaklab make_table: it was interrupted: run the same command again; what is finished is kept\n",
            )

    @pytest.mark.parametrize("kind", ["ENOSPC", "EDQUOT"])
    def test_a_full_disk_is_one_line_that_names_the_file(self, kind):
        status, text = ended(f'OSError(errno.{kind}, "no room", "results/table.csv")')
        assert status == 1
        assert text.startswith("leaklab make_table: the disk is full (results/table.csv): free some space")
        assert text.count("\n") == 1

    def test_a_full_disk_without_a_file_is_one_line_too(self):
        assert ended('OSError(errno.ENOSPC, "no room")')[1].startswith("leaklab make_table: the disk is full: free")

    @pytest.mark.parametrize("error", ['OSError(errno.EACCES, "no", "f")', 'ValueError("bug")', 'KeyError("bug")'])
    def test_a_mistake_of_ours_keeps_its_traceback(self, error):
        status, text = ended(error)
        assert status == 1
        assert text.startswith("Traceback (most recent call last):")
        assert "in run\n" in text

    def test_a_real_full_disk_is_noticed(self):
        """/dev/full refuses every byte as a full disk does."""
        if not Path("/dev/full").exists():
            pytest.skip("needs /dev/full")

        def run(job):
            Path("/dev/full").write_text("x" * 100_000, encoding="utf-8")

        with pytest.raises(SystemExit, match="leaklab make_table: the disk is full"):
            main("make_table", run, ARGUMENTS)


def test_progress_goes_through_all_items_and_says_how_far_it_is(caplog):
    seen = []

    def run(job):
        write_table(job)
        seen.extend(job.track(range(40), total=40, label="rounds"))

    with caplog.at_level("INFO", logger="leaklab"):
        main("make_table", run, ARGUMENTS)
    assert seen == list(range(40))
    assert 5 <= len(caplog.messages) <= 12
    assert caplog.messages[-1].startswith("rounds: 40 of 40")


PLUGIN = """
class Broken:
    def gradient(self):
        return 1 / 0

PLUGIN = Broken
"""


TALKING = """
import logging
from leaklab.steps.base import main

def run(job):
    job.outputs["table"].parent.mkdir()
    job.outputs["table"].write_text("a")
    for name in ("leaklab", "fontTools.subset"):
        logging.getLogger(name).info("%s works", name)
        logging.getLogger(name).warning("%s warns", name)

main("make_table", run, {arguments})
"""


def test_a_log_has_the_lines_of_the_house_and_the_warnings_of_others():
    command = [sys.executable, "-c", TALKING.format(arguments=ARGUMENTS)]
    said = subprocess.run(command, capture_output=True, text=True, check=True).stderr
    assert [line.split(" ", 1)[1] for line in said.splitlines()] == [
        "leaklab works", "leaklab warns", "fontTools.subset warns",
    ]  # fmt: skip


def test_a_plugin_that_raises_is_named_with_its_line(folder, package_at, capsys):
    (folder / "leaklab/defenses").mkdir(parents=True)
    file = folder / "leaklab/defenses/broken.py"
    file.write_text(PLUGIN, encoding="utf-8")
    package_at(folder / "leaklab")
    names = {}
    exec(compile(PLUGIN, file, "exec"), names)
    with pytest.raises(SystemExit) as caught:
        main("make_table", lambda job: names["PLUGIN"]().gradient(), ARGUMENTS)
    assert str(caught.value) == (
        "leaklab make_table: leaklab/defenses/broken.py, line 4: ZeroDivisionError: division by zero: "
        "correct the plug-in or its settings"
    )


def test_an_error_of_our_own_keeps_its_traceback():
    with pytest.raises(ZeroDivisionError):
        main("make_table", lambda job: 1 / 0, ARGUMENTS)
