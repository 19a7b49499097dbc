"""The examples of record.md: the plain loop runs here, the Flower app in ``tests/flower``; the others are Python."""

import ast
import re
import runpy
from pathlib import Path

import torch
from torch import nn

from leaklab.probing.recorded import recorded, truth_of

PAGE = Path(__file__).parents[2] / "docs/record.md"
BLOCKS = {
    text.partition("\n")[0].removeprefix("# "): text
    for text in re.findall(r"^```python\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
}


def test_every_example_is_python():
    assert [name.split()[0] for name in BLOCKS] == [
        "app.py",
        "read.py",
        "case.py",
        "loop.py",
        "train.py",
        "recording.py",
    ]
    for text in BLOCKS.values():
        ast.parse(text)


def test_the_plain_loop_is_recorded_and_read_back(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("loop.py").write_text(BLOCKS["loop.py"], encoding="utf-8")
    made = runpy.run_path("loop.py")
    found = recorded("leaves", nn.Sequential(nn.Linear(20, 8), nn.Tanh(), nn.Linear(8, 3)))
    assert [one.facts["round"] for one in found] == [0, 1, 2]
    assert all(torch.equal(found[2].sent[name], value) for name, value in made["model"].state_dict().items())
    assert torch.equal(found[1].before["0.weight"], found[0].sent["0.weight"])
    inputs, targets = truth_of("private", found[2])
    assert torch.equal(inputs, made["inputs"])
    assert targets.tolist() == [0, 1, 2, 0]
