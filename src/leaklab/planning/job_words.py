"""What a job is to who waits for it: item, data, defense and attack in words, and what it is expected to take."""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from leaklab.planning.devices import Device
from leaklab.planning.plan import Job
from leaklab.specs.base import AttackOn, CapturedRound, Spec
from leaklab.specs.stages import SPECS

STAGES: Mapping[str, str] = {
    **{spec.rule: spec.stage for spec in SPECS},
    "draw_partition": "partition", "train_piece": "train", "attack_piece": "attack", "join_pieces": "attack",
    "text_piece": "attack-text", "join_text_pieces": "attack-text",
}  # fmt: skip
"""Rule -> stage of the run that its jobs are of."""
WORDS: Mapping[str, str] = {
    "fetch_dataset": "data set {data}", "fetch_text": "sentences of {data}",
    "partition_data": "who holds what of {data}", "draw_partition": "picture of who holds what of {data}",
    "train_federated": "training, {model} on {data}, {defense}",
    "train_piece": "training, {model} on {data}, {defense}, part {part}",
    "train_generator": "generator of images like those of {data}",
    "capture_updates": "what a client sends, {model} on {data}, {defense}",
    "capture_text": "what a client sends, {model} on {data}, {defense}",
    "learn_law": "rehearsal of an attack on {data}, {defense}",
    "run_attack": "{attack} on {data}, {defense}", "attack_text": "{attack} on {data}, {defense}",
    "attack_piece": "{attack} on {data}, {defense}, part {part}",
    "text_piece": "{attack} on {data}, {defense}, part {part}",
    "join_pieces": "{attack} on {data}, {defense}, its parts together",
    "join_text_pieces": "{attack} on {data}, {defense}, its parts together",
    "score_attack": "scores of {attack} on {data}, {defense}", "score_text": "scores of {attack} on {data}, {defense}",
    "project_image": "images of {data} as a generator has them",
    "map_landscape": "losses of {attack} around an image of {data}, {defense}",
    "check_theory": "check of {check}",
    "make_table": "table", "make_figure": "figure",
    "judge_claims": "claims of the papers, judged", "publish_runs": "costs and metric cards",
    "publish_threat_models": "what each attacker has to know", "build_report": "pages of the report",
    "audit_provenance": "audit of every recorded hash", "build_crate": "crate of all files behind the report",
}  # fmt: skip
"""Rule -> what its jobs do."""
TABLE, FIGURE = "make_table", "make_figure"
OTHER_SECONDS, START_SECONDS = 3.0, 2.0
"""Of a job that is no run, and of the start of any."""
LAST_SECONDS: Mapping[str, float] = {"judge_claims": 6.0, "build_report": 20.0, "audit_provenance": 10.0}
"""Rule -> seconds of the larger ones, with which a scale ends: no job of theirs has ended before."""
LONGEST_NAME = 60
GUEST = re.compile(r"-guest-[0-9a-f]+")
ItemsOf = Mapping[tuple[str, str], Sequence[str]]
"""Stage and id of a run -> keys of the items that need it, of those that were asked for."""


@dataclass(frozen=True)
class Told:
    """What is told of a job.

    Attributes:
        words: for people; empty for a job that is not told, as it only names others or the next one speaks for it.
        name: without spaces, for lists of jobs on a cluster, and where ``words`` is empty.
        kind: of its work.
        seconds: expected, at most.
    """

    words: str
    name: str
    kind: str
    seconds: float


class JobWords:
    """The words of a call's jobs."""

    def __init__(
        self,
        job_of: Callable[[str, str], Job],
        pieces_of: Callable[[str, str], int],
        items_of: ItemsOf,
        device: Device,
        written: Callable[[str], str] = str,
    ) -> None:
        """Look up what is told of jobs.

        Args:
            job_of: returns the planned job of a stage and a run id.
            pieces_of: returns into how many pieces it is cut.
            items_of: which items need which run.
            device: where trainings and attacks run.
            written: returns how the name of a data set, model, defense or attack is written.
        """
        self._job_of, self._pieces_of, self._items_of = job_of, pieces_of, items_of
        self._device, self._written = device, written

    def tell(self, jobs: Iterable[tuple[int, str, Mapping[str, str]]]) -> dict[int, Told]:
        """Return what is told of each job of a call, given as its number, rule and wildcards; targets are no jobs."""
        known = [one for one in jobs if one[1] in WORDS]
        drawn = {tuple(sorted(wildcards.items())) for _, rule, wildcards in known if rule == FIGURE}
        tabled = {tuple(sorted(wildcards.items())) for _, rule, wildcards in known if rule == TABLE}
        found = {}
        for number, rule, wildcards in known:
            place = tuple(sorted(wildcards.items()))
            together = place in drawn and place in tabled
            found[number] = self.of(rule, wildcards, together)
        return found

    def of(self, rule: str, wildcards: Mapping[str, str], together: bool = False) -> Told:
        """Return what is told of one job; ``together`` where the line of an item's figure tells of its table too."""
        item, what, seconds = self._parts(rule, wildcards)
        if rule == FIGURE and together:
            what = "table and figure"
        words = f"{item}: {what}" if item and what else what
        first = item.partition(" ")[0]
        name = re.sub(r"[^A-Za-z0-9.+]+", "-", f"{first} {what or rule}").strip("-")[:LONGEST_NAME]
        return Told("" if rule == TABLE and together else words, name, rule, START_SECONDS + seconds)

    def _parts(self, rule: str, wildcards: Mapping[str, str]) -> tuple[str, str, float]:
        if rule in STAGES and "run" in wildcards:
            stage, run = STAGES[rule], wildcards["run"]
            number, spec = self._pieces_of(stage, run), self._job_of(stage, run).spec
            items = self._items_of.get((stage, run), ())
            item = f"{items[0]}{f' and {len(items) - 1} more' if items[1:] else ''}" if items else ""
            what = WORDS[rule].format_map(self._fields(spec) | {"part": _part(wildcards, number)})
            is_run = rule == spec.rule or "piece" in rule
            return item, what, self._device.seconds(spec) / number if is_run else OTHER_SECONDS
        what = WORDS.get(rule, "").format_map({"data": self._written(wildcards.get("dataset", ""))})
        item = f"{wildcards['paper']}/{wildcards['item']}" if "item" in wildcards else ""
        return item, what, LAST_SECONDS.get(rule, OTHER_SECONDS)

    def _fields(self, spec: Spec) -> dict[str, str]:
        tried = spec if isinstance(spec, AttackOn) else spec.tried
        seen: Any = tried.capture if tried else getattr(spec, "capture", spec)
        on = seen if isinstance(seen, CapturedRound) else spec
        return {
            "data": self._name(on.own_dataset.rpartition("/")[2]),
            "attack": self._attack(tried) if tried else "",
            **{field: self._name(getattr(getattr(on, field, None), "name", "")) for field in ("model", "defense")},
            "check": self._name(getattr(getattr(spec, "check", None), "name", "")),
        }

    def _attack(self, attack: AttackOn) -> str:
        name = self._name(attack.attack.name)
        return f"{name} ({self._name(attack.adaptive).replace('-', ' ')})" if attack.adaptive else name

    def _name(self, name: str) -> str:
        return self._written(GUEST.sub("", name))


def _part(wildcards: Mapping[str, str], number: int) -> str:
    if "left" in wildcards:
        return f"{number - int(wildcards['left'])} of {number}"
    return f"{int(wildcards['piece']) + 1} of {number}" if "piece" in wildcards else ""
