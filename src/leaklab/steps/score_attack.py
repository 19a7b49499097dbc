"""Compare reconstructions with the private images: the first step that sees both."""

from dataclasses import asdict

from leaklab.metrics.labels import LABEL_CARD, recovered_labels
from leaklab.metrics.of_search import load_search_metrics
from leaklab.metrics.of_update import load_update_metrics, names_of_image_metrics
from leaklab.metrics.scoring import errors_of, image_scores, load_metrics, score_table
from leaklab.metrics.selections import SELECTIONS, finite, oracle_choice, private_indices, reference_guesses
from leaklab.models.generators.files import load_generator
from leaklab.observations.artefacts import load_observation
from leaklab.observations.truth import load_truth
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
    scores = dict(image_scores(metrics, guesses, truth.images, job.device))
    labels = recovered_labels(found["labels"], truth.labels)
    others = {LABEL_CARD.name: labels}
    others |= {one.card.name: one.values(found, errors_of(chosen, truth.images)) for one in of_search}
    if of_update:
        generator = load_generator(job.input("generator")) if spec.attack.generator else None
        observation, knowledge = load_observation(job.input("observation"), job.input("facts"))
        others |= {one.card.name: one.values(observation, knowledge, generator, truth) for one in of_update}
    scores |= {("best-by-loss", name): values for name, values in others.items()}
    write_table(job.outputs["scores"], score_table(scores, private, [trial["draw"] for trial in truth.trials]))

    facts = {
        "trials": len(truth.trials),
        "batch_size": len(private[0]),
        "non_finite_trials": int(non_finite.sum()),
        "diverged_trials": int(read_table(job.input("trials"))[["diverged", "chosen"]].all(axis=1).sum()),
        "label_accuracy": None if labels.isnan().all() else float(labels.nanmean()),
        "not_available": not_available | refusals,
        "substitute": read_json(job.input("card")).get("substitute"),
    }
    of_found = [*(one.card for one in of_update), *(one.card for one in of_search), LABEL_CARD]
    cards = {card.name: asdict(card) for card in [*(metric.card for metric in metrics), *of_found]}
    write_json(job.outputs["cards"], {"metrics": cards, "selections": SELECTIONS, **facts})
    job.note(**facts)


if __name__ == "__main__":
    main("score_attack", run)
