"""Compare reconstructions with the private images: the first step that sees both."""

from dataclasses import asdict

from leaklab.captures.truth import load_truth
from leaklab.metrics import scoring
from leaklab.metrics.base import LABEL_CARD, load_search_metrics
from leaklab.metrics.guesses import SELECTIONS, private_indices, reference_guesses
from leaklab.metrics.of_update import load_update_metrics, names_of_image_metrics, values_of_search, values_of_speaking
from leaklab.metrics.silence import cards_of, counted, silenced, silent_trials
from leaklab.models.generators.base import load_generator
from leaklab.observations.files import load_observation
from leaklab.records.files import read_json, read_table, read_tensors, write_json, write_table
from leaklab.specs.attack import ScoreSpec
from leaklab.steps.base import Job, main


def run(job: Job) -> None:
    """Write the score table and the cards that say how each number was computed."""
    spec = ScoreSpec.model_validate(job.spec)
    truth = load_truth(job.input("truth"), job.input("truth_facts"))
    found = read_tensors(job.input("reconstruction"))
    dataset, images = read_tensors(job.input("dataset")), spec.attack.capture.images
    split, classes = dataset[f"{images.split}_images"], dataset[f"{images.split}_labels"]
    private = private_indices(truth.trials, batch=truth.images.shape[1])

    guesses, non_finite = scoring.own_guesses(found, truth.images)
    guesses |= reference_guesses(split, classes, private, images.seed, found["labels"])
    metrics, not_available = scoring.load_metrics(names_of_image_metrics(spec.metrics))
    (of_update, refusals), of_search = load_update_metrics(spec), load_search_metrics(spec.metrics)
    silent = silent_trials(starts := read_table(job.input("trials")))
    scores = dict(scoring.image_scores(metrics, guesses, truth.images))
    labels = silenced(scoring.recovered_labels(found["labels"], truth.labels), silent)
    others = {LABEL_CARD.name: labels}
    errors = scoring.errors_of(guesses["best-by-loss"], truth.images)
    others |= {one.card.name: values_of_search(one, found, errors) for one in of_search}
    if of_update:
        generator = load_generator(job.input("generator")) if spec.attack.generator else None
        seen = load_observation(job.input("observation"), job.input("facts"))
        others |= {one.card.name: values_of_speaking(one, seen, generator, truth) for one in of_update}
    scores |= {("best-by-loss", name): values for name, values in others.items()}
    write_table(
        job.outputs["scores"], scoring.score_table(scores, private, [one["draw"] for one in truth.trials], silent)
    )
    facts = scoring.summary(truth.images, labels, non_finite, starts, silent) | counted(silent)
    facts |= {"not_available": not_available | refusals, "substitute": read_json(job.input("card")).get("substitute")}
    of_found = [
        *(one.card for one in of_update),
        *(one.card for one in of_search),
        LABEL_CARD,
        *cards_of(silent),
    ]
    cards = {card.name: asdict(card) for card in [*(metric.card for metric in metrics), *of_found]}
    write_json(job.outputs["cards"], {"metrics": cards, "selections": SELECTIONS, **facts})
    job.note(**facts)


if __name__ == "__main__":
    main("score_attack", run)
