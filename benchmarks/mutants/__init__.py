"""Faults put into the code, each met by the tests of its room: which of them no test finds."""
