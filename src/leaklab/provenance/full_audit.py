"""What ``leaklab audit`` checks of a checkout: records, published files, adoptions, a commit, signatures."""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from leaklab.items.items import load_items
from leaklab.planning.code_lock import CodeLock
from leaklab.planning.own_items import FOLDER, without_own
from leaklab.planning.plan import build_plan
from leaklab.planning.run_records import checked_ledger
from leaklab.provenance import published
from leaklab.provenance.audit import Audit, Same, audit
from leaklab.provenance.checksums import KeptChecksums
from leaklab.provenance.signing import check, signatures, unsigned_scales
from leaklab.records.errors import UserError


def full_audit(
    revision: str | None = None, key: Path | None = None, full: bool = False, same: Same | None = None
) -> Iterator[str]:
    """Check everything, and yield what was found line by line.

    Args:
        revision: a commit to compare what is published with; None for none.
        key: public key by which what is signed has to be signed; None to leave signatures unchecked.
        full: read every file, also those that are as an earlier audit left them.
        same: tells of an edited input whether the result would be the same.

    Raises:
        UserError: a link of the chain is broken, or there is nothing to audit.
    """
    every = checked_ledger()
    ledger = without_own(every)
    if not ledger.entries:
        raise UserError("audit failed: no run record here: run it in the root folder of a project that has results")
    checksums = KeptChecksums() if full else KeptChecksums.load()
    result = audit(ledger, checksums.of, same)
    checksums.save()
    unfit = list(CodeLock.load().faults(ledger))
    lost = published.faults(build_plan(load_items()), ledger)
    compared = None if revision is None else published.compare(revision)
    differences = compared.differences if compared else ()
    signed = [] if key is None else check(key)
    unsigned = [fault for one in signed for fault in one.faults]
    yield from [*result.breaks, *result.stale, *lost, *unfit, *differences, *unsigned]
    yield from _besides(result)
    if own := len(every.entries) - len(ledger.entries):
        yield f"{own} records of items in {FOLDER} are nobody else's, and not checked"
    if key is None:
        yield from (f"{signature}: not checked: name the public key with --signed-by" for signature in signatures())
    yield from (f"{one.signature}: valid, {one.files} signed files are here" for one in signed if not one.faults)
    if key is not None:
        yield from (f"results/{scale}: has no signature" for scale in unsigned_scales())
    verdict = f"{result.records} records, {result.files} files checked"
    if checksums.spared:
        verdict += f" ({checksums.spared} unchanged since an earlier audit and not read again: --full reads all)"
    if compared:
        verdict += f", {compared.files} of them published with commit {compared.commit[:12]}"
    if result.breaks or result.stale or lost or unfit or differences or unsigned:
        against = f"{len(differences)} differences from the commit, " if compared else ""
        against += f"{len(unsigned)} faults of signatures, " if signed else ""
        raise UserError(
            f"audit failed: {against}{len(result.breaks)} changed files, {len(result.stale)} stale records, "
            f"{len(lost)} files missing or without a record, {len(unfit)} faults of the code lock; {verdict}"
        )
    yield f"audit passed: {verdict}"


def _besides(result: Audit) -> Iterator[str]:
    """Yield what does not fail an audit, and should be known."""
    if result.absent:
        places = Counter(str(Path(path).parent.parent) for path in result.absent)
        where = ", ".join(f"{count} below {place}" for place, count in places.most_common())
        how = "snakemake makes them, `dvc pull` brings them where a remote is set"
        yield f"not in this checkout, so not checked: {where} ({how})"
    if result.remade:
        yield f"made again here with other bytes beside published results, as another machine may: {len(result.remade)}"
        yield from (f"  {line}" for line in result.remade)
    if result.reworded:
        edited = "edited after their results, which they would give again"
        yield f"{edited}: {len(result.reworded)} items ({', '.join(sorted(result.reworded))})"
    if result.adopted:
        yield f"{len(result.adopted)} records adopted on the evidence of {len(result.evidence)} runs"
