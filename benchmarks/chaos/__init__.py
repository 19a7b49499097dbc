"""Faults in every step of the workflow, each followed by the plain command: what was lost, wrong or said badly."""
