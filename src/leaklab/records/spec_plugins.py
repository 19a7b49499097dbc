"""What specs ask of plug-ins that they name, read from their source; imports no torch."""

from leaklab.records.traits import metric_traits, model_traits


def reads_the_update(metric: str) -> bool:
    """Tell whether a metric needs what the server saw and the attack's generator, besides images.

    Raises:
        UserError: there is no such metric.
    """
    return metric_traits(metric).reads_the_update


def has_frozen_part(model: str) -> bool:
    """Tell whether a model has a frozen part, which a backbone fills."""
    return model_traits(model).has_frozen_part
