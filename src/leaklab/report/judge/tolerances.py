"""How close a regenerated number has to be to the printed one, and for which numbers that is a fair question."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from pydantic import Field, ValidationError

from leaklab.records.config import parse, read_yaml
from leaklab.records.errors import UserError
from leaklab.records.record import Record
from leaklab.report.numbers.results import ResultRow, same

ClassName = Literal["tight", "loose", "order only", "bands", "spread"]


class Tolerance(Record):
    """One class of comparison, with its numbers.

    Attributes:
        class_name: ``tight`` and ``loose`` compare values, ``bands`` asks whether both numbers lie on the same side
            of a threshold, ``spread`` asks whether a cell that is unstable in print is unstable here,
            ``order only`` leaves the judgement to the claims.
        points: largest absolute difference.
        std_factor: the printed standard deviation times this is allowed too, if it is larger.
        bands: threshold of each metric.
        times: a spread is large from so many times the median standard deviation of the table on.
        over: row keys; the largest standard deviation over their values counts.
        center_by: row keys; differences are also given after each group's mean over its cells is removed.
    """

    class_name: ClassName = Field(alias="class")
    points: float = Field(default=0.0, ge=0)
    std_factor: float = Field(default=0.0, ge=0)
    bands: dict[str, float] = Field(default_factory=dict)
    times: float = Field(default=0.0, ge=0)
    over: tuple[str, ...] = ()
    center_by: tuple[str, ...] | None = None

    def allowed(self, printed: ResultRow) -> float | None:
        """Return the largest allowed absolute difference; None where values are not compared."""
        if self.class_name in ("order only", "bands", "spread"):
            return None
        return max(self.points, self.std_factor * (printed.std or 0.0))


class Rule(Record):
    """Which numbers fall into which class; a list means any of its members, an absent field anything."""

    class_name: str = Field(alias="class")
    paper: str | None = None
    item: str | tuple[str, ...] | None = None
    metric: str | tuple[str, ...] | None = None
    row: dict[str, Any] = Field(default_factory=dict)
    points: float | None = Field(default=None, ge=0)
    std_factor: float | None = Field(default=None, ge=0)
    times: float | None = Field(default=None, ge=0)
    over: tuple[str, ...] | None = None
    center_by: tuple[str, ...] | None = None

    def covers(self, printed: ResultRow) -> bool:
        """Return whether the rule speaks about this printed number."""
        columns = ((self.paper, printed.paper), (self.item, printed.item), (self.metric, printed.metric))
        keys = ((wanted, printed.row.get(key)) for key, wanted in self.row.items())
        return all(wanted is None or _among(wanted, value) for wanted, value in (*columns, *keys))


class StandIns(Record):
    """Metrics on which claims are judged where the numbers of their own cannot be computed.

    Attributes:
        metrics: metric -> the one that is asked instead.
        not_for: claims that compare with a fixed number, which says nothing about another metric.
    """

    metrics: dict[str, str] = Field(default_factory=dict)
    not_for: tuple[str, ...] = ()

    def of(self, claim: str) -> Mapping[str, str]:
        """Return the stand-ins that a claim may use."""
        return {} if claim in self.not_for else self.metrics


class Tolerances(Record):
    """The classes with their defaults, and the rules; the first rule that covers a number decides.

    A class of another name says which of the known ones it is: ``near: {class: tight, points: 1}``.
    """

    classes: dict[str, dict[str, Any]]
    rules: tuple[Rule, ...]
    stand_ins: StandIns = StandIns()

    @classmethod
    def load(cls, path: Path) -> "Tolerances":
        """Read ``config/papers/tolerances.yaml``.

        Raises:
            UserError: the file is missing or has a key or value that is not declared.
        """
        return parse(cls, read_yaml(path), path)

    def of(self, printed: ResultRow, item_choice: Mapping[str, Any] | None = None) -> Tolerance:
        """Return the tolerance of one printed number.

        Args:
            printed: the printed number.
            item_choice: ``comparison`` of the item's YAML, e.g. ``{class: tight, points: 0.5, center_by: [model]}``;
                it overrides every rule that does not name particular rows.

        Raises:
            UserError: ``item_choice`` has an unknown key or class.
        """
        rule = next((rule for rule in self.rules if rule.covers(printed)), Rule(**{"class": "order only"}))
        chosen = rule.model_dump(exclude={"paper", "item", "metric", "row"}, exclude_none=True, by_alias=True)
        own = {**(item_choice or {}), **chosen} if rule.row else {**chosen, **(item_choice or {})}
        settings = self._class(own.pop("class")) | own
        try:
            return Tolerance(**settings)
        except ValidationError as error:
            first = error.errors()[0]
            place = ".".join(str(part) for part in first["loc"])
            raise UserError(f"{printed.paper} {printed.item}, comparison: {place}: {first['msg']}") from None

    def _class(self, name: str) -> dict[str, Any]:
        """Return the defaults of a class, those of the class that it is one of first."""
        defaults = {"class": name, **self.classes.get(name, {})}
        kind = defaults["class"]
        return {**(self.classes.get(kind, {}) if kind != name else {}), **defaults}


def _among(wanted: Any, value: Any) -> bool:
    return any(same(one, value) for one in (wanted if isinstance(wanted, list | tuple) else [wanted]))
