"""What the command ``leaklab`` offers of reports: pages of a scale or of one item, and documents that quote them."""

from typing import Annotated

import typer

from leaklab.planning.names import complete_item, no_empty_word
from leaklab.records.progress import shown
from leaklab.records.terminal import AsJson, ScaleOption, named_scale, out, print_json


def add_to(app: typer.Typer) -> None:
    """Add the commands."""
    for command in (report, findings):
        app.command()(command)


def report(
    item: Annotated[
        list[str] | None,
        typer.Argument(
            help="such as lrp table1, or mine toy; none: all of the scale",
            callback=no_empty_word,
            autocompletion=complete_item,
        ),
    ] = None,
    scale: ScaleOption = "demo",
    as_json: AsJson = False,
) -> None:
    """Print where the report of a scale, or the page of one item, is; build it from the results that are here."""
    from leaklab.report.site.built_before import built_before, remember

    if item:
        from leaklab.report.site.one_page import item_page

        with shown("building the page"):
            page = item_page(" ".join(item), named_scale(scale))
        if as_json:
            print_json({"scale": scale, "page": str(page.resolve())})
        else:
            out.print(f"page: {page.resolve()}")
        return
    with shown("building the pages"):
        found = built_before(named_scale(scale))
        if found is None:
            from leaklab.report.site.checkout import report_page

            found = report_page(named_scale(scale))
            remember(named_scale(scale), found)
    if as_json:
        told = {"scale": scale, "report": str(found.page.resolve()), "absent_records": found.absent_records}
        print_json(told)
        return
    if found.absent_records:
        out.print(
            "built from the results in this checkout; not in it are the records of "
            f"{found.absent_records} runs and data sets"
        )
    out.print(f"report: {found.page.resolve()}")


def findings(scale: ScaleOption = "small") -> None:
    """Write what quotes results: parts of README.md, results/<scale>/README.md, and the pages of docs that do."""
    from leaklab.records.files import write_text
    from leaklab.report.site.checkout import published_data
    from leaklab.report.site.documents import documents, unsaid

    with shown("reading results"):
        data = published_data(named_scale(scale))
    for path, text in documents(data).items():
        write_text(path, text)
        out.print(str(path))
    for line in unsaid(data):
        out.print(line)
