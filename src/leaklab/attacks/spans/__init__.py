"""Sentences read from the spans of gradients: every matrix's gradient is made of the inputs that it multiplied."""
