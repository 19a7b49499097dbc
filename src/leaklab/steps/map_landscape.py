"""Evaluate an attack's loss around its latent, beside the distance from the private image; it sees the truth."""

from dataclasses import asdict

import pandas as pd
import torch

from leaklab.attacks.matching import profiled_scale
from leaklab.attacks.planned import planned_matching
from leaklab.metrics.latent_landscape import distances, losses, points_of
from leaklab.metrics.scoring import load_metrics
from leaklab.models.generators.files import load_generator
from leaklab.observations.artefacts import load_observation
from leaklab.observations.truth import load_truth
from leaklab.records.attacker_spec import attacker_of
from leaklab.records.errors import UserError
from leaklab.records.files import read_tensors, write_json, write_table
from leaklab.records.landscape_spec import LandscapeSpec
from leaklab.steps.base import Job, main


def run(job: Job) -> None:
    """Write outputs ``landscape`` and ``cards``.

    Inputs: ``observation`` and ``facts``, ``truth`` and ``truth_facts`` of the capture, ``reconstruction`` of the
    attack (z1), ``projection`` (z2), ``generator`` with its ``description``.
    """
    spec = LandscapeSpec.model_validate(job.spec)
    observation, knowledge = load_observation(job.input("observation"), job.input("facts"))
    generator = load_generator(job.input("generator"))
    observation = observation.to(job.device)
    attacker = attacker_of(spec.attack)
    matching = planned_matching(attacker, observation, knowledge, generator)
    # a line shows both losses; of a plane, the attacker who profiles out the scale has one of his own
    free = None if spec.beta else planned_matching(attacker, observation, knowledge, generator, profiled_scale)
    like = matching.observed[0]
    ends = [read_tensors(job.input(name))["latents"].flatten(0, -2)[0] for name in ("reconstruction", "projection")]
    places, latents = points_of(spec, ends[0].to(like), ends[1].to(like))
    with torch.no_grad():
        images = matching.images(latents, torch.zeros(len(latents), dtype=torch.int64, device=like.device))
    pictures = spec.attack.capture.on_unit_range(images)
    metrics, not_available = load_metrics(spec.metrics)
    truth = load_truth(job.input("truth"), job.input("truth_facts"))
    far = distances(metrics, pictures, truth.images[0, 0].to(pictures))
    table = pd.concat([places, losses(matching, free, latents), far], axis=1)
    if table.isna().to_numpy().any():
        raise UserError("the loss is not finite at some points: the observation or the latents are damaged; run again")
    write_table(job.outputs["landscape"], table)
    cards = {metric.card.name: asdict(metric.card) for metric in metrics}
    write_json(job.outputs["cards"], {"metrics": cards, "selections": {}, "not_available": not_available})
    job.note(points=len(table), not_available=not_available, length=float(torch.dist(ends[0], ends[1].to(ends[0]))))


if __name__ == "__main__":
    main("map_landscape", run)
