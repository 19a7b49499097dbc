"""Files that cannot be judged, each with the one line that says why, and what is doubtful, as a warning."""

import sys

import pytest

from leaklab.guests.child import in_child
from leaklab.guests.files import find
from leaklab.guests.lint import linted
from leaklab.records.errors import UserError

FILE = "guest.py"


@pytest.fixture
def guest(tmp_path, monkeypatch):
    """Return a function that writes a guest's file."""
    monkeypatch.setattr(sys, "path", [*sys.path])

    def write(source):
        (tmp_path / FILE).write_text(source)
        return tmp_path / FILE

    return write


def function(*lines, head="import torch"):
    body = "\n".join(f"    {line}" for line in lines)
    return f"{head}\ndef defend(gradients, context):\n{body}\n"


def of_class(*lines, head="from leaklab import Defense"):
    body = "\n".join(f"    {line}" for line in lines)
    return f"{head}\nclass Mine(Defense):\n{body}\n"


FIRST = "first = next(iter(gradients))"
REFUSED = {
    "syntax": ("def defend(gradients:\n    return\n", "line 1: not Python ('(' was never closed): correct it"),
    "indentation": ("def defend(gradients):\nreturn gradients\n", "line 2: not Python"),
    "null bytes": ("x = 1\0\n", "not Python"),
    "empty": ("", "offers nothing to judge: give it one class with base leaklab.Defense"),
    "private only": ("def _defend(gradients):\n    return gradients\n", "offers nothing to judge"),
    "other first argument": ("def defend(model):\n    return model\n", "offers nothing to judge"),
    "two functions": (
        "def one(gradients):\n    return gradients\ndef two(gradients):\n    return gradients\n",
        "offers one (line 1) and two (line 3): say which one is meant, PLUGIN = one",
    ),
    "two classes": (
        "from leaklab.defenses.base import Defense\nclass A(Defense): pass\nclass B(Defense): pass\n",
        "offers A (line 2) and B (line 3): say which one is meant, PLUGIN = A",
    ),
    "import error": (
        function("return gradients", head="import nothing_like_this"),
        "line 1: ModuleNotFoundError while it was imported: No module named 'nothing_like_this'",
    ),
    "fails when imported": (
        function("return gradients", head="1 / 0"),
        "line 1: ZeroDivisionError while it was imported",
    ),
    "exit when imported": (
        function("return gradients", head="raise SystemExit(3)"),
        "line 1: it ends the process while it was imported: leave out exit()",
    ),
    "PLUGIN of nothing": ("PLUGIN = 3\n", "line 1: PLUGIN is a int: make it a class with base leaklab.Defense"),
    "needs settings": (
        of_class("def __init__(self, size): self.size = size"),
        "TypeError while it is made",
    ),
    "returns nothing": (function("pass"), "gradient returned None: return a mapping from the names to tensors"),
    "returns a list": (function("return list(gradients.values())"), "gradient returned list: return a mapping"),
    "leaves one out": (
        function("return dict(list(gradients.items())[1:])"),
        "gradient left out 'fc1.weight': return every",
    ),
    "one more": (function("return {**gradients, 'x': torch.zeros(1)}"), "gradient returned 'x', which is no parameter"),
    "numpy": (
        function("return {k: v.numpy() for k, v in gradients.items()}"),
        "gradient returned numpy.ndarray for 'fc1.weight': return a torch.Tensor",
    ),
    "numbers": (function("return {k: 0.0 for k in gradients}"), "gradient returned float for 'fc1.weight'"),
    "flat": (
        function("return {k: v.flatten() for k, v in gradients.items()}"),
        "gradient returned 'fc1.weight' of shape [50176]: make it [64, 784]",
    ),
    "half": (
        function("return {k: v.half() for k, v in gradients.items()}"),
        "gradient returned 'fc1.weight' as torch.float16: give back torch.float32, as it came",
    ),
    "double": (
        function("return {k: v.double() for k, v in gradients.items()}"),
        "gradient returned 'fc1.weight' as torch.float64: give back torch.float32, as it came",
    ),
    "whole numbers": (function("return {k: v.round().long() for k, v in gradients.items()}"), "as torch.int64"),
    "sparse": (function("return {k: v.to_sparse() for k, v in gradients.items()}"), "a sparse tensor for 'fc1.weight'"),
    "another device": (
        function("return {k: v.to('meta') for k, v in gradients.items()}"),
        "a tensor on meta for 'fc1.weight': return a dense tensor on cpu",
    ),
    "not finite": (
        function("return {k: v / 0 for k, v in gradients.items()}"),
        "of an ordinary gradient it sends 'fc1.weight' that is not finite: correct it",
    ),
    "in place": (
        function("for v in gradients.values(): v.mul_(2)", "return gradients"),
        "gradient changes its argument in place: work on copies (value.clone())",
    ),
    "takes a name out": (
        function("gradients.pop(next(iter(gradients)))", "return gradients"),
        "changes its argument in place",
    ),
    "weights in place": (
        function("next(iter(context.weights.values())).zero_()", "return gradients"),
        "gradient changes context.weights in place",
    ),
    "batch in place": (
        function("context.batch['images'].zero_()", "return gradients"),
        "gradient changes context.batch in place",
    ),
    "fails": (
        function(FIRST, "return gradients[first] @ gradients[first]"),
        "line 4: RuntimeError while it defends a gradient",
    ),
    "fails beneath": (
        function(
            "return helper(gradients)", head="import torch\ndef helper(g):\n    raise ValueError('no\\nsuch thing')"
        ),
        "line 3: ValueError while it defends a gradient: no",
    ),
    "unknown fact": (
        function("return {k: v * context.learning_rate for k, v in gradients.items()}"),
        "line 3: AttributeError while it defends a gradient",
    ),
    "exits": (
        function("import sys", "sys.exit(0)"),
        "line 4: it ends the process while it defends a gradient: leave out exit()",
    ),
    "interrupts": (function("raise KeyboardInterrupt"), "line 3: it ends the process while it defends a gradient"),
    "writes a file": (
        function("open('kept.txt', 'w').write('x')", "return gradients"),
        "line 3: it opens 'kept.txt' while it defends: do that when the file is imported",
    ),
    "starts a program": (
        function("import subprocess", "subprocess.run(['true'])", "return gradients"),
        "line 4: it starts a program while it defends",
    ),
    "leaves a switch": (
        function("torch.set_default_dtype(torch.float64)", "return gradients"),
        "it leaves torch's default dtype changed: put it back",
    ),
    "leaves gradients off": (
        function("torch.set_grad_enabled(False)", "return gradients"),
        "it leaves whether torch records gradients changed",
    ),
    "update of another shape": (
        of_class("def update(self, delta, context): return {k: v[:1] for k, v in delta.items()}"),
        "update returned 'fc1.weight' of shape [1, 784]: make it [64, 784]",
    ),
}
SAMPLES = "def samples(self, images, labels, context):"
NETWORK = "def network(self, network):"
REFUSED |= {
    "samples: images alone": (
        of_class(f"{SAMPLES} return images"),
        "samples returned torch.Tensor: return two tensors, images and labels",
    ),
    "samples: another shape": (
        of_class(f"{SAMPLES} return images[:, :, :14], labels"),
        "samples returned images of shape [1, 1, 14, 28]: make it [samples, 1, 28, 28]",
    ),
    "samples: none": (of_class(f"{SAMPLES} return images[:0], labels[:0]"), "make it [samples, 1, 28, 28]"),
    "samples: too bright": (
        of_class(f"{SAMPLES} return 2 * images, labels"),
        "samples returned images from 0 to 1.92: keep them in [0, 1]",
    ),
    "samples: not finite": (of_class(f"{SAMPLES} return images / 0, labels"), "samples returned images that are not"),
    "samples: soft labels": (
        of_class(f"{SAMPLES} return images, labels.float()"),
        "labels as torch.float32 of shape [1]: make them torch.float32 and torch.int64 [1], one whole label",
    ),
    "samples: labels left out": (of_class(f"{SAMPLES} return images.repeat(2, 1, 1, 1), labels"), "torch.int64 [2]"),
    "samples: no such label": (of_class(f"{SAMPLES} return images, labels + 10"), "IndexError while it defends"),
    "samples: in place": (
        of_class(f"{SAMPLES} return images.mul_(0.5), labels"),
        "samples changes its argument in place: work on copies",
    ),
    "samples: fails": (of_class(SAMPLES, "    return images @ labels, labels"), "line 4: RuntimeError while it"),
    "network: nothing": (of_class(f"{NETWORK} pass"), "network returned None: return an nn.Sequential"),
    "network: no sequence": (of_class(f"{NETWORK} return network[-1]"), "returned torch.nn.modules.linear.Linear"),
    "network: other outputs": (
        of_class(f"{NETWORK} return network[:-1]"),
        "network returned one whose output is [4, 64]: logits are [4, 10]",
    ),
    "network: layers that do not fit": (
        of_class(
            f"{NETWORK} return nn.Sequential(*network, nn.Linear(3, 10))",
            head="from torch import nn\nfrom leaklab import Defense",
        ),
        "RuntimeError while it changes the network",
    ),
    "network: running statistics": (
        of_class(
            f"{NETWORK} return nn.Sequential(*network, nn.BatchNorm1d(10))",
            head="from torch import nn\nfrom leaklab import Defense",
        ),
        "network returned one with the buffer '",
    ),
    "network: draws in evaluation": (
        "import torch\nfrom torch import nn\nfrom leaklab import Defense\n"
        "class Draw(nn.Module):\n    def forward(self, x): return x + torch.randn_like(x)\n"
        "class Mine(Defense):\n    def network(self, network): return nn.Sequential(*network, Draw())\n",
        "network returned one that draws in evaluation too",
    ),
    "network: not finite": (
        of_class(NETWORK, "    network[-1].weight.data /= 0", "    return network"),
        "network returned one whose output is not finite",
    ),
    "network: too large": (
        of_class(
            f"{NETWORK} return nn.Sequential(*network, nn.Linear(10, 30000), nn.Linear(30000, 10))",
            head="from torch import nn\nfrom leaklab import Defense",
        ),
        "parameters: make it one of at most 200000",
    ),
    "penalty: no number": (
        of_class("def penalty(self, network): return network[-1].weight"),
        "penalty returned a tensor of shape [10, 64]: return one number",
    ),
    "penalty: no tensor": (of_class("def penalty(self, network): return 0.0"), "penalty returned float: return one"),
}
DOUBTFUL = {
    "no hook": (of_class("pass"), {"nothing"}),
    "global torch": (function("return {k: v + torch.randn_like(v) for k, v in gradients.items()}"), {"global torch"}),
    "global numpy": (
        function("return {k: v * float(np.random.rand()) for k, v in gradients.items()}", head="import numpy as np"),
        {"global numpy"},
    ),
    "global random": (
        function("return {k: v * random.random() for k, v in gradients.items()}", head="import random"),
        {"global random"},
    ),
    "clock": (
        function("return {k: v * (time.time() % 1 + 1) for k, v in gradients.items()}", head="import time"),
        {"clock", "not repeatable"},
    ),
    "memory": (
        function("seen.append(1)", "return {k: v / len(seen) for k, v in gradients.items()}", head="seen = []"),
        {"memory"},
    ),
    "zero": (
        function(
            "size = float(sum(v.pow(2).sum() for v in gradients.values()))",
            "assert size == size",
            "return {k: v / size for k, v in gradients.items()}",
        ),
        {"not finite on huge", "not finite on tiny", "fails on zero", "fails on tiny", "not finite on zero"},
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_judged_is_refused_in_one_line(name, guest):
    source, line = REFUSED[name]
    file = guest(source)
    with pytest.raises(UserError) as refused:
        linted(file, lambda phase: None)
    said = str(refused.value)
    assert said.startswith(str(file))
    assert line in said
    assert "\n" not in said


@pytest.mark.parametrize("name", DOUBTFUL)
def test_what_is_doubtful_is_a_warning(name, guest):
    source, words = DOUBTFUL[name]
    warnings = linted(guest(source), lambda phase: None)["warnings"]
    found = {one["what"] for one in warnings}
    assert found
    assert found <= words if name == "zero" else found == words
    assert all(str(FILE) in one["text"] and "\n" not in one["text"] for one in warnings)


def test_a_setting_of_a_hooks_name_is_no_hook(guest):
    source = of_class(
        "samples: int = 3", "network: str = 'x'", "def gradient(self, gradients, context): return gradients"
    )
    assert linted(guest(source), lambda phase: None) == {"hooks": ["gradient"], "warnings": []}


def test_a_module_may_look_around_when_it_is_loaded_at_its_first_use(guest, tmp_path):
    (tmp_path / "late.py").write_text(
        "from pathlib import Path\nTEXT = Path(__file__).with_name('x.txt').read_text()\n"
    )
    (tmp_path / "x.txt").write_text("x")
    source = function("import late", "return {k: v * len(late.TEXT) for k, v in gradients.items()}")
    assert linted(guest(source), lambda phase: None) == {"hooks": ["gradient"], "warnings": []}


def test_a_sound_file_has_no_warning(guest):
    source = function("return {k: v * context.stream('x').number() for k, v in gradients.items()}")
    assert linted(guest(source), lambda phase: None) == {"hooks": ["gradient"], "warnings": []}


class TestChild:
    TASK = "leaklab.guests.lint:linted"

    @pytest.mark.parametrize(
        ("lines", "said"),
        [
            (("while True: pass",), "line 3: no answer after 15 s, while it defended a gradient"),
            (("import os", "os._exit(7)"), "it ended the process with status 7 while it defended a gradient"),
            (("import os", "os.kill(os.getpid(), 11)"), "was ended by SIGSEGV while it defended a gradient"),
            (("torch.zeros(25_000_000_000)", "return gradients"), "it asks for more than 6 GiB of memory"),
        ],
    )
    def test_a_child_that_misbehaves_is_one_line(self, guest, lines, said):
        with pytest.raises(UserError, match=r"guest\.py") as refused:
            in_child(self.TASK, guest(function(*lines)), {}, seconds=15)
        assert said in str(refused.value)
        assert "\n" not in str(refused.value)

    def test_prints_without_end_are_cut_and_do_no_harm(self, guest):
        file = guest(function("print('x' * 1_000_000, flush=True)", "return gradients"))
        answer = in_child(self.TASK, file, {}, seconds=60)
        assert answer.value["hooks"] == ["gradient"]
        assert 0 < len(answer.prints) <= 20_000

    def test_a_file_that_changed_since_it_was_found_is_refused(self, guest):
        before = find(guest(function("return gradients"))).sha256
        file = guest(function("return {k: -v for k, v in gradients.items()}"))
        with pytest.raises(UserError, match="was changed while it was judged: begin again"):
            in_child(self.TASK, file, {"sha256": before})


class TestDigest:
    def test_comments_do_not_count_and_files_beside_it_do(self, guest, tmp_path):
        (tmp_path / "helper.py").write_text("FACTOR = 2\n")
        source = function("return {k: FACTOR * v for k, v in gradients.items()}", head="from helper import FACTOR")
        first = find(guest(source)).sha256
        assert find(guest(f"# a remark\n{source}")).sha256 == first
        (tmp_path / "helper.py").write_text("FACTOR = 3\n")
        assert find(guest(source)).sha256 != first

    def test_a_folder_and_a_missing_file_are_refused(self, tmp_path):
        with pytest.raises(UserError, match="is a folder: name the one file in it"):
            find(tmp_path)
        with pytest.raises(UserError, match="is not there: name the Python file"):
            find(tmp_path / "none.py")
        (tmp_path / "text.txt").write_text("x")
        with pytest.raises(UserError, match=r"name one that ends in \.py"):
            find(tmp_path / "text.txt")
