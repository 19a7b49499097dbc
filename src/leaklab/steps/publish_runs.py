"""Keep what a checkout without runs shows of them: costs, metric cards, and the drawings of who holds what.

The records of published results name the code of this step; so it imports little, and asks its rule what the plan says.
"""

import shutil
from pathlib import Path

from leaklab.records import files
from leaklab.records.ledger import Ledger
from leaklab.report.site.metric_cards import cards_of
from leaklab.report.site.publication import cost_of, published_deal, write_cards, write_costs
from leaklab.steps.base import Job, main


def run(job: Job) -> None:
    """Write ``costs.csv`` and ``cards.json`` of the items whose figures are inputs, and copy the drawings of deals."""
    ledger = Ledger.scan()
    figures = {f"{path.parent.name}/{path.stem}": path for path in job.inputs["figures"]}
    entries = {item: ledger.behind(path.as_posix()).entries for item, path in figures.items()}
    write_costs(job.outputs["costs"], {item: cost_of(own) for item, own in entries.items()})
    write_cards(job.outputs["cards"], {item: cards_of(own) for item, own in entries.items()})
    deals = _publish_deals(job.spec["scale"], job.inputs["deals"])
    job.outputs.update({str(path): path for path in deals})
    job.note(items=len(entries), deals=len(deals))


def _publish_deals(scale: str, drawings: list[Path]) -> list[Path]:
    """Copy the drawings, and take away those of deals that are no longer among them."""
    targets = {published_deal(scale, path.parent): path for path in drawings}
    for old in set(Path("figures", scale).glob("partition-*.png")) - set(targets):
        old.unlink()
    for target, source in targets.items():
        with files.atomic(target) as temporary:
            shutil.copyfile(source, temporary)
    return list(targets)


if __name__ == "__main__":
    main("publish_runs", run)
