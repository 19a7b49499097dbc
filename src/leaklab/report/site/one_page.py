"""The page of one item, from its table and figure alone: what else of its scale is here, or is not, does not matter."""

import tempfile
from dataclasses import asdict
from pathlib import Path

from leaklab.items.items import Item, load_items, load_papers
from leaklab.planning.names import is_paper_of_own, named_item
from leaklab.planning.outputs import state_of
from leaklab.planning.own_items import is_own, own_items
from leaklab.planning.plan import result_files, set_up
from leaklab.records.config import Scale
from leaklab.records.errors import UserError
from leaklab.records.files import write_json
from leaklab.report.judge.claims import read_claims
from leaklab.report.judge.comparison import write_comparison
from leaklab.report.judge.judging import judge_all
from leaklab.report.judge.printed import Printed, as_printed, load_choices
from leaklab.report.judge.tolerances import Tolerances
from leaklab.report.numbers.results import ResultTable
from leaklab.report.site.checkout import CLAIMS, as_made, build_aside, is_of_workflow
from leaklab.report.site.own_page import write_own_pages
from leaklab.report.site.site_data import Sources

PAPERS = CLAIMS.parent


def item_page(name: str, scale: Scale) -> Path:
    """Return the page of an item: that of the scale's report where it is up to date, else one that is made now.

    An item of one's own stands on the page of all of them.

    Args:
        name: of the item, as a user may write it.
        scale: of the results.

    Raises:
        UserError: there is no such item, or its table and figure are not here.
    """
    items = own_items() if is_paper_of_own(name) else load_items()
    item = named_item(name, items)
    made = result_files(item, scale)
    if not all(made[name].is_file() for name in (("csv",) if is_own(item) else ("csv", "png"))):
        raise UserError(f"{item.key} has no result of scale {scale} here: {_how_to_have_it(item, scale)}")
    if is_own(item):
        (page,) = write_own_pages(items, {scale: {item.key}})
        return page
    report = Path("results", scale, "report")
    whole = report / f"{item.paper}-{item.item}.html"
    if whole.is_file() and is_of_workflow(report.parent):
        return whole
    folder = report / f"{item.paper}-{item.item}"
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as scratch:
        sources = _judged(item, scale, Path(scratch))
        build_aside(scale, as_made({item.key: item}, scale), sources, folder)
    return folder / whole.name


def _how_to_have_it(item: Item, scale: Scale) -> str:
    state = state_of(set_up({item.key: item}), item, scale)
    if state.word == "planned":
        return state.reason
    return f"snakemake --cores 2 {result_files(item, scale)['csv' if is_own(item) else 'png']}"


def _judged(item: Item, scale: Scale, scratch: Path) -> Sources:
    """Return what the scale's report was judged by; where there is none, the item's numbers beside the printed ones."""
    paper = {item.paper: load_papers()[item.paper]}
    published = Sources(
        Path("results", scale, "comparison.csv"), Path("results", scale, "verdicts.json"), CLAIMS, paper
    )
    if published.comparison.is_file() and published.verdicts.is_file():
        return published
    results = ResultTable.read(result_files(item, scale)["csv"])
    printed = Printed.load(PAPERS / "targets.csv", PAPERS / "tolerances.yaml")
    rows = printed.beside(as_printed(results, load_choices(PAPERS / "printed.yaml")), [item])
    stand_ins = Tolerances.load(PAPERS / "tolerances.yaml").stand_ins
    verdicts = judge_all(read_claims(CLAIMS), results, printed.numbers, stand_ins, scale)
    here = Sources(scratch / "comparison.csv", scratch / "verdicts.json", CLAIMS, paper)
    write_comparison(here.comparison, rows)
    write_json(here.verdicts, [asdict(verdict) for verdict in verdicts])
    return here
