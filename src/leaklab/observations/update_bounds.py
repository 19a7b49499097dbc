"""What nobody can read of an update, whoever tries: a bound for clipped updates with normal noise; imports no torch.

It is claimed only where all that a client sends passes the clip and the noise, and where the difference that an image
can make to it is bounded by the clip. Everything else has a reason why no bound follows, which is no statement about
attackers: they may fail all the same.
"""

from dataclasses import dataclass
from functools import singledispatch
from math import erf, expm1, inf, isfinite, sqrt
from typing import Any

from leaklab.records.errors import UserError
from leaklab.records.traits import chosen
from leaklab.specs.base import CapturedRound
from leaklab.specs.capture import CaptureSpec

DEFENSES = "defenses"
PER_SAMPLE, PER_BATCH = "dp-sgd", "clipping-noise"
SHARED_ALONE = ("ppsgd", "centaur")
"""Algorithms whose clients keep a classifier: noise is on all that they send, which what they keep has shaped."""
AVERAGED = "fedavg"
READABLE = 0.2
"""Above such a total variation, six right guesses of ten and more, a bound does not say that nobody can read."""

LEAST_ORDERS = (1.01, 1.1, 1.5, 2.0)
"""Renyi's divergence falls with its order to that of Kullback and Leibler, of order 1."""


@dataclass(frozen=True)
class UpdateBound:
    """What is proven of an update.

    Attributes:
        variation: largest total variation between what any two images in one place of the update make a client send,
            from 0 to 1; None where no bound follows.
        reason: what it rests on, or why there is none.
    """

    variation: float | None
    reason: str

    @property
    def decides(self) -> bool:
        """Whether it says that nobody can read the images, so that no list of attackers is needed."""
        return self.variation is not None and self.variation <= READABLE

    @property
    def sentence(self) -> str:
        """The bound in words; empty where it does not decide."""
        if self.variation is None or not self.decides:
            return ""
        return (
            f"no attacker can: total variation between any two images at most {100 * self.variation:.1f} %, so who "
            f"guesses which of two it was is right {100 * best_guess(self.variation):.1f} % of the time at most"
        )


@singledispatch
def bound_of(spec: CapturedRound) -> UpdateBound:
    """Return what is proven of one update of a capture, or why nothing is.

    The state that the server sent is taken as known: of what earlier rounds gave away, nothing is said. Local steps,
    and repeated rounds on the same images, are releases that compose; every image may be in each of them. Optimizer,
    momentum, weight decay and rates are functions of the noisy gradients and known numbers, and give nothing away.

    Args:
        spec: of the capture.

    Raises:
        UserError: the spec's defense or one of its settings is unknown.
    """
    return UpdateBound(None, _unclipped(spec) or "bounds are worked out for images only")


@bound_of.register
def _of_images(spec: CaptureSpec) -> UpdateBound:
    why = _unclipped(spec) or _uncovered(spec)
    if why:
        return UpdateBound(None, why)
    settings = {name: _setting(spec, name) for name in ("bound", "sigma")}
    releases = spec.local_steps * spec.rounds
    apart, deviation, how = _one_step(spec, **settings)
    steps = "one noisy step" if releases == 1 else f"{releases} noisy steps, which compose,"
    return UpdateBound(
        total_variation(apart, deviation, releases),
        f"{steps} with two images at most {apart:g} apart ({how}) under noise of deviation {deviation:g}",
    )


def _one_step(spec: CaptureSpec, bound: float, sigma: float) -> tuple[float, float, str]:
    """Return how far apart two images put what a step sends before its noise, the noise's deviation, and why so far."""
    if spec.defense.name == PER_BATCH:
        return 2 * bound, sigma, f"twice the clip {bound:g} of the whole gradient"
    batch = spec.batch_size
    # the sum over samples is noised, then divided by their number, which changes both alike; clients that keep values
    # which the private samples shape let these shape what they send
    if batch > 1 and spec.algorithm_plugin.name in SHARED_ALONE:
        return 2 * batch * bound, sigma * bound, f"twice the clip {bound:g} of all {batch} samples, by what is kept"
    return 2 * bound, sigma * bound, f"twice the clip {bound:g} of a sample's gradient"


