"""The weights at which the mean gradient of several local steps was taken, to first order.

After t of E plain steps at a constant rate the weights have moved by t / E of the delta. So the steps saw them moved
by (E - 1) / (2 E) of it on average, and the mean of gradients at different weights is the gradient at the mean
weights, up to the second order of the way.

Source: one gradient on the way stands for all steps in "Surrogate Model Extension (SME)" (Zhu, Yao, Blaschko); there
its place is searched.
"""

from dataclasses import replace

from leaklab.observations.base import Knowledge, Observation


def at_mean_weights(gradient: Observation, knowledge: Knowledge, needed_by: str) -> Observation:
    """Return an observed gradient with the mean weights of its steps in place of the broadcast ones.

    Args:
        gradient: one trial, as several have different mean weights; ``kind`` gradient.
        knowledge: what the threat model grants.
        needed_by: for messages.

    Raises:
        UserError: the rate or the number of steps is withheld.
    """
    steps = int(knowledge.require("local_steps", needed_by))
    way = -knowledge.assumed_rate(needed_by) * (steps - 1) / (2 * steps)
    moved = {
        name: value + way * gradient.update[name][0]
        for name, value in gradient.weights.items()
        if name in gradient.update
    }
    return replace(gradient, weights={**gradient.weights, **moved})
