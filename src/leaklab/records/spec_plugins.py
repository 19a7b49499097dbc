"""What specs ask of plug-ins that they name, read from their source; imports no torch."""

import ast

from leaklab.records import plugins


def reads_the_update(metric: str) -> bool:
    """Tell whether a metric needs what the server saw and the attack's generator, besides images.

    Raises:
        UserError: there is no such metric.
    """
    plugins.check("metrics", metric, {})
    return plugins.class_attribute("metrics", metric, "reads_the_update") is not None


def has_frozen_part(model: str) -> bool:
    """Tell whether a model has a frozen part, which a backbone fills."""
    said = plugins.class_attribute("models", model, "has_frozen_part")
    return isinstance(said, ast.Constant) and said.value is True