def _unclipped(spec: CapturedRound) -> str:
    """Return why a capture's defense bounds nothing; empty where it clips and adds noise."""
    if spec.defense.name not in (PER_SAMPLE, PER_BATCH):
        return f"defense '{spec.defense.name}' does not both clip and add normal noise to all that is sent"
    return ""


def _uncovered(spec: CaptureSpec) -> str:
    """Return why no bound follows though the defense clips and adds noise; empty where one does."""
    if not _setting(spec, "sigma"):
        return "there is no noise"
    if spec.mode == "train":
        return "in training state running statistics are sent as they are, where the network has any"
    if spec.server is not None:
        return "a malicious server may ask more often than once"
    if spec.algorithm_plugin.name not in (AVERAGED, *SHARED_ALONE):
        return f"what clients of algorithm '{spec.algorithm_plugin.name}' send was not examined"
    return ""


def _setting(spec: CaptureSpec, name: str) -> Any:
    return chosen(DEFENSES, spec.defense.name, spec.defense.settings, name)


def total_variation(sensitivity: float, deviation: float, releases: int = 1) -> float:
    """Return the largest total variation of normal releases about two secrets, 2 Phi(sqrt(k) s / (2 sigma)) - 1.

    It is exact: two secrets as far apart as ``sensitivity`` in every release have it, none have more, whatever is
    chosen for a release after those before it. Whoever guesses which of two equally likely secrets it was is right with
    probability ``best_guess`` of it at most.

    Args:
        sensitivity: s, the largest Euclidean distance between what two secrets would release without noise; infinite
            where nothing bounds it.
        deviation: sigma, of the independent noise on every coordinate, in the same units; 0: none.
        releases: k, how many.

    Returns:
        From 0, which nobody can tell apart, to 1.

    Raises:
        UserError: a number is negative or not one.
    """
    _refuse_negative(sensitivity=sensitivity, deviation=deviation, releases=releases)
    if not sensitivity or not releases:
        return 0.0
    return erf(sqrt(releases) * sensitivity / (2 * deviation) / sqrt(2)) if deviation and sensitivity < inf else 1.0


def variation_of_samples(sigma: float, steps: int, rate: float = 1.0, samples: int = 1) -> float:
    """Return a bound on the total variation of steps of DP-SGD when some samples are replaced by others.

    Each sample's gradient is clipped to C, and the noise on their sum has the deviation sigma C; C is no part of the
    answer. With all samples in every step the bound is exact, and so it is for one step of drawn samples, whose
    variation is the rate times that of a step which surely holds the sample; variations of steps add up at most. For
    many steps the accountant knows better: it bounds the Kullback-Leibler divergence for adding a sample by Renyi's of
    an order above 1, that bounds the total variation (Pinsker; Bretagnolle and Huber), and a replaced sample is one
    removed and one added.

    Args:
        sigma: noise multiplier; 0: no noise.
        steps: how many.
        rate: probability with which each sample joins each batch, from above 0 to 1; 1 is also right for batches of
            any other kind, as no step can hold a sample more often than always.
        samples: how many are replaced.

    Raises:
        UserError: a number is negative or not one, or the rate is no probability.
    """
    _refuse_negative(sigma=sigma, steps=steps, rate=rate, samples=samples)
    if not 0 < rate <= 1:
        raise UserError(f"total variation: rate {rate:g} is no probability: give one above 0, at most 1")
    always = total_variation(2 * samples, sigma, steps)
    if rate == 1 or always in (0, 1):
        return always
    from opacus.accountants.analysis import rdp

    divergence = float(min(rdp.compute_rdp(q=rate, noise_multiplier=sigma, steps=steps, orders=LEAST_ORDERS)))
    added = min(sqrt(divergence / 2), sqrt(-expm1(-divergence)))
    return min(always, 2 * samples * added, samples * steps * rate * total_variation(2, sigma))


def best_guess(variation: float) -> float:
    """Return how often the best guess of which of two equally likely secrets it was is right, from 0.5 to 1."""
    return (1 + variation) / 2


def _refuse_negative(**numbers: float) -> None:
    for name, value in numbers.items():
        if not value >= 0 or not (isfinite(value) or name == "sensitivity"):
            raise UserError(f"total variation: {name} {value} says nothing: give a number that is at least 0")
