"""Draw the pictures of architecture.md and dvc.md: run ``python docs/draw_architecture.py`` where they are out of date.

Arrows of the road are the files in a dry run of Snakemake, those of the rooms are imports. No box is placed by hand.
It needs the extra ``test`` of pyproject.toml.
"""

import re
import subprocess
import sys
import tomllib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import permutations
from pathlib import Path

import grimp
import networkx as nx  # type: ignore[import-untyped]
import yaml

ROOT = Path(__file__).parents[1]
# all rules: the demo, and of the items beside it one with a landscape and one with a law
TARGETS = ("demo", "figures/demo/lrp/figure4.png", "results/demo/outpost/defenses-compared.csv")
STAGES = ("dvc.yaml", "results/dvc.yaml")
WORDS = {
    "fetch_dataset": "checked files",
    "partition_data": "partitioning",
    "draw_partition": "who has what",
    "train_federated": "one per defense",
    "train_generator": "a prior",
    "learn_law": "of a defense",
    "capture_updates": "after r rounds",
    "run_attack": "sees no truth",
    "score_attack": "sees the truth",
    "check_theory": "theorems",
    "fetch_text": "sentences",
    "make_table": "line per number",
    "publish_runs": "costs, cards, deals",
    "publish_threat_models": "letters",
    "build_report": "pages",
    "build_crate": "RO-Crate",
    "snakemake": "decides, makes",
    "demo": "results, figures",
    "small": "results, figures",
    "paper": "results, figures",
    "runs": "data, records",
    "DVC remote": "yours",
    "git": "this repository",
}
INK, LINE, MARKED, MAIN, SIDE = "#1B1B1B", "#767676", "#C44E00", "#DCEBF5", "#F1F1F1"
LETTER, SMALL, LEADING = 14, 12.5, 17
# between lanes, from a lane to an arrow beside it, between rows, around all; radius of a bend
GAP, CHANNEL, DROP, MARGIN, BEND = 30, 10, 32, 10, 7
Edge = tuple[str, str]


@dataclass(frozen=True)
class Picture:
    """What is drawn.

    Attributes:
        title: for readers who cannot see it.
        edges: arrows; one that a longer way implies is left out.
        marked: arrows in colour, drawn in any case.
        legend: what plain and coloured arrows are.
        dashes: of the coloured ones.
    """

    title: str
    edges: frozenset[Edge]
    marked: frozenset[Edge]
    legend: tuple[str, str]
    dashes: str = "none"


def road() -> Picture:
    """Return who reads what another rule wrote; along marked arrows travel the private samples of a capture."""
    command = [sys.executable, "-m", "snakemake", "--dry-run", "--forceall", "--nolock", "--cores", "1", "--", *TARGETS]
    done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    if done.returncode:
        sys.exit(done.stdout)
    found = re.findall(r"^(?:local)?rule (\w+):\n(?:    input: (.*)\n)?    output: (.*)\n", done.stdout, re.MULTILINE)
    # a file that a rule updates is marked so
    jobs = [(rule, read.split(", "), written.replace(" (update)", "").split(", ")) for rule, read, written in found]
    maker = {file: rule for rule, _, written in jobs for file in written}
    reads = {(maker[file], rule, file) for rule, read, _ in jobs for file in read if file in maker}
    return Picture(
        title="The rules of the workflow and what they read",
        edges=frozenset((before, after) for before, after, _ in reads),
        marked=frozenset((before, after) for before, after, file in reads if Path(file).name.startswith("truth")),
        legend=("what one rule writes, the next one reads", "truth*, the private samples: no attack reads them"),
    )


def rooms() -> Picture:
    """Return which package imports which; marked is what a contract forbids although it lies below."""
    graph = grimp.build_graph("leaklab", cache_dir=None)
    names = graph.find_children("leaklab")
    for name in names:
        graph.squash_module(name)
    imports = {(name, other) for name in names for other in graph.find_modules_directly_imported_by(name)}
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["importlinter"]
    forbidden = [
        (source, other)
        for contract in settings["contracts"]
        if contract["type"] == "forbidden"
        for source in contract["source_modules"]
        for other in contract["forbidden_modules"]
    ]
    return Picture(
        title="The packages of leaklab and who imports whom",
        edges=_short(edge for edge in imports if set(edge) <= names),
        marked=_short(edge for edge in forbidden if set(edge) <= names),
        legend=("imports", "must never import"),
        dashes="5 4",
    )


