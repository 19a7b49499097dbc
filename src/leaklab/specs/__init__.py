"""Specs."""
