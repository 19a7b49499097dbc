"""The headline of an item tells protection by what the update adds to a guess, so it has to be a metric of guesses."""

from leaklab.records import plugins
from leaklab.records.attack_spec import ScoreSpec
from leaklab.records.errors import UserError
from leaklab.records.items import Item

METRICS = "metrics"
WITHOUT_REFERENCE = ("reads_the_update", "reads_the_search")


def check_headline(item: Item, spec: ScoreSpec) -> None:
    """Refuse a headline that no guess without an update can be held against; imports no torch.

    Raises:
        UserError: names the metric, and what to write.
    """
    for metric in spec.metrics:
        if metric.replace("-", "_") != item.headline:
            continue
        plugins.check(METRICS, metric, {})
        if any(plugins.class_attribute(METRICS, metric, one) is not None for one in WITHOUT_REFERENCE):
            raise UserError(
                f"headline: '{item.headline}' compares no images, so no guess can be held against it: name a metric of "
                "images, such as psnr, or leave the headline out"
            )
