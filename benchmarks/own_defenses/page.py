"""The page ``own_defenses.md``."""

from collections.abc import Iterator, Mapping, Sequence
from statistics import fmean, median
from typing import Any

from speed.page import markdown, wrapped

from leaklab.guests.verdict import ATTACKS, word_of
from own_defenses.named import TRANSFORMS

INTRO = """# Defenses of which the truth is known, judged as files without a name

`PYTHONPATH=benchmarks .venv/bin/python -m own_defenses --keep FOLDER` made this page. Each defense is a file that \
says nothing of its name; `leaklab try` attacks six digits on two networks. *By rule* is the strongest attacker of the \
house that the facts called for, *learnt* the one whose law was learnt from the file, both as mean PSNR in dB. *Named* \
is the strongest that was told which defense it is, with its settings; *behind* is the median over the six digits of \
its PSNR minus that of the better of the two, negative where it is behind itself."""
Readings = Mapping[tuple[str, str], Mapping[str, Any]]


def page(found: Readings, asked: int = 0) -> str:
    """Return the page.

    Args:
        found: defense and network -> what was read.
        asked: such pairs in all; the page says where some are not judged yet.
    """
    house = {pair: one for pair, one in found.items() if pair[0] in TRANSFORMS}
    invented = {pair: one for pair, one in found.items() if pair[0] not in TRANSFORMS}
    missing = f"So far {len(found)} of {asked} pairs of a defense and a network are judged: the same command goes on."
    parts = [INTRO, *[missing] * (len(found) < asked)]
    parts += ["## Those of the house", _summary(house), _table(house)]
    parts += ["## Invented ones", _words(invented), _table(invented)]
    seconds = [one["seconds"] for one in found.values() if one["seconds"]]
    if seconds:
        took = f"{median(seconds):.0f} s of one processor in the median of a network, {max(seconds):.0f} s at most"
        parts.append(f"Description and attacks took {took}.")
    return wrapped("\n\n".join(parts) + "\n")


def _summary(found: Readings) -> str:
    gaps = {pair: gap for pair, one in found.items() if (gap := behind(one)) is not None}
    late = [f"{_shown(pair)} by {gap:.1f} dB" for pair, gap in gaps.items() if gap > 1]
    ahead = [_shown(pair) for pair, gap in gaps.items() if gap < -1]
    said = f"more than 1 dB behind: {'; '.join(late)}" if late else "none is more than 1 dB behind"
    return (
        f"Of {len(gaps)} pairs of a defense and a network {said}. Ahead by more than 1 dB: "
        f"{'; '.join(ahead) or 'none'}."
    )


def _words(found: Readings) -> str:
    counts: dict[str, list[str]] = {}
    for pair, one in found.items():
        counts.setdefault(word(one), []).append(_shown(pair))
    told = [
        f"*{said}* {len(pairs)}" + (f" ({', '.join(pairs)})" if said != "read" else "")
        for said, pairs in counts.items()
    ]
    return f"Words: {'; '.join(told)}."


def _shown(pair: tuple[str, str]) -> str:
    return f"{pair[0].partition(':')[2] or pair[0]} on the {pair[1]}"


def word(one: Mapping[str, Any]) -> str:
    """Return the word of a card for what was read."""
    rows = [row for row in one["rows"] if "scores" in row and row["attacker"] != "named"]
    failed = any("failed" in row for row in one["rows"] if row["attacker"] in ATTACKS)
    return word_of(rows, one["guesses"], complete=not failed) if rows else "refused"


def best(one: Mapping[str, Any], kinds: Sequence[str]) -> Mapping[str, Any] | None:
    """Return the strongest of some kinds of attackers by mean PSNR; None where none ran."""
    rows = [row for row in one["rows"] if row["attacker"] in kinds and "scores" in row]
    return max(rows, key=lambda row: fmean(row["scores"]), default=None)


def behind(one: Mapping[str, Any]) -> float | None:
    """Return the median of how far the better of rule and learnt is behind the named one, in dB."""
    told, own = best(one, ["named"]), best(one, ["rule", "learnt", "unaware"])
    if told is None or own is None:
        return None
    return median(a - b for a, b in zip(told["scores"], own["scores"], strict=True))


def _table(found: Readings) -> str:
    return markdown(["defense", "network", "word", "guess", "by rule", "learnt", "named", "behind"], list(_rows(found)))


def _rows(found: Readings) -> Iterator[list[str]]:
    for (name, network), one in found.items():
        cells = [_cell(best(one, [kind])) for kind in ("rule", "learnt", "named")]
        gap = behind(one)
        yield [name.partition(":")[2] or name, network, word(one), f"{fmean(one['guesses']):.1f}", *cells,
               "" if gap is None else f"{gap:+.1f}"]  # fmt: skip


def _cell(row: Mapping[str, Any] | None) -> str:
    return f"{fmean(row['scores']):.1f} ({row['by']})" if row else ""
