"""One program per way to train."""
