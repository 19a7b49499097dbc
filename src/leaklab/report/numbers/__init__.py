"""The long result table, and what every reader of it asks: which key places a number, what is missing and why."""