def owners() -> Picture:
    """Return which stage of DVC holds what Snakemake makes, and where it goes; from the stages' own files."""
    edges, in_git = set(), set()
    for file in STAGES:
        for stage, content in yaml.safe_load((ROOT / file).read_text(encoding="utf-8"))["stages"].items():
            edges.add(("snakemake", stage))
            cached = [next(iter(out.values())).get("cache", True) for out in content["outs"]]
            edges.add((stage, "DVC remote")) if all(cached) else in_git.add((stage, "git"))
    return Picture(
        title="Who makes what, and where it is kept",
        edges=frozenset(edges | in_git),
        marked=frozenset(in_git),
        legend=("Snakemake makes it, make share pushes it", "published, read without running or pulling"),
    )


def _short(edges: Iterable[Edge]) -> frozenset[Edge]:
    return frozenset((a.removeprefix("leaklab."), b.removeprefix("leaklab.")) for a, b in edges)


def essential(edges: Iterable[Edge]) -> list[Edge]:
    """Return the edges that no longer way implies."""
    return sorted(nx.transitive_reduction(nx.DiGraph(list(edges))).edges)


def places(edges: Iterable[Edge]) -> tuple[dict[str, tuple[int, int]], int]:
    """Return the (lane, row) of every node, and the lane of the main chain.

    A node stands as low as its longest way to the end allows. The first lane is a longest chain; what is left is cut
    into chains too, each in the emptiest lane with room for it. Lanes stand so that arrows are short.
    """
    graph = nx.DiGraph(sorted(edges))
    generations = list(nx.topological_generations(graph.reverse()))
    row = {node: len(generations) - 1 - place for place, nodes in enumerate(generations) for node in nodes}
    lanes: list[list[str]] = []
    left = set(row)
    while left:
        chain = [min(left, key=lambda node: (row[node], node))]
        while after := [node for node in graph.successors(chain[-1]) if node in left]:
            nearest = min(row[node] for node in after)
            chain.append(max(node for node in after if row[node] == nearest))
        taken = {row[node] for node in chain}
        free = [lane for lane in lanes[1:] if not taken & {row[node] for node in lane}]
        min(free, key=len).extend(chain) if free else lanes.append(chain)
        left -= set(chain)

    def width(order: tuple[int, ...]) -> int:
        lane = {node: order[number] for number, nodes in enumerate(lanes) for node in nodes}
        return sum(abs(lane[a] - lane[b]) for a, b in graph.edges)

    order = min(permutations(range(len(lanes))), key=lambda order: (width(order), order))
    return {node: (order[number], row[node]) for number, nodes in enumerate(lanes) for node in nodes}, order[0]


