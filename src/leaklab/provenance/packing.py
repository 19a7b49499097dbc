"""What tables and figures were made of, packed beside them, so that they can be made again where the runs are not.

The runs behind published results take hours and are not in git; the scores, curves and sentences that a table or figure
reads of them are small. They are packed as they are, in one archive an item, and none of them has to be believed: the
records of the table and the figure name the SHA-256 of every file. The runs' own records are packed too, for what the
runs cost; they are not put back, as the files that they speak of are elsewhere.
"""

import hashlib
import io
import os
import subprocess
import sys
import zipfile
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from leaklab.items.items import Item, load_items
from leaklab.planning.code_lock import CodeLock
from leaklab.planning.kept_plans import known_plan
from leaklab.planning.known_plan import KnownPlan
from leaklab.planning.listings import planned_items
from leaklab.planning.plan import PREPARED, result_files
from leaklab.planning.result_lookups import FIGURES_OF_RUNS, pictures, table_files
from leaklab.planning.run_records import checked_ledger, inputs_of
from leaklab.provenance.audit import made_by
from leaklab.records.config import Scale
from leaklab.records.errors import UserError
from leaklab.records.files import atomic, sha256
from leaklab.records.ledger import Entry, Ledger
from leaklab.specs.base import RUNS

SUFFIX = ".runs.zip"
NO_DATE = (1980, 1, 1, 0, 0, 0)
"""Of every file in an archive: equal files make equal archives."""
TENSORS = ".safetensors"
RULES = ("make_table", "make_figure")
PIECES = "piece-*.json"
"""Records of the pieces of a run that was cut (``planning/pieces.py``)."""
Hashes = Mapping[str, str]
"""Path -> SHA-256."""


def archive_of(item: Item, scale: Scale) -> Path:
    """Return where an item's files of runs are packed."""
    return result_files(item, scale)["csv"].with_suffix(SUFFIX)


def named_files(item: Item, scale: Scale) -> dict[str, str]:
    """Return path -> SHA-256 of what an item's table and figure read of runs, as their records say; tensors aside.

    The pictures of a figure are chosen from tensors that are a hundred times as large: who has no runs makes such a
    table again, and not its figure.

    Raises:
        UserError: a record is damaged.
    """
    files = result_files(item, scale)
    records = [files["table_record"], *[files["figure_record"]] * (item.renderer in FIGURES_OF_RUNS)]
    read = {path: value for record in records if record.is_file() for path, value in inputs_of(record).items()}
    return {path: value for path, value in read.items() if _of_runs(path) and not path.endswith(TENSORS)}


def pack(items: Iterable[Item], scale: Scale) -> Iterator[str]:
    """Pack the files of those items whose runs are all here, and yield a line for each archive that is written.

    Of the others an archive stays as it is, also where its files were put back.

    Raises:
        UserError: a record is damaged.
    """
    ledger = checked_ledger()
    for item in items:
        named = named_files(item, scale)
        if named and all(_made_here(path, value, ledger) for path, value in named.items()):
            target, content = archive_of(item, scale), _archive([*named, *_records_behind(item, scale, ledger)])
            if not (target.is_file() and target.read_bytes() == content):
                with atomic(target) as temporary:
                    temporary.write_bytes(content)
                yield f"{target}: {len(named)} files of runs, {len(content) / 1e6:.1f} MB"


def unpack(item: Item, scale: Scale) -> int:
    """Put the files that are packed beside an item's table where its runs would have left them; return how many.

    A file that is here already stays. Times are those of long ago, so that nothing counts as newer than its table.

    Raises:
        UserError: the archive is damaged, or has a file that the records do not know by these bytes.
    """
    target, named, put = archive_of(item, scale), named_files(item, scale), 0
    with _opened(target) as archive:
        for path in _packed(target, archive, named):
            if not Path(path).is_file():
                with atomic(Path(path)) as temporary:
                    temporary.write_bytes(archive.read(path))
                os.utime(path, (0, 0))
                put += 1
    return put


def faults(items: Iterable[Item], scale: Scale) -> Iterator[str]:
    """Yield what is wrong with archives: damaged, of other files than the records name, or without some of them."""
    for item in items:
        target = archive_of(item, scale)
        if target.is_file():
            try:
                with _opened(target) as archive:
                    lacking = set(named_files(item, scale)) - set(_packed(target, archive, named_files(item, scale)))
            except UserError as error:
                yield str(error)
                continue
            if lacking:
                yield f"{target}: lacks {len(lacking)} files that its item rests on: `leaklab pack` where the runs are"


