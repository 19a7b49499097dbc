"""Exact attacks on the first affine layer: its update is a product of two thin matrices, and no search is needed."""
