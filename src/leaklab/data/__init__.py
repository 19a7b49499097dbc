"""Datasets, where they come from, and how their training part is dealt to clients."""
