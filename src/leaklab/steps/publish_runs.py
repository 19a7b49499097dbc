"""Keep what a checkout without runs shows of them: costs, metric cards, and the drawings of who holds what.

Items whose runs are not here say it by the archive beside their table, or keep what was published of them as long as
their table is the same, so that one more item does not ask for the runs of all. Where nobody knows, nothing is said.
The records of published results name the code of this step; so it imports little, and asks its rule what the plan says.
"""

import shutil
from pathlib import Path

from leaklab.records import files
from leaklab.records.ledger import Ledger
from leaklab.report.site.publication import lacks_runs, published_deal, published_now, write_cards, write_costs
from leaklab.steps.base import Job, log, main


def run(job: Job) -> None:
    """Write ``costs.csv`` and ``cards.json`` of the items whose figures are inputs, and copy the drawings of deals."""
    ledger = Ledger.scan()
    figures = {f"{path.parent.name}/{path.stem}": path for path in job.inputs["figures"]}
    lacking = sum(lacks_runs(ledger, path) for path in figures.values())
    found = published_now(job.outputs["costs"].parent, figures, ledger)
    if unknown := sorted(figures.keys() - found.costs.keys()):
        log.warning("no cost of %s: neither runs are here nor the table that was published", ", ".join(unknown))
    write_costs(job.outputs["costs"], found.costs)
    write_cards(job.outputs["cards"], found.cards)
    deals = _publish_deals(job.spec["scale"], job.inputs["deals"], all_here=not lacking)
    job.outputs.update({str(path): path for path in deals})
    job.note(items=len(figures), elsewhere=lacking, unknown=unknown, deals=len(deals))


def _publish_deals(scale: str, drawings: list[Path], all_here: bool) -> list[Path]:
    """Copy the drawings; where all runs are here, take away those of deals that are no longer among them."""
    targets = {published_deal(scale, path.parent): path for path in drawings}
    older = sorted(set(Path("figures", scale).glob("partition-*.png")) - set(targets))
    for old in older if all_here else ():
        old.unlink()
    for target, source in targets.items():
        with files.atomic(target) as temporary:
            shutil.copyfile(source, temporary)
    return [*targets, *(() if all_here else older)]


if __name__ == "__main__":
    main("publish_runs", run)
