"""Install the packages of a hashed lock with pip, and say from time to time how far it is (no index addresses)."""

import re
import subprocess
import sys
import time
from pathlib import Path

EVERY_SECONDS = 15
QUIET = ("--disable-pip-version-check", "--progress-bar", "off")
# without --no-compile every module of every package is compiled, the few that are imported and the many that are not
PIP = ("-m", "pip", "install", *QUIET, "--no-compile", "--require-hashes", "-r")


def main(lock: str) -> int:
    """Run pip; print a count of packages while it works, and all that it said if it fails."""
    packages = sum("==" in line for line in Path(lock).read_text(encoding="utf-8").splitlines())
    pip = subprocess.Popen([sys.executable, *PIP, lock], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    said, found, told = [], 0, time.monotonic()
    for line in pip.stdout:
        said.append(line)
        found += line.startswith("Collecting ")
        if line.startswith("Installing collected"):
            print(f"  {found} packages are here, installing them", flush=True)
        elif time.monotonic() - told > EVERY_SECONDS:
            told = time.monotonic()
            print(f"  {found} of {packages} packages collected", flush=True)
    if pip.wait():
        errors = [line for line in said if re.match(r"\s*(ERROR|WARNING)", line)] or said[-20:]
        print("".join(errors), end="", file=sys.stderr)
    return pip.returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
