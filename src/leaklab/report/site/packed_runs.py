"""What the runs behind an item took, from the records that are packed beside its table (``planning/packing.py``)."""

import shutil
import tempfile
import zipfile
from pathlib import Path

from leaklab.planning.packing import SUFFIX
from leaklab.records.errors import UserError
from leaklab.records.ledger import Ledger
from leaklab.report.site.metric_cards import cards_of
from leaklab.report.site.publication import Cost, MetricCard, cost_of, lacks_runs


def archive_beside(costs: Path, item: str) -> Path:
    """Return where an item's (``lrp/table1``) files of runs are packed, beside the ``costs.csv`` of its scale."""
    return costs.parent / f"{item}{SUFFIX}"


def of_archive(archive: Path, figure: Path) -> tuple[Cost, tuple[MetricCard, ...]]:
    """Return cost and metric cards of the item of a figure, ``figures/<scale>/<paper>/<item>.png``.

    The records of its table and figure are those of the checkout; those of runs and data are the archive's.

    Raises:
        UserError: the archive is damaged, or is not of the runs that the table was made of.
    """
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        try:
            with zipfile.ZipFile(archive) as packed:
                packed.extractall(root)
        except (OSError, zipfile.BadZipFile) as error:
            raise UserError(f"{archive} is damaged ({error}): get it again, or delete it") from None
        for record in (figure.with_suffix(".run.json"), Path("results", *figure.parts[1:]).with_suffix(".run.json")):
            (root / record).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(record, root / record)
        ledger = Ledger.scan(root)
        if lacks_runs(ledger, figure):
            raise UserError(f"{archive}: not of the runs that {figure} rests on: `leaklab pack` where they are")
        entries = ledger.behind(figure.as_posix()).entries
        return cost_of(entries, root), cards_of(entries, root)
