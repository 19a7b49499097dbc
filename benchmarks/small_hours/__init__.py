"""Where the processor hours of scale `small` go, each job counted once."""
