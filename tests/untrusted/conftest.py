"""How files of others are spoilt, and what may come of reading them."""

import resource
import sys
from pathlib import Path
from time import monotonic

import pytest
from hypothesis import HealthCheck, settings

from leaklab.records.errors import UserError

# how things are spoilt stands beside the thousands of cases that are drawn with it
sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))
from cases import spoil

settings.register_profile(
    "untrusted", deadline=None, database=None, derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow, HealthCheck.data_too_large],
)  # fmt: skip
LONGEST_SECONDS = 10
MOST_MEGABYTES = 500


class Reading:
    """Reads what was spoilt; a traceback fails, and so does reading that takes long or much memory."""

    altered, damaged, spoilt_json = map(staticmethod, (spoil.altered, spoil.damaged, spoil.spoilt_json))

    def __call__(self, load, *arguments):
        """Return what was read, or the one line of the refusal as an error."""
        started = monotonic()
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        try:
            found = load(*arguments)
        except UserError as error:
            found = error
        assert not isinstance(found, UserError) or (str(found) and "\n" not in str(found))
        assert monotonic() - started < LONGEST_SECONDS
        grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
        assert grown < MOST_MEGABYTES * 1024, grown
        return found


@pytest.fixture(scope="session")
def reading():
    return Reading()
