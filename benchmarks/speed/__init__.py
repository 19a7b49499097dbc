"""What both benchmarks of speed are made of: a contest of workers in turn, its rows, page and command line."""
