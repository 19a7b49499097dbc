"""One program per contestant; each takes a workload as JSON and prints what it measured as JSON."""
