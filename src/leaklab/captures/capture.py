"""Capture of clients with images: what they send in one round, and the secret behind it."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import torch
from torch import Tensor

from leaklab.captures.client_round import Steps, client_round
from leaklab.captures.dealt_clients import dealt_clients
from leaklab.captures.manipulation import manipulated
from leaklab.captures.observe import NO_DEFENSE, NOTICEABLE, Held, changes_update, observe
from leaklab.captures.private_images import PrivateImages, drawn_images
from leaklab.captures.start import Start, round_factor, start_of
from leaklab.captures.truth import Truth
from leaklab.data.dataset import Dataset
from leaklab.defenses.base import ClientContext, Defense
from leaklab.federated.batches import Batch
from leaklab.federated.forms.network import trainable
from leaklab.federated.local import LocalResult
from leaklab.federated.optimizers import Optimizer
from leaklab.models.base import Architecture
from leaklab.models.generators.base import Generator
from leaklab.observations.base import Knowledge, Observation
from leaklab.records import plugins
from leaklab.records.errors import UserError
from leaklab.records.record import Component
from leaklab.specs.base import run_folder
from leaklab.specs.capture import CaptureSpec


def capture(
    spec: CaptureSpec,
    dataset: Dataset,
    deal: Sequence[Tensor] = (),
    trained: Mapping[str, Tensor] | None = None,
    generator: Generator | None = None,
    sent: Mapping[str, Tensor] | None = None,
) -> tuple[Observation, Knowledge, Truth]:
    """Return what the server sees of every trial, what it is granted to know, and the truth.

    Trials are groups of ``batch_size`` drawn images, or clients of a deal, times ``draws``; the draws of one group
    are side by side. Drawn images are one batch that is repeated in every local step; clients of a deal have the
    batches of their visit. Inputs are on the scale of ``input_range``, or normalised as in the state's training.

    Args:
        spec: of the capture.
        dataset: whose images are private.
        deal: positions in the training part, one tensor a client; read where ``images`` names clients.
        trained: weights of all replicates of the state's training, [R, ...] by name; read where there is one.
        generator: frozen; it makes the private images where ``images`` are planted.
        sent: what the training left that kept the clients' messages (``spec.sending``); where it is given they are the
            updates, and else the clients do their round again.

    Raises:
        UserError: too few images, a batch size that does not divide their number, clients that the deal does not
            have, a state of another architecture, a defense that hides everything or that changes the batches of a
            deal, a gradient where the threat model withholds the rate, or clients that a malicious server cannot read.
    """
    dataset = _with_outputs(dataset, spec.num_classes)
    start = start_of(spec, dataset, trained)
    hold = partial(_hold, spec, deal=deal, generator=generator, sent=sent)
    return observe(spec, hold(start)) if spec.server is None else manipulated(spec, spec.server, start, hold)


def defense_changes(
    spec: CaptureSpec,
    update: Mapping[str, Tensor],
    dataset: Dataset,
    deal: Sequence[Tensor] = (),
    trained: Mapping[str, Tensor] | None = None,
    generator: Generator | None = None,
) -> bool | None:
    """Tell whether the defense of a capture changed an update by more than roundings; None if it is not meant to.

    The clients are captured again without defense, from the same streams: the first one, and all of them, in the same
    operations as before, only where nothing shows in the first.
    """
    if plugins.load("defenses", spec.defense.name, spec.defense.settings).neutral():
        return None
    first = _first_client(spec)
    if first != spec:
        plain = capture(_undefended(first), dataset, deal, trained, generator)[0].update
        own = len(next(iter(plain.values())))
        if changes_update({name: value[:own] for name, value in update.items()}, plain, NOTICEABLE):
            return True
    return changes_update(update, capture(_undefended(spec), dataset, deal, trained, generator)[0].update)


def _undefended(spec: CaptureSpec) -> CaptureSpec:
    return spec.model_copy(update={"defense": NO_DEFENSE})


def _first_client(spec: CaptureSpec) -> CaptureSpec:
    """Return the capture of its first client alone; itself where which images are drawn depends on their number."""
    images = spec.images
    if images.partition is not None:
        return spec.model_copy(update={"images": images.model_copy(update={"clients": images.clients[:1]})})
    if spec.server or images.planted or images.label is not None:
        return spec
    first = {"count": spec.batch_size, "indexes": images.indexes[: spec.batch_size]}
    return spec.model_copy(update={"images": images.model_copy(update=first)})


def hold_images(
    spec: CaptureSpec,
    dataset: Dataset,
    deal: Sequence[Tensor] = (),
    trained: Mapping[str, Tensor] | None = None,
    generator: Generator | None = None,
) -> Held[Truth]:
    """Return what the clients of a capture hold under an honest server; see ``capture``."""
    start = start_of(spec, _with_outputs(dataset, spec.num_classes), trained)
    return _hold(spec, start, deal, generator)


def capture_at(spec: CaptureSpec, start: Start) -> tuple[Observation, Knowledge, Truth]:
    """Return what clients with drawn images send who begin at a given state; see ``capture``."""
    return observe(spec, _hold(spec, start, ()))


def sent_again(
    spec: CaptureSpec,
    update: Mapping[str, Tensor],
    dataset: Dataset,
    deal: Sequence[Tensor],
    trained: Mapping[str, Tensor],
) -> bool:
    """Tell whether clients who do their round again from the kept state send what was kept, to the byte.

    On a CPU they do, but for another number of stacked models on a processor with AVX2 alone; on other devices sums may
    be taken in another order each time.

    Raises:
        UserError: they send what no rounding explains.
    """
    again = capture(spec, dataset, deal, trained)[0].update
    if changes_update(update, again, NOTICEABLE):
        assert spec.sending
        raise UserError(
            f"the clients of {run_folder(spec.sending)} sent another update than their state gives: delete that folder "
            "and run snakemake again"
        )
    return all(torch.equal(value, again[name]) for name, value in update.items())


def _hold(
    spec: CaptureSpec,
    start: Start,
    deal: Sequence[Tensor],
    generator: Generator | None = None,
    sent: Mapping[str, Tensor] | None = None,
) -> Held[Truth]:
    dataset = start.dataset
    architecture: Architecture = plugins.load("models", spec.model.name, spec.model.settings)
    build = partial(architecture.build, dataset.shape, dataset.num_classes)
    network = build()
    parameters: Sequence[str] = [name for name, _ in network.named_parameters()]
    statistics = frozenset(name for name, _ in network.named_buffers())
    defense: Defense = plugins.load("defenses", spec.defense.name, spec.defense.settings)
    if defense.poisson_batches():
        raise UserError(
            f"defense '{spec.defense.name}': batches of a capture have one size: set sampling: shuffled, which clips "
            "and adds noise alike"
        )
    form = trainable(network, dataset.shape, training=spec.mode == "train")
    optimizer: Optimizer = plugins.load("federated/optimizers", spec.optimizer.name, spec.optimizer.settings)
    steps = Steps(spec.local_steps, spec.rate * round_factor(spec), spec.step_factors, optimizer, spec.weight_decay)
    of_algorithm: dict[str, Any] = {}
    if spec.images.partition is not None:
        clients = dealt_clients(spec, spec.images, start, deal, form, defense, build)
        private, parameters, one_round = clients.images, _in_order(clients.unmoved, parameters), clients.round
        if sent is not None:
            one_round = partial(_as_sent, clients.messages(spec, sent), clients.round)
        own = clients.own_of(start.state)
        of_algorithm = {"silent": clients.silent, "own": own, "unmoved": clients.unmoved if own else {}}
    else:
        private = drawn_images(spec, spec.images, start, generator)
        one_round = partial(client_round, steps, form, start.state, defense, build)
    return Held(
        state=start.state,
        parameters=parameters,
        mode=spec.mode,
        batches=private.batches,
        contexts=private.contexts,
        steps=steps,
        round=one_round,
        facts=_facts(spec, start),
        secret=partial(_truth, spec, private),
        hidden=defense.hidden(network),
        statistics=statistics,
        diverged=start.diverged,
        **of_algorithm,
    )


def _as_sent(
    messages: Mapping[str, Tensor],
    one_round: Callable[[Sequence[Batch], Sequence[ClientContext]], LocalResult],
    batches: Sequence[Batch],
    contexts: Sequence[ClientContext],
) -> LocalResult:
    """Return a round with the messages that were kept of it, which was done again for its rates and losses."""
    return replace(one_round(batches, contexts), weights=dict(messages))


def _in_order(sent: Iterable[str], parameters: Sequence[str]) -> list[str]:
    """Return the names of a message; those of a network in the network's order, whatever that of the message is."""
    names = list(sent)
    known = [name for name in parameters if name in names]
    return known if len(known) == len(names) else names


