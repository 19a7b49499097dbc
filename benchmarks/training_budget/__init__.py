"""What the trainings of a paper take at a scale, kind by kind, against what the processor could do at most."""
