"""A laid out table as Markdown, LaTeX (booktabs) and HTML."""

import html
from collections.abc import Sequence
from itertools import groupby

from leaklab.report.numbers.words import MINUS, NONE, TIMES, WITHIN
from leaklab.report.tables.layout import Cell, Grid
from leaklab.report.tables.notes import heading

WITHIN_WORDS = {"yes": "within tolerance", "no": "outside tolerance"}
GROUP = ' class="group"'
LATEX_MARKS = {"best": r"$^{\blacktriangle}$", "worst": r"$^{\blacktriangledown}$", "": ""}


def markdown(grid: Grid, caption: str) -> str:
    """Return the table in Markdown: bold with ▲ or ▼ marks a group's best and worst, the printed number follows."""
    head = [*grid.row_titles, *(" / ".join(labels) for labels in grid.column_labels)]
    lines = [
        f"**{caption}**",
        "",
        _pipe(head),
        _pipe(["---"] * len(grid.row_titles) + ["---:"] * len(grid.column_labels)),
    ]
    for labels, cells in zip(grid.row_labels, grid.cells, strict=True):
        lines.append(_pipe([*labels, *(_markdown_cell(cell) for cell in cells)]))
    return "\n".join([*lines, "", legend(grid), ""])


def legend(grid: Grid) -> str:
    """Return one line that explains what the cells show."""
    parts = [f"Columns: {' / '.join(grid.keyed)}."] if grid.keyed else []
    if grid.differing:
        parts.append("In parentheses: the printed number and the difference from it; ✓ within tolerance, ✗ outside.")
    elif grid.compared:
        parts.append("In parentheses: the printed number.")
    if grid.marked:
        parts.append("▲ best, ▼ worst of its group.")
    return " ".join([*parts, *(f"{sentence(note)}" for note in grid.notes)])


def sentence(note: str) -> str:
    """Return a note with a capital letter and a full stop."""
    return f"{note[:1].upper()}{note[1:].rstrip('.')}."


def latex(grid: Grid, caption: str, label: str) -> str:
    """Return the table as a LaTeX ``table`` environment; it needs the packages booktabs, amssymb and graphicx."""
    width = len(grid.row_titles)
    lines = [
        "% needs \\usepackage{booktabs,amssymb,graphicx}",
        "\\begin{table}",
        "\\centering",
        f"\\caption{{{_tex(caption)}}}",
        f"\\label{{{label}}}",
        "\\resizebox{\\linewidth}{!}{%",
        f"\\begin{{tabular}}{{{'l' * width}{'r' * len(grid.column_labels)}}}",
        "\\toprule",
        *_latex_head(grid),
        "\\midrule",
    ]
    for place, (labels, cells) in enumerate(zip(grid.row_labels, grid.cells, strict=True)):
        if place and width > 1 and labels[0] != grid.row_labels[place - 1][0]:
            lines.append("\\addlinespace")
        lines.append(" & ".join([*map(_tex, labels), *(_latex_cell(cell) for cell in cells)]) + r" \\")
        if any(cell.printed for cell in cells):
            beside = [_latex_printed(cell) for cell in cells]
            lines.append(" & ".join([*[""] * width, *beside]).lstrip() + r" \\")
    notes = [f"\\par\\smallskip\\footnotesize {_tex(sentence(note))}" for note in grid.notes]
    return "\n".join([*lines, "\\bottomrule", "\\end{tabular}}", *notes, "\\end{table}", ""])


def page_table(grid: Grid, caption: str) -> str:
    """Return the table as an HTML ``table`` element; every text in it is escaped."""
    lines = ['<table class="results">', f"<caption>{html.escape(caption)}</caption>", "<thead>", *_html_head(grid)]
    lines += ["</thead>", "<tbody>"]
    for place, (labels, cells) in enumerate(zip(grid.row_labels, grid.cells, strict=True)):
        first = place == 0 or labels[0] != grid.row_labels[place - 1][0]
        name = html.escape(labels[0]) + "".join(f" <span>{html.escape(label)}</span>" for label in labels[1:])
        lines.append(f'<tr{GROUP if first else ""}><th scope="row">{name}</th>')
        lines += [_html_cell(cell) for cell in cells]
        lines.append("</tr>")
    return "\n".join([*lines, "</tbody>", "</table>"])


def _pipe(parts: Sequence[str]) -> str:
    return "| " + " | ".join(part.replace("|", "\\|") for part in parts) + " |"


