"""Residual networks in evaluation state, taken apart from the head: what layers saw, certified, and the picture."""
