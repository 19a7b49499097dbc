"""Compare reconstructions with the private images: the first step that sees both."""

from collections import Counter
from dataclasses import asdict

import torch
from torch import Tensor

from leaklab.metrics.labels import LABEL_CARD, recovered_labels
from leaklab.metrics.of_search import load_search_metrics
from leaklab.metrics.of_update import UpdateMetric, load_update_metrics, names_of_image_metrics
from leaklab.metrics.scoring import errors_of, image_scores, load_metrics, score_table
from leaklab.metrics.selections import SELECTIONS, finite, oracle_choice, private_indices, reference_guesses
from leaklab.metrics.silence import NO_INFORMATION_CARD, silenced, silent_trials
from leaklab.models.generators.base import Generator
from leaklab.models.generators.files import load_generator
from leaklab.observations.artefacts import load_observation
from leaklab.observations.base import Knowledge, Observation
from leaklab.observations.truth import Truth, load_truth
from leaklab.records.attack_spec import ScoreSpec
from leaklab.records.files import read_json, read_table, read_tensors, write_json, write_table
from leaklab.steps.base import Job, main


def run(job: Job) -> None:
    """Write the score table and the cards that say how each number was computed."""
    spec = ScoreSpec.model_validate(job.spec)
    truth = load_truth(job.input("truth"), job.input("truth_facts"))
    found = read_tensors(job.input("reconstruction"))
    dataset, images = read_tensors(job.input("dataset")), spec.attack.capture.images
    split, classes = dataset[f"{images.split}_images"], dataset[f"{images.split}_labels"]
    private = private_indices(truth.trials, batch=truth.images.shape[1])

    chosen, non_finite = finite(found["images"])
    oracle = oracle_choice(found["candidates"], found["candidate_losses"], chosen, truth.images)
    guesses = {"best-by-loss": chosen, "oracle": finite(oracle)[0]}
    guesses |= reference_guesses(split, classes, private, images.seed)
    metrics, not_available = load_metrics(names_of_image_metrics(spec.metrics))
    (of_update, refusals), of_search = load_update_metrics(spec), load_search_metrics(spec.metrics)
    starts = read_table(job.input("trials"))
    reasons = silent_trials(starts)
    silent = [trial in reasons for trial in range(len(truth.trials))]
    scores = dict(image_scores(metrics, guesses, truth.images, job.device))
    labels = silenced(recovered_labels(found["labels"], truth.labels), silent)
    others = {LABEL_CARD.name: labels}
    others |= {one.card.name: one.values(found, errors_of(chosen, truth.images)) for one in of_search}
    if of_update:
        generator = load_generator(job.input("generator")) if spec.attack.generator else None
        observation, knowledge = load_observation(job.input("observation"), job.input("facts"))
        others |= {one.card.name: _of_speaking(one, observation, knowledge, generator, truth) for one in of_update}
    scores |= {("best-by-loss", name): values for name, values in others.items()}
    scores = {key: silenced(values, silent) for key, values in scores.items()}
    draws = [trial["draw"] for trial in truth.trials]
    write_table(job.outputs["scores"], score_table(scores, private, draws, silent))

    facts = {
        "trials": len(truth.trials),
        "batch_size": len(private[0]),
        "non_finite_trials": int(non_finite.sum()),
        "diverged_trials": int(starts[["diverged", "chosen"]].all(axis=1).sum()),
        "label_accuracy": None if labels.isnan().all() else float(labels.nanmean()),
        "not_available": not_available | refusals,
        "substitute": read_json(job.input("card")).get("substitute"),
        **({"no_information": dict(Counter(reasons.values()))} if reasons else {}),
    }
    of_found = [*(one.card for one in of_update), *(one.card for one in of_search), LABEL_CARD]
    of_found += [NO_INFORMATION_CARD] if reasons else []
    cards = {card.name: asdict(card) for card in [*(metric.card for metric in metrics), *of_found]}
    write_json(job.outputs["cards"], {"metrics": cards, "selections": SELECTIONS, **facts})
    job.note(**facts)


def _of_speaking(
    metric: UpdateMetric, observation: Observation, knowledge: Knowledge, generator: Generator | None, truth: Truth
) -> Tensor:
    """Return a metric of the update, [T, B]; NaN of those that say nothing, about which it is not asked."""
    if not observation.silent:
        return metric.values(observation, knowledge, generator, truth)
    rows = observation.speaking
    found = torch.full(truth.labels.shape, torch.nan, dtype=torch.float64)
    if rows:
        found[rows] = metric.values(observation.select(rows), knowledge, generator, truth.select(rows))
    return found


if __name__ == "__main__":
    main("score_attack", run)
