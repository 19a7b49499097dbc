"""A step whose run has guests: ``python -m leaklab.guests.step leaklab.steps.run_attack ...``.

The command of a rule becomes this one where it names a guest (``fork_server.py``), so that the other jobs look for
none. A guest's code runs in the step's own process, like that of any plug-in.
"""

import runpy
import sys
import traceback

from leaklab.guests.admission import admit, said_of_guests
from leaklab.records.errors import UserError


def main() -> None:
    """Let guests take part, then become the step of the command line; what a guest raises is one line, too."""
    sys.argv = sys.argv[1:]
    module = sys.argv[0]
    rule = module.rpartition(".")[2]
    try:
        admit()
    except UserError as error:
        sys.exit(f"leaklab {rule}: {error}")
    sys.modules.pop(module, None)
    try:
        runpy.run_module(module, run_name="__main__", alter_sys=True)
    except Exception as error:
        line = said_of_guests(error)
        if line is None:
            raise
        traceback.print_exception(error)  # who writes a plug-in needs the way to the line that failed
        sys.exit(f"leaklab {rule}: {line}")


if __name__ == "__main__":
    main()
