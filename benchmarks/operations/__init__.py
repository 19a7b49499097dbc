"""Figures of operation: how long planning, auditing and the workflow itself take, and what faults do."""