def remake(name: str, scale: Scale, cores: int) -> Iterator[str]:
    """Make tables and figures again from the files of runs that are here or packed, and yield what was done.

    Args:
        name: of an item or a paper; empty for all items of the scale whose table or figure was made by other code, or
            from another file of the configuration, than is here.
        scale: of the items.
        cores: for Snakemake.

    Raises:
        UserError: an archive is damaged, a job failed, or, after the others were made, files of some items are missing.
    """
    plan = KnownPlan.of(known_plan(load_items(), (scale,)))
    ledger, lock = checked_ledger(), CodeLock.load()
    wanted = [item for item in planned_items(name, scale) if name or is_stale(item, scale, ledger, lock)]
    lacking: dict[str, int] = {}
    targets: list[Path] = []
    for item in wanted:
        if archive_of(item, scale).is_file():
            unpack(item, scale)
        files = result_files(item, scale)
        for kind, needed in (
            ("csv", table_files(plan, scale, item)),
            ("png", pictures(plan, scale, item)),
        ):
            if absent := sum(not Path(path).is_file() for path in needed):
                lacking[str(files[kind])] = absent
            elif str(files["csv"]) not in lacking:
                targets.append(files[kind])
    if targets:
        _make([str(target) for target in targets], cores)
    ready = [item.key for item in wanted if result_files(item, scale)["csv"] in targets]
    yield f"{len(ready)} items made again{': ' if ready else ''}{', '.join(ready)}"
    if lacking:
        listed = ", ".join(f"{file} ({count} files)" for file, count in lacking.items())
        raise UserError(f"neither here nor packed is what {listed} needs of runs: snakemake makes them")


def is_stale(item: Item, scale: Scale, ledger: Ledger, lock: CodeLock) -> bool:
    """Return whether an item's table or figure is not what the code and the configuration here would make."""
    records = {result_files(item, scale)[kind] for kind in ("table_record", "figure_record")}
    return any(_is_other(entry, ledger, lock) for entry in ledger.entries if entry.path in records)


def _is_other(entry: Entry, ledger: Ledger, lock: CodeLock) -> bool:
    made = made_by(entry, ledger)
    if made is None or not lock.accepts(made.key, entry.content["code"], made.code):
        return True
    files = {**entry.inputs, **entry.outputs}
    return any(Path(path).is_file() and sha256(Path(path)) != value for path, value in files.items())


def _make(targets: list[str], cores: int) -> None:
    command = ["snakemake", "--cores", str(cores), "--quiet", "rules", "--allowed-rules", *RULES]
    if subprocess.run([sys.executable, "-m", *command, "--forcerun", *targets, "--", *targets], check=False).returncode:
        raise UserError("not everything could be made again: see above; what was made before is kept")


def _of_runs(path: str) -> bool:
    place = Path(path)
    return place.is_relative_to(RUNS) or (place.is_relative_to(PREPARED) and place.suffix == ".json")


def _made_here(path: str, value: str, ledger: Ledger) -> bool:
    return path in ledger.makers and Path(path).is_file() and sha256(Path(path)) == value


def _records_behind(item: Item, scale: Scale, ledger: Ledger) -> set[str]:
    """Return the records of all runs and data behind an item, those of the pieces of a run included."""
    figure = result_files(item, scale)["png"].as_posix()
    records = {entry.path for entry in ledger.behind(figure).entries if _of_runs(str(entry.path))}
    return {str(path) for record in records for path in (record, *record.parent.glob(PIECES))}


def _archive(paths: Iterable[str]) -> bytes:
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        for path in sorted(paths):
            archive.writestr(zipfile.ZipInfo(path, NO_DATE), Path(path).read_bytes(), zipfile.ZIP_DEFLATED)
    return content.getvalue()


def _opened(target: Path) -> zipfile.ZipFile:
    try:
        return zipfile.ZipFile(target)
    except FileNotFoundError:
        raise UserError(f"{target} is missing: `leaklab pack` writes it where the runs are") from None
    except (OSError, zipfile.BadZipFile) as error:
        raise UserError(f"{target} is damaged ({error}): get it again, or delete it") from None


def _packed(target: Path, archive: zipfile.ZipFile, named: Hashes) -> list[str]:
    """Return the names in an archive, those of runs' records aside, once each is known to be what is recorded."""
    files = [path for path in archive.namelist() if path in named or not _is_record(path)]
    for path in files:
        try:
            found = hashlib.sha256(archive.read(path)).hexdigest() if path in named else ""
        except (OSError, zipfile.BadZipFile, ValueError, RuntimeError) as error:
            raise UserError(f"{target} is damaged ({path}: {error}): get it again, or delete it") from None
        if found != named.get(path):
            raise UserError(f"{target}: {path} is not what the item's records name: get it again, or delete it")
    return files


def _is_record(path: str) -> bool:
    return _of_runs(path) and (path.endswith("run.json") or Path(path).match(PIECES))
