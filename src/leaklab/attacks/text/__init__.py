"""Attacks on text: sentences from the gradients of a language model."""
