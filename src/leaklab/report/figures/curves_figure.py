"""The numbers of an item as lines: one panel below the other, so that letters stay readable on a narrow screen."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, LogLocator, NullLocator

from leaklab.items.layouts import CurvesLayout
from leaklab.report.figures.style import (
    COLUMN_WIDTH,
    PAGE_WIDTH,
    QUIET,
    SMALLEST_FONT,
    Strokes,
    extra_height,
    finish,
    frame_of,
    new_figure,
    styled,
    with_unit,
)
from leaklab.report.numbers.results import same
from leaklab.report.numbers.series import Curve, Floats, differences
from leaklab.report.numbers.words import Place, labels_of

MOST_IN_ONE_COLUMN = 4
PANEL_HEIGHT = 2.1
# of a panel of differences, relative to the panel above it
DIFFERENCE_SHARE = 0.75
BETTER = {"higher": " ↑", "lower": " ↓", "": ""}
"""Behind the name of an axis: which way is better for the paper's subject."""
# of many points a few have marks, this share of the panel's diagonal apart; of few points each
MARK_DISTANCE = 0.13
MOST_MARKED = 15
MOST_TICKS = 10
# a logarithmic axis that spans less has 1, 2 and 5 written out, not powers of ten
PLAIN_NUMBERS = 500
# of the range of an axis that panels share
SHARED_MARGIN = 0.03
# of the axis' height, above its scale: the mark of a missing number and the arrow on it
ABOVE, ARROW = 1.04, 1.12


