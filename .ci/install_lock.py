"""Install the packages of a hashed lock with pip, and say from time to time how far it is (no index addresses)."""

import re
import subprocess
import sys
import time
from pathlib import Path

EVERY_SECONDS = 30
QUIET = ("--disable-pip-version-check", "--progress-bar", "off")
# without --no-compile every module of every package is compiled, the few that are imported and the many that are not
PIP = ("-m", "pip", "install", *QUIET, "--no-compile", "--require-hashes", "-r")
FOUND = re.compile(
    r"(?:Collecting|Processing|Requirement already satisfied:) (\S+)(?: in .*)?(?: \(from -r .*\(line \d+\)\))?$"
)
"""What pip says of a line of the lock: it is fetched, lies here as a file, or is installed; older ones name no line."""
REASON = re.compile(r"\s*(?:ERROR|error|[\w.]*(?:Error|Exception))\b.*:|\s*[\u00d7\u2570]")
LAST = 20
"""Lines of what pip said that are shown where none of them says why it failed."""


def wanted(lock: str) -> int:
    """Return how many packages of a lock's text this machine and this Python take; the others are for other ones."""
    from pip._vendor.packaging.requirements import Requirement

    lines = (line.removesuffix("\\").strip() for line in lock.splitlines() if re.match(r"[A-Za-z0-9].*==", line))
    markers = (Requirement(line).marker for line in lines)
    return sum(marker is None or marker.evaluate() for marker in markers)


def main(lock: str) -> int:
    """Run pip; print a count of packages while it works, and all that it said if it fails."""
    packages = wanted(Path(lock).read_text(encoding="utf-8"))
    print(f"2 of 3: {packages} packages of {lock}", flush=True)
    pip = subprocess.Popen([sys.executable, *PIP, lock], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    said, found, told = [], set(), time.monotonic()
    for line in pip.stdout:
        said.append(line)
        found |= {match[1] for match in [FOUND.match(line)] if match}
        if line.startswith("Installing collected"):
            print(f"  {len(found)} of {packages} packages are here, installing them", flush=True)
        elif time.monotonic() - told > EVERY_SECONDS:
            told = time.monotonic()
            print(f"  {len(found)} of {packages} packages collected", flush=True)
    if pip.wait():
        errors = [line for line in said if REASON.match(line)] or said[-LAST:]
        print("".join(errors), end="", file=sys.stderr)
    return pip.returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
