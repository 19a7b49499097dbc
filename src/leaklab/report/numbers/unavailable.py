"""Why a metric has no numbers, for who reads them elsewhere: without addresses and errors of where it was computed."""

import re
from collections.abc import Mapping

# what data/weights.py says to who computes
NO_DOWNLOAD = re.compile(r"https?://\S*/([\w.-]+) cannot be downloaded \(.*?\): put it into \S+ by hand or set \w+")


def unavailable(cards: Mapping[str, Mapping[str, str]]) -> dict[str, str]:
    """Return metric -> reason of the metrics that a scoring could not load, from the content of its ``cards.json``."""
    return {
        metric: NO_DOWNLOAD.sub(r"the weights \1 could not be had where this was made", reason)
        for metric, reason in cards["not_available"].items()
    }
