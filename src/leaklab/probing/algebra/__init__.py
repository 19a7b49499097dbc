"""What an exchange tells without a search: counts, and readings by linear algebra with their proofs."""
