"""The two sentences of LRP table 7: the embedded text data of scale demo.

They are CoLA's (in-domain, training part, both acceptable), with CoLA's capitals and apostrophe; the table prints them
in lower case.
"""

from leaklab.data.text.cola import Sentences

PRINTED = Sentences(
    texts=(
        "One more pseudo generalization and I'm giving up.",
        "The more we study verbs, the crazier they get.",
    ),
    labels=(1, 1),
)