class Sheet:
    """A picture with a place for everything."""

    def __init__(self, picture: Picture) -> None:
        """Place the boxes; all have the size that the longest name needs."""
        self.picture, self.edges = picture, essential(picture.edges)
        self.where, self.main = places(self.edges)
        self.texts = {node: [*re.findall(r"[^_]+_?", node), WORDS.get(node, "")] for node in sorted(self.where)}
        names = [line for *own, _ in self.texts.values() for line in own]
        self.wide = 16 + 0.6 * LETTER * max(map(len, names))
        self.high = 14 + LEADING * max(sum(map(bool, own)) for own in self.texts.values())
        first = MARGIN + CHANNEL + self.wide / 2
        self.x = {node: first + lane * (self.wide + GAP) for node, (lane, _) in self.where.items()}
        self.y = {node: MARGIN + self.high / 2 + row * (self.high + DROP) for node, (_, row) in self.where.items()}

    def __str__(self) -> str:
        """Return the SVG."""
        width, low = max(self.x.values()) + self.wide / 2 + MARGIN, max(self.y.values()) + self.high / 2
        lines = [*self._head(width, low + 3 * LEADING + 2 * MARGIN)]
        lines += [self._arrow(self._way(*edge)) for edge in self.edges if edge not in self.picture.marked]
        lines += [self._arrow(self._way(*edge), "marked") for edge in sorted(self.picture.marked)]
        lines += [line for node in self.texts for line in self._box(node)]
        for kind, text, level in zip(("plain", "marked"), self.picture.legend, (1.5, 2.8), strict=True):
            y = low + level * LEADING + MARGIN / 2
            lines += [self._arrow(f"M{MARGIN} {y:g}h32", kind)]
            lines += [f'<text class="legend" x="{MARGIN + 40}" y="{y + 4:g}">{text}</text>']
        return "\n".join([*lines, "</svg>", ""])

    def _head(self, width: float, height: float) -> Iterator[str]:
        size = f'viewBox="0 0 {width:g} {height:g}" width="{width:g}"'
        yield f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img">'
        yield f"<title>{self.picture.title}</title>"
        yield "<style>"
        yield f"text {{ fill: {INK}; font: {SMALL}px Helvetica, Arial, sans-serif; text-anchor: middle }}"
        yield f"text.name {{ font: {LETTER}px Menlo, Consolas, 'DejaVu Sans Mono', monospace }}"
        yield "text.legend { text-anchor: start }"
        yield f"path {{ fill: none; stroke: {LINE} }}"
        yield f"path.marked {{ stroke: {MARKED}; stroke-width: 2; stroke-dasharray: {self.picture.dashes} }}"
        yield f"rect.box {{ stroke: {LINE}; fill: {SIDE} }} rect.main {{ fill: {MAIN} }}"
        yield "</style>"
        for kind, color in (("plain", LINE), ("marked", MARKED)):
            shape = f'<path d="M0 0L8 4L0 8z" style="fill: {color}; stroke: none"/>'
            size = 'viewBox="0 0 8 8" refX="7" refY="4" markerWidth="8" markerHeight="8" markerUnits="userSpaceOnUse"'
            yield f'<marker id="{kind}" {size} orient="auto">{shape}</marker>'
        yield '<rect width="100%" height="100%" fill="white"/>'

    def _arrow(self, way: str, kind: str = "plain") -> str:
        return f'<path class="{kind}" d="{way}" marker-end="url(#{kind})"/>'

    def _way(self, before: str, after: str) -> str:
        """Return the path from box to box: down to the next row, else sideways out of the box and down."""
        (lane, row), (to, to_row) = self.where[before], self.where[after]
        x, y, last = self.x[before], self.y[before], self.x[after]
        top = self.y[after] - self.high / 2
        if to_row == row + 1:
            middle = top - DROP / 2
            return f"M{x:g} {top - DROP:g}C{x:g} {middle:g} {last:g} {middle:g} {last:g} {top:g}"
        side = 1 if to > lane else -1
        out = f"M{x + side * self.wide / 2:g} {y:g}H"
        if to != lane and not any(there == to and row <= level < to_row for there, level in self.where.values()):
            return f"{out}{last - side * BEND:g}q{side * BEND} 0 {side * BEND} {BEND}V{top:g}"
        # the lane is taken: beside it, on the side from which the arrow comes
        turn = side if to != lane else 1
        beside = last - turn * (self.wide / 2 + CHANNEL)
        down = f"{beside - side * BEND:g}q{side * BEND} 0 {side * BEND} {BEND}V{self.y[after] - BEND:g}"
        return f"{out}{down}q0 {BEND} {turn * BEND} {BEND}H{last - turn * self.wide / 2:g}"

    def _box(self, node: str) -> Iterator[str]:
        x, y, (*names, word) = self.x[node], self.y[node], self.texts[node]
        kind = "box main" if self.where[node][0] == self.main else "box"
        corner = f'x="{x - self.wide / 2:g}" y="{y - self.high / 2:g}" rx="7"'
        yield f'<rect class="{kind}" {corner} width="{self.wide:g}" height="{self.high:g}"/>'
        lines = [("name", name) for name in names] + ([("words", word)] if word else [])
        top = y - LEADING * len(lines) / 2 + 0.75 * LEADING
        for place, (kind, line) in enumerate(lines):
            yield f'<text class="{kind}" x="{x:g}" y="{top + LEADING * place:g}">{line}</text>'


def pictures() -> dict[str, str]:
    """Return the text of every picture by the name of its file."""
    return {"road.svg": str(Sheet(road())), "rooms.svg": str(Sheet(rooms())), "owners.svg": str(Sheet(owners()))}


if __name__ == "__main__":
    for file, text in pictures().items():
        Path(__file__).with_name(file).write_text(text, encoding="utf-8")
