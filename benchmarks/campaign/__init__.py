"""A campaign before it is run: how long all jobs of a scale take on some workers, and what the scheduler adds."""
