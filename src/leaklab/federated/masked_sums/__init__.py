"""Sums of private numbers that a server may learn while the numbers stay hidden behind pairwise masks."""
