"""Judge defenses of known truth as files without a name, beside the attackers of the house that know them by name.

PYTHONPATH=benchmarks .venv/bin/python -m own_defenses --keep FOLDER            all of them, two hours on two cores
PYTHONPATH=benchmarks .venv/bin/python -m own_defenses --keep FOLDER sign clip  some of them; the page shows all
"""

import argparse
import multiprocessing
from functools import partial
from pathlib import Path

from leaklab.guests.arenas import find
from leaklab.records.files import read_json, write_text
from own_defenses.page import page
from own_defenses.readings import kept, place
from own_defenses.sources import SOURCES

NETWORKS = find("tiny").file.networks
PAGE = Path(__file__).parent.with_suffix(".md")


def main() -> None:
    """Judge what is missing in the folder, and write the page of all that is there."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help="of defenses; none for all")
    parser.add_argument("--keep", type=Path, metavar="FOLDER", required=True, help="what is there is not judged again")
    parser.add_argument("--jobs", type=int, default=2, help="processes, of one thread each")
    parser.add_argument("--output", type=Path, default=PAGE, metavar="FILE", help="where the page goes")
    asked = parser.parse_args()
    wanted = [(name, network) for name in asked.names or SOURCES for network in NETWORKS]
    todo = [pair for pair in wanted if not place(asked.keep, *pair).is_file()]
    with multiprocessing.get_context("spawn").Pool(asked.jobs, maxtasksperchild=1) as pool:
        for name, network in pool.imap_unordered(partial(kept, folder=asked.keep), todo):
            print(f"{name} on the {network}", flush=True)
    found = {pair: place(asked.keep, *pair) for pair in ((name, network) for name in SOURCES for network in NETWORKS)}
    there = {pair: read_json(file) for pair, file in found.items() if file.is_file()}
    write_text(asked.output, page(there, len(found)))


if __name__ == "__main__":
    main()
