"""What is told without a picture: candidates that are named, members that are told, and what stops a search."""

import time
from dataclasses import replace
from typing import Any

import torch
from torch import nn

from leaklab.probing.candidates import line_up, membership, named
from leaklab.probing.case import Case
from leaklab.probing.searches.search import searches
from leaklab.probing.stopping import stopping
from leaklab.probing.yardstick import share_read
from probe_searches import models
from probe_searches.cases import PRIVATE, Row, Workload, case_of, samples

BATCH = 8
TOLD = (
    Workload("MLP", models.mlp, samples=BATCH),
    Workload("sigmoid CNN", models.cnn, samples=BATCH),
    Workload("residual, batch norm, train", models.residual, samples=BATCH),
    Workload("MLP, 5 local steps", models.mlp, {"steps": 5}, samples=BATCH),
    Workload("MLP, Adam", models.mlp, {"optimizer": torch.optim.Adam}, samples=BATCH),
    Workload("control: MLP, an update of other digits", models.mlp, samples=BATCH, control="another"),
)
STRANGERS, OF_CLASS = 92, 30
"""In a line-up; of each class beside a member."""


def told(workload: Workload) -> Row:
    """Return how many candidates are named, beside chance, and how well members are told."""
    case, began = case_of(workload), time.process_time()
    candidates, targets, true = line_up(case, STRANGERS)
    who, member = named(case, candidates, targets, true=true), membership(case, OF_CLASS)
    row = {"model": workload.title, "candidates": len(candidates), "true": BATCH, "hits": who.hits}
    row |= {"chance": who.by_chance, "p": who.p, "unexplained": who.unexplained}
    for one in member.evidence:
        own = {"auc": one.auc, "low": one.low, "high": one.high, "p_all": one.p_all}
        row |= {f"{one.by}_{name}": value for name, value in own.items()}
    return {**row, "seconds": time.process_time() - began}


def small() -> nn.Module:
    """A sigmoid CNN for the digits as they are, 8x8."""
    return nn.Sequential(nn.Conv2d(1, 8, 3, 2, 1), nn.Sigmoid(), nn.Flatten(), nn.Linear(128, 10))


def limits(seconds: float) -> list[dict[str, Any]]:
    """Return where annealed MAP of 25 evaluations a stage fails on a small sigmoid CNN, a line for each knob."""
    case = case_of(Workload("small sigmoid CNN", small, side=8))
    inputs, targets = samples(8, 1)
    case = replace(case, public=(inputs[PRIVATE:600], targets[PRIVATE:600]))

    def find(own: Case) -> Any:
        return searches(own, 1e3, evaluations=25, only=["annealed-map"]).readings

    found = stopping(case, share_read(find), seconds, clock=time.process_time)
    return [{"line": line} for line in found.lines()]
