"""From the runs of an item to its result table."""
