"""How an item's numbers and pictures are arranged: ``table``, ``grid``, ``curves``, ... of its YAML."""

from typing import Any, Literal

from pydantic import Field

from leaklab.records.errors import UserError
from leaklab.records.record import Record

MINUS = "\u2212"


class Named(Record):
    """How keys and values are called for a reader.

    Attributes:
        labels: shown instead of a value, e.g. ``{perturbation: {"true": "U(0, 2η)"}}``; booleans as true and false.
        titles: shown instead of a key or a metric's name, e.g. ``{eta1: "η₁", mse_r: MSE-R}``.
    """

    labels: dict[str, dict[str, str]] = Field(default_factory=dict)
    titles: dict[str, str] = Field(default_factory=dict)

    def title(self, key: str) -> str:
        """Return the shown name of a key."""
        return self.titles.get(key, key.replace("_", " "))

    def label(self, key: str, value: Any) -> str:
        """Return the shown form of a key's value."""
        text = str(value).lower() if isinstance(value, bool) else str(value)
        if key == "metric":
            return self.title(text)
        return self.labels.get(key, {}).get(text, text)


class TableLayout(Named):
    """``table`` of an item's YAML.

    Attributes:
        rows: row keys (or ``metric``, ``attacker``) whose values make the table's rows, outermost first. Numbers that
            stand beside the attackers' are shown only if their key (``selection``, ``tried``, ``difference``) is among
            the keys.
        columns: those that make its columns.
        metric: the metric or metrics shown.
        format: of one cell, with the fields ``value`` and ``std``; one text, or one per metric. A number without a
            standard deviation is shown without the part from `` ±`` on.
        mark_within: keys whose groups have a best and a worst cell each; default: the row keys. Metrics never mix.
        attackers: attackers shown; several need ``attacker`` among the rows or columns.
        references: value of ``selection`` -> label of a row below the others, of what no attacker made, e.g.
            ``{mean-image: mean image}``; where the cells have different ones, their range is shown.
        below: metrics that stand below the table, a line each that says at which keys its numbers differ, e.g. times
            of other sizes; a metric may be named here alone.
    """

    rows: tuple[str, ...]
    columns: tuple[str, ...]
    metric: str | tuple[str, ...]
    format: str | dict[str, str] = "{value:.2f} ± {std:.2f}"
    mark_within: tuple[str, ...] | None = None
    attackers: tuple[str, ...] = ("paper", "")
    references: dict[str, str] = Field(default_factory=dict)
    below: tuple[str, ...] = ()

    @property
    def metrics(self) -> tuple[str, ...]:
        """The metrics, in the order of the YAML."""
        return (self.metric,) if isinstance(self.metric, str) else self.metric

    def number(self, metric: str, value: float, std: float | None) -> str:
        """Return a number in the table's format.

        Raises:
            UserError: the format names another field or does not fit a number.
        """
        text = self.format if isinstance(self.format, str) else self.format.get(metric, "{value:.4g}")
        if std is None:
            text = text.split(" ±")[0]
        try:
            return text.format(value=value, std=std).replace("-", MINUS)
        except (KeyError, IndexError, ValueError) as error:
            raise UserError(f"table format {text!r} does not fit ({error}): use {{value}} and {{std}} only") from None


class GridLayout(Record):
    """A figure of pictures: originals, then a column per defense, attacker and attack.

    Attributes:
        scores: metrics shown below each picture.
        pictures: images per data set, each under another draw of the defense's randomness.
        note: explained below the figure.
    """

    scores: tuple[str, ...]
    pictures: int = Field(default=2, gt=0)
    note: str = ""


class PicturesLayout(Named):
    """``pictures`` of an item's YAML: reconstructions by row keys, the originals first.

    Attributes:
        columns: row keys (or ``draw``) whose values make a column each. A key is named where the keys before it leave
            more than one column.
        rows: row keys (or ``image``, ``draw``) whose values make a row each; a draw that is named nowhere is the first.
            Images are called by their class.
        sections: row keys (or ``update``: images of one update, or ``draw``) whose values head groups of rows. Updates
            are numbered within what shares all row keys.
        originals: row keys whose values have an original each, before the first column that has them: a server that
            sends other weights may isolate another image of the same batch.
        batches: above the grid, the whole batch that the first update of each section comes from; the images of the
            class that was asked for (``images.label``) are marked.
        classes: data set -> names of its classes, by label; elsewhere an image is called ``class 3``.
        scores: metrics shown below each picture, two at most.
        formats: metric -> format of its line, e.g. ``{lpips_vgg: "LPIPS {:.2f}"}``.
        count: images shown, of each data set.
        arrangement: attackers ``beside`` each other in each column, or ``below`` each other in sections of rows.
        attackers: attacker -> heading, in order.
        width: of the figure, in inches; the grid continues below where the columns do not fit.
        note: explained below the figure.
    """

    columns: tuple[str, ...] = ("defense",)
    rows: tuple[str, ...] = ("image",)
    sections: tuple[str, ...] = ()
    originals: tuple[str, ...] = ()
    batches: bool = False
    classes: dict[str, tuple[str, ...]] = Field(default_factory=dict)
    scores: tuple[str, ...]
    formats: dict[str, str] = Field(default_factory=dict)
    count: int = Field(default=5, gt=0)
    arrangement: Literal["beside", "below"] = "below"
    attackers: dict[str, str] = Field(
        default_factory=lambda: {"paper": "paper's attacker", "knowing": "knowing attacker"}
    )
    width: float = Field(default=7.0, gt=0)
    note: str = ""


