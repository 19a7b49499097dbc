"""The updates behind the scores of one attack: which say nothing, whose samples they hold, what counts together.

The images of one update and all its draws are not independent, nor are the updates of one training, which share its
weights: each is one cluster. Where a single update was attacked, its draws are counted.
"""

from collections import Counter
from collections.abc import Hashable
from dataclasses import dataclass

import pandas as pd

from leaklab.metrics.silence import NO_INFORMATION_CARD

NO_INFORMATION = NO_INFORMATION_CARD.name
TRAINING = "training"
"""Column of scores that are of several trainings."""
Trial = Hashable
"""The number of a trial."""
Samples = tuple[int, ...]
"""Indices of private images, or the number of a sentence."""
Name = tuple[Samples, int, int]
"""The samples of a cluster, its draw, and how many clusters with the same ones stand before it."""


@dataclass(frozen=True, eq=False)
class Updates:
    """What is known of an attack's trials, by rising number.

    Attributes:
        held: the samples of its update.
        together: the samples of all updates of its training, where there are several; else of its update.
        draws: its draw of the defense.
        clusters: what its values count with.
        silent: how many other trials have updates that say nothing.
    """

    held: dict[Trial, Samples]
    together: dict[Trial, Samples]
    draws: dict[Trial, int]
    clusters: dict[Trial, Hashable]
    silent: int

    @classmethod
    def of(cls, scores: pd.DataFrame) -> "Updates":
        """Return what the lines of ``scores.csv`` tell, whatever metric they are of."""
        counts = scores["metric"] == NO_INFORMATION
        lines, silent, samples = scores[~counts], int(scores.loc[counts, "value"].sum()), samples_column(scores)
        held = _sets(lines, "trial", samples)
        trials = lines.drop_duplicates("trial").set_index("trial")
        if TRAINING in scores.columns:
            clusters: dict[Trial, Hashable] = trials[TRAINING].to_dict()
            shared = _sets(lines, TRAINING, samples)
            together = {trial: shared[training] for trial, training in clusters.items()}
        else:
            several = len(set(held.values())) > 1 or silent > 0  # of several updates one may be left that speaks
            clusters, together = {trial: own if several else trial for trial, own in held.items()}, held
        return cls(held, together, trials["draw"].to_dict(), clusters, silent)

    @property
    def names(self) -> dict[Hashable, Name]:
        """What names each cluster among those of other attacks on the same data: two attacks agree on its samples."""
        found: dict[Hashable, Name] = {}
        met: Counter[tuple[Samples, int]] = Counter()
        for trial in self.held:
            cluster = self.clusters[trial]
            if cluster not in found:
                own = self.together[trial], self.draws[trial] if cluster == trial else 0
                found[cluster] = (*own, met[own])
                met[own] += 1
        return found

    def clusters_of(self, lines: pd.DataFrame) -> list[Hashable]:
        """Return the cluster of each line."""
        return [self.clusters[trial] for trial in lines["trial"]]

    def together_of(self, lines: pd.DataFrame) -> list[Samples]:
        """Return the samples of each line's update, or of its training, where there are several."""
        return [self.together[trial] for trial in lines["trial"]]

    def places_of(self, lines: pd.DataFrame) -> list[tuple[Hashable, ...]]:
        """Return what each line is of; two series with the same places go together value by value."""
        sample = lines[samples_column(lines)]
        return [
            (self.clusters[trial], self.held[trial], self.draws[trial], one)
            for trial, one in zip(lines["trial"], sample, strict=True)
        ]


def samples_column(scores: pd.DataFrame) -> str:
    """Return the column that says which private image or which sentence a line is of."""
    return "image" if "image" in scores.columns else "example"


def _sets(lines: pd.DataFrame, by: str, column: str) -> dict[Hashable, Samples]:
    return {key: tuple(sorted(set(own))) for key, own in lines.groupby(by)[column]}
