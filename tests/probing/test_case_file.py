"""Case files: what a slip of their owner says."""

from pathlib import Path

import pytest

from leaklab.probing.case_file import read_case
from leaklab.records.errors import UserError

WHOLE = """
import torch
import leaklab
client = leaklab.Client(torch.nn.Linear(3, 2))
inputs, targets = [[1.0, 2.0, 3.0]], [0]
"""


def _file(folder: Path, text: str) -> Path:
    path = folder / "case.py"
    path.write_text(text, encoding="utf-8")
    return path


def test_a_case_holds_what_the_file_defines(tmp_path: Path) -> None:
    (tmp_path / "helper.py").write_text("RATE = 0.5\n", encoding="utf-8")
    found = read_case(_file(tmp_path, WHOLE.replace("Linear(3, 2)", "Linear(3, 2), rate=__import__('helper').RATE")))
    assert found.client.rate == 0.5
    assert found.inputs is not None
    assert found.inputs.shape == (1, 3)
    assert found.name == "case.py"
    assert len(found.sha256) == 64


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("client = 3", "a 'client' of type int"),
        ("x = 1", "no 'client'"),
        ("def f(:", "line 1: "),
        ("a = 1\nb = a / 0", "line 2: ZeroDivisionError"),
        (WHOLE + "targets = None", "both inputs and targets"),
        (WHOLE + "inputs = 'images'", "'inputs' is str"),
        (WHOLE + "update = [1]", "'update' is list"),
        (WHOLE + "public = 3", "'public' is int"),
        (WHOLE + "public = (torch.ones(2, 3), torch.ones(1))", "as many targets"),
        (WHOLE + "others = {'a': {'b': 1}}", "'others['a']' is dict"),
        (WHOLE + "others = [1]", "'others' is list"),
    ],
)
def test_a_slip_is_one_line_that_names_the_file(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(UserError) as refusal:
        read_case(_file(tmp_path, text))
    assert said in str(refusal.value)
    assert "case.py" in str(refusal.value)
    assert "\n" not in str(refusal.value)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no such file"):
        read_case(tmp_path / "none.py")