class TargetLine(Record):
    """A horizontal line at a number that curves are meant to reach.

    Attributes:
        value: where it lies.
        label: shown beside it.
        where: row keys (or ``metric``) of the panels that show it, e.g. ``{partition: iid}``; empty means all.
    """

    value: float
    label: str = ""
    where: dict[str, Any] = Field(default_factory=dict)


class CurvesLayout(Named):
    """``curves`` of an item's YAML: numbers as lines.

    Attributes:
        x: a metric with the key ``index`` (``round``), which pairs it with the y of the same index, or a row key
            whose values are numbers (``E``).
        y: the metric or metrics shown; several need ``metric`` among the lines or panels.
        lines: row keys (or ``metric``); each combination of their values is one line.
        panels: row keys (or ``metric``, ``attacker``); each combination of their values is one panel. Panels of one
            metric have the same y axis.
        attackers: attackers shown; several need ``attacker`` among the lines or panels.
        where: row keys that a number must have to be shown.
        log: axes with a logarithmic scale; an x that begins at 0 is linear up to 1.
        targets: horizontal lines.
        band: ``std`` shades one standard deviation around each line, ``interval`` draws the 95 % interval of each mark.
        difference_to: values of all line keys, e.g. ``{method: vanilla}``: below each panel another shows the other
            lines' difference to this one, with this one's standard deviation around zero; for curves that lie on each
            other.
        units: of x and y where the numbers do not carry one, e.g. ``{round: "", train_loss: nats}``.
        note: explained below the figure.
    """

    x: str
    y: str | tuple[str, ...]
    lines: tuple[str, ...] = ()
    panels: tuple[str, ...] = ()
    attackers: tuple[str, ...] = ("paper", "")
    where: dict[str, Any] = Field(default_factory=dict)
    log: tuple[Literal["x", "y"], ...] = ()
    targets: tuple[TargetLine, ...] = ()
    band: Literal["", "std", "interval"] = ""
    difference_to: dict[str, Any] = Field(default_factory=dict)
    units: dict[str, str] = Field(default_factory=dict)
    note: str = ""

    @property
    def metrics(self) -> tuple[str, ...]:
        """The metrics of the y axis, in the order of the YAML."""
        return (self.y,) if isinstance(self.y, str) else self.y


class PathsLayout(Named):
    """``paths`` of an item's YAML: ways through the plane.

    Attributes:
        x: metric with the key ``index``: first coordinate along a path.
        y: second coordinate.
        paths: row keys; each combination of their values is one path.
        panels: row keys; each combination of their values is one panel.
        points: label -> metrics of the two coordinates of single points (the optimum); a point that lacks a panel's
            key is shown in every panel.
        where: row keys that a number must have to be shown.
        note: explained below the figure.
    """

    x: str
    y: str
    paths: tuple[str, ...]
    panels: tuple[str, ...] = ()
    points: dict[str, tuple[str, str]] = Field(default_factory=dict)
    where: dict[str, Any] = Field(default_factory=dict)
    note: str = ""


class LandscapeLayout(Named):
    """``landscape`` of an item's YAML: an attack's loss beside the distance from the private image.

    Attributes:
        distance: metrics that measure it, the preferred one first; the first that was computed is shown.
        group: row key whose values make a panel or row each (the defense).
        attackers: attacker -> what is added to the group's name, in order.
        profiled: of a line: also draw the loss at the best factor on the update, in the same panel.
        note: explained below the figure.
    """

    distance: tuple[str, ...] = Field(min_length=1)
    profiled: bool = False
    group: str = "defense"
    attackers: dict[str, str] = Field(default_factory=lambda: {"paper": "", "knowing": ", knowing attacker"})
    note: str = ""


class SentencesLayout(Named):
    """``sentences`` of an item's YAML: private sentences and what each attacker read, word by word.

    Attributes:
        examples: how many sentences, from the first; each under another draw of the defense's randomness.
        group: row key whose values make the groups below a sentence (the defense).
        note: explained below the figure.
    """

    examples: int = Field(default=2, gt=0)
    group: str = "method"
    note: str = ""


# How an item's points are arranged: ``scatter`` of its YAML.


class ScatterLayout(Named):
    """``scatter`` of an item's YAML: points in the plane.

    Attributes:
        x: metric of the first coordinate.
        y: metric of the second one, under the same row keys.
        groups: row keys; points with the same values have the same sign and color.
        panels: row keys; each combination of their values is one panel.
        where: row keys that a number must have to be shown.
        note: explained below the figure.
    """

    x: str
    y: str
    groups: tuple[str, ...]
    panels: tuple[str, ...] = ()
    where: dict[str, Any] = Field(default_factory=dict)
    note: str = ""
