"""What Snakemake's own process costs while it waits for jobs."""

from typing import Any

# of `--max-jobs-per-timespan`: jobs, seconds
DEFAULT_LIMIT = (100, 1)


def drop_default_limit(scheduler: Any) -> None:
    """Take the default limit of jobs a second from Snakemake's scheduler; one that a user has set stays.

    With a limit, Snakemake (9.27) looks at all ready jobs again a second after it last did, and so once more a second
    for each job that has ended meanwhile: after some hundred jobs its own process takes a core for itself.

    Args:
        scheduler: ``workflow.scheduler``, whose ``job_rate_limiter`` may be None.
    """
    limiter = scheduler.job_rate_limiter
    if limiter is not None and (limiter.max_jobs, limiter.timespan) == DEFAULT_LIMIT:
        scheduler.job_rate_limiter = None
