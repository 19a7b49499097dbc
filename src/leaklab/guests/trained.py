"""Facts about what a guest changes before there is a gradient: the samples, the network, the loss."""

from collections.abc import Mapping
from dataclasses import replace

import torch
from torch import Tensor

from leaklab.defenses.base import loaded
from leaklab.guests.calls import has, samples_of
from leaklab.guests.files import blamed
from leaklab.guests.laboratory import Laboratory, rms
from leaklab.guests.maps import REPEATS, Fact
from leaklab.guests.returned import checked_penalty

IMAGES = 8
"""Public images on which it is seen what becomes of samples."""


def of_training(laboratory: Laboratory) -> list[Fact]:
    """Return what a guest changes of samples, network and loss; nothing that its hooks leave as it is."""
    return [*_samples(laboratory), *_network(laboratory), *_loss(laboratory)]


def _samples(laboratory: Laboratory) -> list[Fact]:
    """Return that samples are changed, and whether always in the same way."""
    if not has(laboratory.subject.new(), "samples"):
        return []
    public = laboratory.arena.public
    moments = [laboratory.stage.moment(public.images[k : k + 1], public.labels[k : k + 1]) for k in range(IMAGES)]
    before = [moment.batch for moment in moments]
    found = [samples_of(laboratory.subject, moment) for moment in moments]
    if all(_equal(one, other) for one, other in zip(before, found, strict=True)):
        return []
    drawn = [samples_of(laboratory.subject, replace(moments[0], draw=draw)) for draw in range(REPEATS)]
    anew = not all(_equal(one, drawn[0]) for one in drawn)
    counts = sorted({len(one["labels"]) for one in (*found, *drawn)})
    value: dict[str, object] = {"drawn": "anew" if anew else "never", "samples": counts}
    how = "drawn anew in every step" if anew else "always in the same way"
    text = f"changes the samples that are trained on, {how}"
    if counts == [1]:
        moved = [rms(one["images"] - other["images"]) for one, other in zip(before, found, strict=True)]
        value["rms"] = sum(moved) / len(moved)
        value["labels"] = any(not torch.equal(a["labels"], b["labels"]) for a, b in zip(before, found, strict=True))
        text += f" (by {value['rms']:.2g} a pixel)" + (", and their labels" if value["labels"] else "")
    else:
        text += f", and makes {' or '.join(map(str, counts))} of one"
    return [Fact("changes the samples", value, text, f"{IMAGES} images, and {REPEATS} draws of one")]


def _equal(one: Mapping[str, Tensor], other: Mapping[str, Tensor]) -> bool:
    return all(torch.equal(one[name], other[name]) for name in ("images", "labels"))


def _network(laboratory: Laboratory) -> list[Fact]:
    """Return that another network is trained: which parameters are new, which are gone, and whether it draws."""
    if not has(laboratory.subject.new(), "network"):
        return []
    public, made, given = laboratory.arena.public, laboratory.stage, laboratory.original
    before, after = ({name: list(value.shape) for name, value in one.weights.items()} for one in (given, made))
    new = [name for name, shape in after.items() if before.get(name) != shape]
    gone = [name for name, shape in before.items() if after.get(name) != shape]
    network = loaded(made.build, made.weights)
    with torch.no_grad():
        images = public.images[:IMAGES]
        mean, plain = network(images), loaded(given.build, given.weights)(images)
        with torch.random.fork_rng(devices=()):
            draws = [network.train()(images) for _ in range(2)]
    drawn = not torch.equal(*draws)
    if not new and not gone and not drawn and torch.equal(mean, plain):
        return []
    parts = [f"{word} {', '.join(names)}" for word, names in (("new:", new), ("gone:", gone)) if names]
    text = f"changes the network ({'; '.join(parts) or 'its parameters stay'})"
    text += ", which draws anew in every step" if drawn else ""
    value = {"new": new, "gone": gone, "drawn": drawn}
    return [Fact("changes the network", value, text, "its parameters, and two passes of it in training state")]


def _loss(laboratory: Laboratory) -> list[Fact]:
    """Return that a term is added to the loss, if the gradient of a real image has it."""
    subject, moment = laboratory.subject, laboratory.moment
    if not has(subject.new(), "penalty"):
        return []
    network = loaded(moment.build, moment.weights).train(has(subject.new(), "network"))
    with blamed(subject.guest.file, "its term of the loss was computed"):
        network(moment.batch["images"])
        term = checked_penalty(subject.guest.file, subject.new().penalty(network))  # type: ignore[attr-defined]
    slopes = torch.autograd.grad(term, list(network.parameters()), allow_unused=True) if term.requires_grad else ()
    if not any(slope is not None and bool(slope.any()) for slope in slopes):
        return []
    return [
        Fact("adds to the loss", float(term.detach()), "adds a term of its own to the loss", "the term's derivative")
    ]
