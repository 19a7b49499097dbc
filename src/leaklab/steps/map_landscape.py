"""Evaluate an attack's loss around each of its latents, beside the distance from the private image, which it sees."""

from dataclasses import asdict

import pandas as pd
import torch

from leaklab.attacks.matching.distances import profiled_scale
from leaklab.attacks.run import planned_matching
from leaklab.captures.truth import load_truth
from leaklab.metrics.landscape import distances, losses, points_of, speaking_rows
from leaklab.metrics.scoring import load_metrics
from leaklab.models.generators.base import load_generator
from leaklab.observations.files import load_observation
from leaklab.records.errors import UserError
from leaklab.records.files import read_tensors, write_json, write_table
from leaklab.records.streams import repeat_on_gpu
from leaklab.specs.attack import LandscapeSpec
from leaklab.steps.base import Job, main


def run(job: Job) -> None:
    """Write outputs ``landscape`` and ``cards``.

    Inputs: ``observation`` and ``facts``, ``truth`` and ``truth_facts`` of the capture, ``reconstruction`` of the
    attack (z1), ``projection`` (z2), ``generator`` with its ``description``.
    """
    repeat_on_gpu(job.device)
    spec, generator = LandscapeSpec.model_validate(job.spec), load_generator(job.input("generator"))
    observation, knowledge = load_observation(job.input("observation"), job.input("facts"))
    observation = observation.select(rows := speaking_rows(observation)).to(job.device)
    attacker = spec.attack.told()
    matching = planned_matching(attacker, observation, knowledge, generator)
    # a line shows both losses; of a plane, the attacker who profiles out the scale has one of his own
    free = None if spec.beta else planned_matching(attacker, observation, knowledge, generator, profiled_scale)
    metrics, not_available = load_metrics(spec.metrics)
    truth = load_truth(job.input("truth"), job.input("truth_facts"))
    like = matching.observed[0]
    firsts, seconds = (read_tensors(job.input(name))["latents"].flatten(0, -2).to(like)
                       for name in ("reconstruction", "projection"))  # fmt: skip
    tables = []
    for row, trial in enumerate(rows):  # of the matching, and of all others
        places, latents = points_of(spec, firsts[trial], seconds[trial])
        with torch.no_grad():
            images = matching.images(latents, torch.full((len(latents),), row, device=like.device))
        far = distances(metrics, spec.attack.capture.on_unit_range(images), truth.images[trial, 0].to(like))
        tables.append(pd.concat([places, losses(matching, free, row, latents), far], axis=1))
        tables[-1].insert(0, "image", truth.trials[trial]["image"])
    table = pd.concat(tables, ignore_index=True)
    if table.isna().to_numpy().any():
        raise UserError("the loss is not finite at some points: the observation or the latents are damaged; run again")
    write_table(job.outputs["landscape"], table)
    cards = {metric.card.name: asdict(metric.card) for metric in metrics}
    write_json(job.outputs["cards"], {"metrics": cards, "selections": {}, "not_available": not_available})
    lengths = torch.linalg.vector_norm(seconds - firsts, dim=1).tolist()
    job.note(images=len(tables), points=len(table), not_available=not_available, lengths=lengths)


if __name__ == "__main__":
    main("map_landscape", run)
