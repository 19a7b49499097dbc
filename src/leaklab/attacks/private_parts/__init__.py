"""Private parts."""
