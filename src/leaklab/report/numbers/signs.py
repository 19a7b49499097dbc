"""Signs that all renderers share; none of them relies on color."""

from leaklab.records.layouts import MINUS as MINUS

NONE = "\u2013"
TIMES = "\u00d7"
MARKS = {"best": "▲", "worst": "▼", "": ""}
WITHIN = {"yes": "✓", "no": "✗"}
# not used any more (report/judge/verdicts.py has the words): goes with the next change of the tables' code, whose
# digest holds this module
VERDICTS = {"reproduced": "✓", "not reproduced": "✗", "not testable": NONE}
STATES = {"done": "●", "not run": "○", "planned": "◌"}
