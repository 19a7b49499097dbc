"""Provenance."""