def _markdown_cell(cell: Cell) -> str:
    text = f"**{cell.text}** {cell.symbol}" if cell.mark else cell.text
    if not cell.printed:
        return text
    difference = f"{cell.difference} {WITHIN.get(cell.within, '')}".strip()
    return f"{text} ({cell.printed}, {difference})" if difference else f"{text} ({cell.printed})"


def _latex_head(grid: Grid) -> list[str]:
    lines = []
    for depth, title in enumerate(grid.column_titles):
        spans = [(label, len(list(group))) for label, group in groupby(_prefixes(grid, depth))]
        heads = [f"\\multicolumn{{{span}}}{{c}}{{{_tex(prefix[-1])}}}" for prefix, span in spans]
        names = [_tex(name) for name in grid.row_titles] if depth == len(grid.column_titles) - 1 else []
        lead = names or [*[""] * (len(grid.row_titles) - 1), f"\\emph{{{_tex(title)}}}"]
        lines.append(" & ".join([*lead, *heads]).lstrip() + r" \\")
    return lines


def _latex_cell(cell: Cell) -> str:
    text = _tex(cell.text)
    return f"\\textbf{{{text}}}{LATEX_MARKS[cell.mark]}" if cell.mark else text


def _latex_printed(cell: Cell) -> str:
    if not cell.printed:
        return ""
    difference = f"; {_tex(cell.difference)}" if cell.difference else ""
    return f"{{\\footnotesize ({_tex(cell.printed)}{difference})}}"


def _prefixes(grid: Grid, depth: int) -> list[tuple[str, ...]]:
    return [labels[: depth + 1] for labels in grid.column_labels]


def _html_head(grid: Grid) -> list[str]:
    lines = []
    corner = " · ".join(grid.row_titles)
    for depth, title in enumerate(grid.column_titles):
        lines.append("<tr>")
        if depth == 0:
            lines.append(
                f'<th class="corner" rowspan="{len(grid.column_titles)}" scope="col">{html.escape(corner)}</th>'
            )
        for prefix, group in groupby(_prefixes(grid, depth)):
            span = len(list(group))
            kind = "colgroup" if span > 1 else "col"
            # a word says itself what it is
            key = f'<span class="key">{html.escape(title)}</span> ' if heading(title, prefix[-1]) != prefix[-1] else ""
            name = f"{key}{html.escape(prefix[-1])}"
            lines.append(f'<th scope="{kind}" colspan="{span}">{name}</th>')
        lines.append("</tr>")
    return lines


def _html_cell(cell: Cell) -> str:
    classes = " ".join(
        name for name in (cell.mark, f"within-{cell.within}" if cell.within in WITHIN_WORDS else "") if name
    )
    attribute = f' class="{classes}"' if classes else ""
    mark = f'<span class="mark" title="{cell.mark} of its group">{cell.symbol}</span>' if cell.mark else ""
    number, sign, spread = html.escape(cell.text).partition(" ±")
    spread = f' <span class="spread">±{spread}</span>' if sign else ""
    number = f"<strong>{number}</strong>" if cell.mark else number
    lines = f'<td{attribute}><span class="value">{mark}{number}{spread}</span>'
    if cell.printed:
        lines += (
            f'<span class="printed"><span class="visually-hidden">printed </span>{html.escape(cell.printed)}</span>'
        )
    if cell.difference:
        word = WITHIN_WORDS.get(cell.within, "")
        sign = WITHIN.get(cell.within, "")
        note = f' <abbr title="{word}">{sign}</abbr>' if sign else ""
        lines += f'<span class="difference">{html.escape(cell.difference)}{note}</span>'
    return lines + "</td>"


TEX_ESCAPES = {
    "\\": r"\textbackslash{}", "&": r"\&", "%": r"\%", "$": r"\$", "#": r"\#", "_": r"\_", "{": r"\{", "}": r"\}",
    "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "±": r"$\pm$", MINUS: "$-$", NONE: "--", "η": r"$\eta$",
    "θ": r"$\theta$", "₁": r"$_1$", "₂": r"$_2$", TIMES: r"$\times$", "ₖ": r"$_k$",
    "≥": r"$\geq$", "≤": r"$\leq$", "≫": r"$\gg$", "<": "$<$", ">": "$>$",
    "→": r"$\to$", "✓": r"$\checkmark$", "✗": r"$\times$",
}  # fmt: skip


def _tex(text: str) -> str:
    escaped = "".join(TEX_ESCAPES.get(character, character) for character in text)
    return escaped.replace("$$_", "_")  # an index belongs into the formula before it
