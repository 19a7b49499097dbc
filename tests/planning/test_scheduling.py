from types import SimpleNamespace

import pytest
from snakemake.cli import get_argument_parser
from snakemake.scheduling.job_scheduler import JobRateLimiter
from snakemake.settings.types import MaxJobsPerTimespan

from leaklab.planning.scheduling import drop_default_limit


def scheduler_of(*options):
    """What Snakemake makes of a command line."""
    limit = get_argument_parser().parse_args([*options]).max_jobs_per_timespan
    limit = MaxJobsPerTimespan.parse_choice(limit) if isinstance(limit, str) else limit
    return SimpleNamespace(job_rate_limiter=JobRateLimiter(limit))


def test_the_default_limit_goes():
    scheduler = scheduler_of()
    drop_default_limit(scheduler)
    assert scheduler.job_rate_limiter is None


@pytest.mark.parametrize("limit", ["5/1s", "100/1m"])
def test_a_limit_of_the_users_stays(limit):
    scheduler = scheduler_of("--max-jobs-per-timespan", limit)
    before = scheduler.job_rate_limiter
    drop_default_limit(scheduler)
    assert scheduler.job_rate_limiter is before is not None


def test_no_limit_is_fine():
    scheduler = SimpleNamespace(job_rate_limiter=None)
    drop_default_limit(scheduler)
    assert scheduler.job_rate_limiter is None
