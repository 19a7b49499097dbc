"""Signs that all renderers share; none of them relies on color."""

from leaklab.records.layouts import MINUS as MINUS

NONE = "\u2013"
TIMES = "\u00d7"
MARKS = {"best": "▲", "worst": "▼", "": ""}
WITHIN = {"yes": "✓", "no": "✗"}
STATES = {"done": "●", "not run": "○", "planned": "◌"}