def _with_outputs(dataset: Dataset, outputs: int | None) -> Dataset:
    """Return the data set as the network takes it: with so many classes, some of them without a sample."""
    if outputs is None:
        return dataset
    if outputs < dataset.num_classes:
        raise UserError(
            f"num_classes: data set '{dataset.name}' has {dataset.num_classes} classes, more than {outputs} outputs: "
            "raise it or leave it out"
        )
    return replace(dataset, num_classes=outputs)


PLAIN = Component(name="sgd")


def _facts(spec: CaptureSpec, start: Start) -> dict[str, Any]:
    dataset = start.dataset
    facts: dict[str, Any] = {
        "step_factors": list(spec.step_factors(spec.local_steps)),
        "batch_size": spec.batch_size,
        "num_classes": dataset.num_classes,
        "input_shape": list(dataset.shape),
        "input_range": list(spec.input_range),
    }
    stepping = {
        "optimizer": {"name": spec.optimizer.name, "settings": dict(spec.optimizer.settings)},
        "weight_decay": spec.weight_decay,
    }
    if spec.state is None:
        # plain gradient descent is what everyone assumes
        return facts | (stepping if spec.optimizer != PLAIN or spec.weight_decay else {})
    return (
        facts
        | stepping
        | {
            "normalisation": {"mean": dataset.mean.tolist(), "std": dataset.std.tolist()},
            "algorithm": {"name": spec.algorithm_plugin.name, "settings": dict(spec.algorithm_plugin.settings)},
            "round": start.round,
        }
    )


def _truth(spec: CaptureSpec, private: PrivateImages, rates: Tensor) -> Truth:
    trials = []
    for group, positions in enumerate(private.positions):
        own = {"client": private.clients[group]} if private.clients else {}
        trials += [{"image": _listed(positions), "draw": draw, **own} for draw in range(spec.draws)]
    return Truth(
        images=private.unit.repeat_interleave(spec.draws, 0),
        labels=private.labels.repeat_interleave(spec.draws, 0),
        rates=rates,
        trials=tuple(trials),
    )


def _listed(group: Tensor) -> int | list[int]:
    """Return the index of a single image, else the list of indices."""
    indices: list[int] = group.tolist()
    return indices[0] if len(indices) == 1 else indices
