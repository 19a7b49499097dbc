"""One program per contestant; each takes a workload as JSON and its material and prints what it measured as JSON."""
