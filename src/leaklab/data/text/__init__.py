"""Sentences: what the text data sets are read into, and the tokens that a network sees."""
