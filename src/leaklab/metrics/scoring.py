"""From guesses to the long score table, one line per private image, selection and metric."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

import pandas as pd
import torch
from torch import Tensor

from leaklab.metrics.base import Metric
from leaklab.metrics.guesses import finite, match, oracle_choice, reorder
from leaklab.metrics.pixel import MeanSquaredError
from leaklab.metrics.silence import silence_line, silenced
from leaklab.records import plugins
from leaklab.records.purity import watched

if TYPE_CHECKING:
    from torch import Tensor


# Which reconstructed image belongs to which private one: a batch comes back in any order.


COLUMNS = ["trial", "image", "draw", "selection", "metric", "value"]


def load_metrics(names: Iterable[str]) -> tuple[list[Metric], dict[str, str]]:
    """Load metrics by plug-in name.

    Returns:
        Those that can be computed here, and for the others the reason why not, by metric name.
    """
    metrics: list[Metric] = [plugins.load("metrics", name) for name in names]
    reasons = {metric.card.name: metric.available() for metric in metrics}
    usable = [metric for metric in metrics if reasons[metric.card.name] is None]
    return usable, {name: reason for name, reason in reasons.items() if reason is not None}


def own_guesses(found: Mapping[str, Tensor], truth: Tensor) -> tuple[dict[str, Tensor], Tensor]:
    """Return the attack's own choice and the oracle's, by selection, and which trials were not finite, [T].

    Args:
        found: tensors of the reconstruction by name.
        truth: [T, B, C, H, W] in [0, 1].
    """
    chosen, non_finite = finite(found["images"])
    oracle = oracle_choice(found["candidates"], found["candidate_losses"], chosen, truth)
    return {"best-by-loss": chosen, "oracle": finite(oracle)[0]}, non_finite


def image_scores(
    metrics: Sequence[Metric], guesses: Mapping[str, Tensor], truth: Tensor, device: str = "cpu"
) -> Mapping[tuple[str, str], Tensor]:
    """Score guesses, all metrics of a guess under one and the same assignment.

    Args:
        metrics: what to compute.
        guesses: selection -> [T, B, C, H, W], finite, on the [0, 1] scale.
        truth: [T, B, C, H, W] in [0, 1].
        device: where networks run.

    Returns:
        (selection, metric name) -> float64 [T, B].
    """
    originals = truth.flatten(0, 1).to(device)
    scores = {}
    for selection, guess in guesses.items():
        paired = reorder(guess, match(guess, truth)).flatten(0, 1).to(device)
        for metric in metrics:
            compared = {"reconstruction": paired, "truth": originals}
            with watched(metric, call="values", given=compared, draws="a generator with a seed of its own"):
                scores[selection, metric.card.name] = metric.values(paired, originals).view(truth.shape[:2])
    return scores


def errors_of(guess: Tensor, truth: Tensor) -> Tensor:
    """Return the mean squared error of each guess at the image that it is paired with, [T, B]; both in [0, 1]."""
    paired = reorder(guess, match(guess, truth))
    return MeanSquaredError().values(paired.flatten(0, 1), truth.flatten(0, 1)).view(truth.shape[:2])


def score_table(
    scores: Mapping[tuple[str, str], Tensor],
    images: Sequence[Sequence[int]],
    draws: Sequence[int],
    silent: Collection[int] = (),
) -> pd.DataFrame:
    """Return the long table of ``scores.csv``; what has no value (NaN) has no line.

    Args:
        scores: (selection, metric) -> [T, B].
        images: split index of each private image, [T][B].
        draws: number of the defense's draw in each trial, [T].
        silent: trials whose update says nothing: they have no value, and a line counts them.
    """
    trials, batch = len(images), len(images[0])
    trial = torch.arange(trials).repeat_interleave(batch).tolist()
    flat = [index for indices in images for index in indices]
    frames = [
        pd.DataFrame({
            "trial": trial,
            "image": flat,
            "draw": [draws[t] for t in trial],
            "selection": selection,
            "metric": metric,
            "value": silenced(values, silent).flatten().tolist(),
        })
        for (selection, metric), values in scores.items()
    ]  # fmt: skip
    if silent:
        frames.append(pd.DataFrame([silence_line(silent, draws)]))
    if not frames:
        return pd.DataFrame(columns=COLUMNS)
    return pd.concat(frames, ignore_index=True).dropna(subset=["value"]).reset_index(drop=True)


# Were the private labels inferred?


def recovered_labels(inferred: "Tensor", truth: "Tensor") -> "Tensor":
    """Say for each private label whether the attacker found it, whatever the order within the batch.

    Args:
        inferred: int64 [T, B]; a negative entry is no guess.
        truth: int64 [T, B].

    Returns:
        float64 [T, B] of 0 and 1; NaN for as many of the labels that were not found, the last ones, as there are
        places without a guess: a label that nobody guessed is neither hit nor miss.
    """
    import torch  # the card is read by steps without tensors

    same = truth.unsqueeze(2) == truth.unsqueeze(1)
    seen_before = same.tril(-1).sum(2)
    found = (truth.unsqueeze(2) == inferred.unsqueeze(1)).sum(2)
    hit = seen_before < found
    silent = (inferred < 0).sum(1, keepdim=True)
    # the missed labels, counted from the last: those without a guess to be wrong about
    missed_after = (~hit).long().flip(1).cumsum(1).flip(1)
    return hit.double().masked_fill(~hit & (missed_after <= silent), torch.nan)


def summary(
    truth: Tensor, labels: Tensor, non_finite: Tensor, starts: pd.DataFrame, silent: Collection[int]
) -> dict[str, object]:
    """Return what the cards tell of all trials beside their scores.

    Args:
        truth: private images [T, B, C, H, W].
        labels: recovered or not, [T, B]; NaN where nothing was said.
        non_finite: which trials have a number that is none, [T].
        starts: of ``trials.csv``.
        silent: trials whose update says nothing; they are counted apart.
    """
    return {
        "trials": truth.shape[0],
        "batch_size": truth.shape[1],
        "non_finite_trials": int(non_finite.sum()) - len(silent),
        "diverged_trials": int(starts[["diverged", "chosen"]].all(axis=1).sum()),
        "label_accuracy": None if labels.isnan().all() else float(labels.nanmean()),
    }
