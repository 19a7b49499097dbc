"""The static site of a scale, and the crate in which its results travel."""
