"""Attacks, one file each, from shared parts, one idea a file (labels, gradients, matching, lbfgs, search)."""
