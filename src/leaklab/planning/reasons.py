"""Why a job failed, in one line, as its log and who ran it say; and whether another try could end otherwise."""

import re
import signal
from collections.abc import Iterable
from pathlib import Path

STATUS = re.compile(r"exit status (\d+)|died with <Signals\.SIG(\w+)")
KILLED = 137
TOO_LARGE = ("OUT_OF_MEMORY", "oom_kill", "oom-kill", "MemoryError", "out of memory")
MEMORY = "it was killed, as happens where memory runs out: end other programs, or run fewer jobs side by side (--cores)"
SAID_BY_SLURM = re.compile(r"SLURM status is: '(\w+)'")
LONGEST_REASON = 400
ALIKE = re.compile(
    r"(?:NameError|UnboundLocalError|SyntaxError|IndentationError|TabError|AttributeError|TypeError|KeyError|IndexError|"
    r"ValueError|AssertionError|ZeroDivisionError|NotImplementedError|RecursionError)\b"
)
"""What Python says of a mistake in the code, which every try and every machine meets."""
REFUSED = re.compile(r"leaklab \w+: ")
"""How a step's own words begin."""
ELSEWHERE = re.compile(r"leaklab \w+: (device |the disk is full|.*LEAKLAB_MIRROR)")
"""What a step says of its machine, or of the network: another one may have a GPU, space, or what was asked for."""
FETCHING = ("fetch_dataset", "fetch_text")
"""Rules whose data may be had a moment later."""


def reason(logs: Iterable[Path], message: str = "") -> str:
    """Return in one line why a job failed.

    Args:
        logs: of the job, its own first; the line of one that says it is looked for from its end.
        message: of who ran the job, which has the exit status of its command, or Slurm's word for its end.
    """
    texts = [_text(path) for path in logs]
    said = next(filter(None, map(_last_words, texts)), "")
    status, state = STATUS.search(message), SAID_BY_SLURM.search(message)
    number = _number(status) if status else 0
    ends = [f"exit status {number}" if number else "", f"Slurm says {state[1]}" if state else ""]
    end = " and ".join(filter(None, ends))
    if number == KILLED or any(word in text for word in TOO_LARGE for text in [message, *texts]):
        return "; ".join(filter(None, [said[:LONGEST_REASON], f"{MEMORY}{end and f' ({end})'}"]))
    if said.startswith("KeyboardInterrupt"):
        return "it was interrupted"
    if said:
        return said[:LONGEST_REASON] + (f" (Slurm says {state[1]})" if state else "")
    first = message.strip().partition("\n")[0]
    return f"it said nothing ({end})" if end else first or "no reason was said"


def _number(status: re.Match[str]) -> int:
    """Return the status as a shell gives it, which adds the number of a signal to 128."""
    if status[1]:
        return int(status[1])
    return 128 + int(getattr(signal, f"SIG{status[2]}", 0))


def _last_words(text: str) -> str:
    """Return the last line that a step said to the user, or of an error, or the last at all."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    for wanted in (r"leaklab \w+: (.*)", r"(slurmstepd: error: .*)", r"([\w.]*(?:Error|Exception|Interrupt)\b.*)"):
        for line in reversed(lines):
            if match := re.match(wanted, line):
                return match[1]
    return lines[-1] if lines else ""


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


def cannot_pass(rule: str, logs: Iterable[Path]) -> bool:
    """Whether a job that failed would fail again: its step refused in our words, or met a mistake in the code.

    Args:
        rule: of the job.
        logs: of the job, as this try left them.
    """
    if rule in FETCHING:
        return False
    texts = [text for text in map(_text, logs) if text.strip()]
    if not texts or any(word in text for word in TOO_LARGE for text in texts):
        return False
    last = texts[0].strip().splitlines()[-1].strip()
    return bool(ALIKE.match(last) or (REFUSED.match(last) and not ELSEWHERE.match(last)))