def draw(layout: CurvesLayout, curves: Sequence[Curve], title: str, notes: Sequence[str] = ()) -> Figure:
    """Draw the curves of ``series.curves``.

    Args:
        layout: what goes where.
        curves: at least one.
        title: shown above.
        notes: shown below, beside the layout's own.

    Raises:
        UserError: two lines have the same label.
    """
    panels = list(dict.fromkeys(curve.panel for curve in curves))
    strokes = Strokes([_line_label(layout, line) for line in dict.fromkeys(curve.line for curve in curves)])
    names = strokes.names if layout.lines else []
    below = [*_own_notes(layout, curves), *notes]
    columns = 1 if len(panels) <= MOST_IN_ONE_COLUMN or layout.difference_to else 2
    rows = -(-len(panels) // columns)
    width = COLUMN_WIDTH if columns == 1 else PAGE_WIDTH
    shares = (1.0, DIFFERENCE_SHARE) if layout.difference_to else (1.0,)
    with styled(ruled=True):
        height = rows * PANEL_HEIGHT * sum(shares) + 0.35 + extra_height(title, names, below, width)
        figure = new_figure(width, height)
        shared = "metric" not in layout.panels and not layout.difference_to
        axes = figure.subplots(rows * len(shares), columns, squeeze=False, sharex=True, sharey=shared,
                               height_ratios=shares * rows).ravel()  # fmt: skip
        upper, lower = list(axes[:: len(shares)]), list(axes[1 :: len(shares)]) if layout.difference_to else []
        for place, panel in enumerate(panels):
            own = [curve for curve in curves if curve.panel == panel]
            handles = _panel(layout, upper[place], own, strokes)
        for place, panel in enumerate(panels if lower else []):
            _differences(layout, lower[place], [curve for curve in differences(layout, curves) if curve.panel == panel],
                         strokes)  # fmt: skip
        _share_scales(layout, upper, curves, panels)
        for lowest in (lower or upper[: len(panels)])[-columns:]:
            _name_x(layout, lowest, curves[0].x_unit)
        for unused in upper[len(panels) :]:
            unused.set_visible(False)
        if "metric" not in layout.panels:
            label = _y_label(layout, curves)
            upper[0].set_ylabel(label) if rows == 1 or lower else figure.supylabel(label, fontsize="medium")
        finish(figure, title, handles if names else [], below)
    return figure


def arrays(layout: CurvesLayout, curves: Sequence[Curve]) -> dict[str, Floats]:
    """Return the numbers that the figure shows, each line's x, y and std under the names of its keys."""
    shown = {"": curves, "difference of ": differences(layout, curves) if layout.difference_to else ()}
    return {
        f"{kind}{_name(layout, curve)}: {part}": getattr(curve, part)
        for kind, of_kind in shown.items()
        for curve in of_kind
        for part in ("x", "y", "std")
    }


def _name(layout: CurvesLayout, curve: Curve) -> str:
    keys = zip((*layout.panels, *layout.lines), (*curve.panel, *curve.line), strict=True)
    return ", ".join([curve.metric, *(f"{key} {value}" for key, (_, value) in keys if key != "metric")])


def _panel(layout: CurvesLayout, axes: Axes, curves: Sequence[Curve], strokes: Strokes) -> list[Any]:
    """Draw one panel and return what stands in the legend."""
    handles = _lines(layout, axes, curves, strokes)
    _missing(layout, axes, curves, strokes)
    for curve in curves if layout.band == "std" else ():
        _band(axes, curve, strokes.colors[_line_label(layout, curve.line)], positive="y" in layout.log)
    for curve in curves if layout.band == "interval" else ():
        _intervals(axes, curve, strokes.colors[_line_label(layout, curve.line)])
    _scales(layout, axes, curves)
    _targets(layout, axes, curves)
    names = [name for key, name in zip(layout.panels, labels_of(layout, layout.panels, curves[0].panel), strict=True)
             if key != "metric" and name]  # fmt: skip
    if names:
        axes.set_title(" · ".join(names), loc="left", fontweight="bold")
    if "metric" in layout.panels:
        axes.set_ylabel(_y_label(layout, curves))
    return handles


def _differences(layout: CurvesLayout, axes: Axes, curves: Sequence[Curve], strokes: Strokes) -> None:
    _lines(layout, axes, curves, strokes)
    for curve in curves:
        if np.any(curve.std > 0):
            _band(axes, curve, strokes.colors[_line_label(layout, curve.line)])
    _scale_x(layout, axes, curves)
    units = {layout.units.get(curve.metric, curve.unit) for curve in curves}
    unit = units.pop() if len(units) == 1 else ""
    axes.set_ylabel(with_unit("difference", "points" if unit == "%" else unit))
    values = np.concatenate([curve.y[np.isfinite(curve.y)] for curve in curves] or [np.zeros(1)])
    if np.ptp(values) > 0:
        # the lines decide: the spread of the first rounds would hide them
        margin = 0.15 * np.ptp(values)
        axes.set_ylim(values.min() - margin, values.max() + margin)


def _name_x(layout: CurvesLayout, axes: Axes, unit: str) -> None:
    axes.set_xlabel(with_unit(layout.title(layout.x), layout.units.get(layout.x, unit)))
    axes.tick_params(labelbottom=True)


def _share_scales(layout: CurvesLayout, axes: Sequence[Axes], curves: Sequence[Curve], panels: Sequence[Place]) -> None:
    """Give panels of the same metric the same y axis, so that they can be compared by eye."""
    metric_of = {curve.panel: curve.metric if "metric" in layout.panels else "" for curve in curves}
    for metric in set(metric_of.values()):
        own = [axes[place] for place, panel in enumerate(panels) if metric_of[panel] == metric]
        limits = [panel.get_ylim() for panel in own]
        low, high = min(low for low, _ in limits), max(high for _, high in limits)
        # of its own range a panel's margin may be too small for a mark on the shared axis
        margin = 0.0 if own[0].get_yscale() == "log" else SHARED_MARGIN * (high - low)
        for panel in own if len(own) > 1 else []:
            panel.set_ylim(low - margin, high + margin)


def _lines(layout: CurvesLayout, axes: Axes, curves: Sequence[Curve], strokes: Strokes) -> list[Any]:
    shown = frame_of((_line_label(layout, curve.line), curve.x, curve.y) for curve in curves)
    handles = strokes.lines(axes, shown, markersize=4.5, markeredgewidth=0.5)
    drawn = list(axes.lines)
    for place, line in enumerate(drawn):
        if len(np.ravel(line.get_xdata())) > MOST_MARKED:
            line.set_markevery((place / len(drawn) * MARK_DISTANCE, MARK_DISTANCE))
    return handles


def _missing(layout: CurvesLayout, axes: Axes, curves: Sequence[Curve], strokes: Strokes) -> None:
    """Mark above the axis where a line has no number."""
    gone = frame_of(
        (_line_label(layout, curve.line), curve.x[places], np.full(places.sum(), ABOVE))
        for curve in curves
        for places in [np.array(curve.missing) != ""]
    )
    above: dict[str, Any] = {"transform": axes.get_xaxis_transform(), "clip_on": False}
    strokes.hollow(axes, gone, markersize=6, markerfacecolor="none", **above)
    strokes.hollow(axes, gone.assign(y=ARROW), style=None, marker=r"$\uparrow$", markersize=7, **above)


def _band(axes: Axes, curve: Curve, color: Any, positive: bool = False) -> None:
    """Shade one standard deviation around a line; on a logarithmic axis it ends above zero.

    It is the table's: seaborn would compute its own from samples.
    """
    low, high = curve.y - curve.std, curve.y + curve.std
    if positive:
        low = np.maximum(low, np.nanmin(curve.y) / 2)
    axes.fill_between(curve.x, low, high, color=color, alpha=0.15, linewidth=0)


def _intervals(axes: Axes, curve: Curve, color: Any) -> None:
    """Draw the 95 % interval of each mark that has one, thinner than the line between the marks."""
    axes.vlines(curve.x, curve.low, curve.high, color=color, alpha=0.6, linewidth=1.0)


def _scales(layout: CurvesLayout, axes: Axes, curves: Sequence[Curve]) -> None:
    if "y" in layout.log and any(np.any(curve.y > 0) for curve in curves):
        axes.set_yscale("log")
    low, high = axes.get_ylim()
    if axes.get_yscale() == "log" and high < PLAIN_NUMBERS * low:
        axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axes.yaxis.set_minor_locator(NullLocator())
        axes.yaxis.set_major_formatter(lambda value, _: f"{value:g}")
    _scale_x(layout, axes, curves)


def _scale_x(layout: CurvesLayout, axes: Axes, curves: Sequence[Curve]) -> None:
    if "x" in layout.log:
        from_zero = any(np.any(curve.x <= 0) for curve in curves)
        axes.set_xscale("symlog", linthresh=1) if from_zero else axes.set_xscale("log")
    values = np.unique(np.concatenate([curve.x for curve in curves]))
    if "x" in layout.log and len(values) <= MOST_TICKS:
        axes.xaxis.set_major_locator(FixedLocator(values.tolist()))
        axes.xaxis.set_minor_locator(NullLocator())
        axes.xaxis.set_major_formatter(lambda value, _: f"{value:g}")


def _targets(layout: CurvesLayout, axes: Axes, curves: Sequence[Curve]) -> None:
    here = {key: value for key, (_, value) in zip(layout.panels, curves[0].panel, strict=True)}
    here.setdefault("metric", curves[0].metric)
    for target in layout.targets:
        if all(key in here and same(here[key], value) for key, value in target.where.items()):
            axes.axhline(target.value, color=QUIET, linewidth=0.9, linestyle=(0, (2, 2)), zorder=1)
            axes.annotate(target.label or f"{target.value:g}", (1, target.value), xycoords=("axes fraction", "data"),
                          xytext=(-2, 2), textcoords="offset points", ha="right", va="bottom", color=QUIET,
                          fontsize=SMALLEST_FONT)  # fmt: skip


def _y_label(layout: CurvesLayout, curves: Sequence[Curve]) -> str:
    metrics = list(dict.fromkeys(curve.metric for curve in curves))
    units = {layout.units.get(curve.metric, curve.unit) for curve in curves}
    unit = units.pop() if len(units) == 1 else ""
    better = {curve.better for curve in curves}
    sign = BETTER[better.pop()] if len(better) == 1 else ""
    name = with_unit(layout.title(metrics[0]), unit) if len(metrics) == 1 else layout.titles.get("y", unit)
    return f"{name}{sign}"


def _line_label(layout: CurvesLayout, line: Place) -> str:
    """Return ``LRP``; a number is named with its key, ``K = 5``."""
    labels = labels_of(layout, layout.lines, line)
    return ", ".join(
        f"{layout.title(key)} = {label}" if isinstance(value, int | float) and label == str(value) else label
        for key, label, (_, value) in zip(layout.lines, labels, line, strict=True)
    )


def _own_notes(layout: CurvesLayout, curves: Sequence[Curve]) -> list[str]:
    words = sorted({word for curve in curves for word in curve.missing if word})
    replicates = any(np.any(curve.std > 0) for curve in curves)
    intervals = layout.band == "interval" and any(np.any(np.isfinite(curve.low)) for curve in curves)
    return [
        *(["Shaded: one standard deviation over the replicates."] if layout.band == "std" and replicates else []),
        *(["Upright bars: 95 % intervals."] if intervals else []),
        *([_difference_note(layout, replicates)] if layout.difference_to else []),
        *(["An arrow at an axis points to what is better."] if any(curve.better for curve in curves) else []),
        *([f"Hollow marks with an arrow, above the axis: no number ({', '.join(words)})."] if words else []),
        *([layout.note] if layout.note else []),
    ]


def _difference_note(layout: CurvesLayout, replicates: bool) -> str:
    name = ", ".join(layout.label(key, value) for key, value in layout.difference_to.items())
    return f"Difference: to {name}" + ("; shaded: its standard deviation over the replicates." if replicates else ".")
