"""Stage 2 of a probe: the client run as described, beside what was really sent, and the named mistakes that differ."""
