"""Networks that are too large to gain from stacking (ResNets): one model at a time, channels last.

Batching across models loses on CPUs for such networks, because their activations fall out of the cache; one model
with channels-last weights and images is the fastest form there.
"""

from collections.abc import Collection, Mapping

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.func import functional_call, grad_and_value, vmap

from leaklab.data.text.corpus import PADDING
from leaklab.federated.batches import Batch, DropoutSite
from leaklab.federated.optimizers import Weights, leaves_of
from leaklab.models.text.decoders import loss_of
from leaklab.records.errors import UserError


class OneByOne:
    """A module behind the interface of ``StackedNetwork``; weights hold parameters and buffers, [M, ...].

    Attributes:
        dropouts: none; a module with dropout inside would draw from a global generator and is refused.
        buffers: names of the running statistics; ``gradients`` updates them in place in training state.
    """

    def __init__(self, network: nn.Module, training: bool = True, frozen: Mapping[str, Tensor] | None = None) -> None:
        """Wrap ``network``; its layers are in training state during ``gradients`` or, as in evaluation, not.

        Args:
            network: may lose its weights.
            training: the state.
            frozen: tensors that all models share and that never move; weights from outside have the others.

        Raises:
            UserError: the network has a dropout layer.
        """
        dropping = [name for name, layer in network.named_modules() if isinstance(layer, nn.Dropout) and layer.p > 0]
        if dropping:
            raise UserError(f"layer '{dropping[0]}' drops units inside a composite network: set its dropout to 0")
        self._network, self._training, self._frozen = network.to("meta"), training, dict(frozen or {})
        self.dropouts: Mapping[str, DropoutSite] = {}
        self.buffers = tuple(name for name, _ in network.named_buffers() if name not in self._frozen)

    def logits(self, weights: Weights, images: Tensor, masks: Mapping[str, Tensor]) -> Tensor:
        """Return the outputs [M, classes, B] in evaluation state; see ``StackedNetwork.logits``."""
        self._network.eval()
        models = len(next(iter(weights.values())))
        shared = models // len(images)
        outputs = [self._call(_model(weights, index), images[index // shared]) for index in range(models)]
        return torch.stack(outputs).transpose(1, 2)

    def gradients(
        self, weights: Weights, batch: Batch, wanted: Collection[str] | None = None
    ) -> tuple[Tensor, dict[str, Tensor]]:
        """Return each model's mean cross-entropy [M] and its gradient by name; running statistics move in place."""
        self._network.train(self._training)
        models = len(next(iter(weights.values())))
        shared = models // len(batch.labels)
        found = [
            self._gradient(_model(weights, index), batch.images[index // shared], batch.labels[index // shared], wanted)
            for index in range(models)
        ]
        names = found[0][1].keys()
        return torch.stack([loss for loss, _ in found]), {
            name: _stacked([gradient[name] for _, gradient in found]) for name in names
        }

    def _gradient(
        self, weights: Weights, images: Tensor, labels: Tensor, wanted: Collection[str] | None
    ) -> tuple[Tensor, dict[str, Tensor]]:
        leaves = leaves_of({name: value for name, value in weights.items() if name not in self.buffers}, wanted)
        loss = F.cross_entropy(self._call({**weights, **leaves}, images), labels)
        return loss.detach(), dict(zip(leaves, torch.autograd.grad(loss, list(leaves.values())), strict=True))

    def sample_gradients(
        self, weights: Mapping[str, Tensor], images: Tensor, labels: Tensor
    ) -> tuple[Tensor, dict[str, Tensor]]:
        """Return one model's losses [B] and gradients by name, [B, ...], of each sample, lifted over the samples.

        Raises:
            UserError: samples mix in a batch normalisation.
        """
        if self._training and self.buffers:
            raise UserError(
                f"'{self.buffers[0]}': samples mix in a batch normalisation, so that none has a gradient of its own to "
                "clip: choose a model without"
            )
        self._network.train(self._training)
        held = {name: weights[name] for name in self.buffers}

        def loss(leaves: dict[str, Tensor], image: Tensor, label: Tensor) -> Tensor:
            return F.cross_entropy(functional_call(self._network, {**held, **leaves}, (image[None],)), label[None])

        leaves = {name: value.detach() for name, value in weights.items() if name not in self.buffers}
        gradients, losses = vmap(grad_and_value(loss), in_dims=(None, 0, 0))(leaves, images, labels)
        return losses, gradients

    def _call(self, weights: Weights, images: Tensor) -> Tensor:
        outputs: Tensor = functional_call(
            self._network, {**self._frozen, **weights}, (images.contiguous(memory_format=torch.channels_last),)
        )
        return outputs


def channels_last(weights: Weights) -> dict[str, Tensor]:
    """Return a copy [M, ...] in which the kernels of each model lie channels last in memory."""
    return {name: _kernels_last(value) if value.dim() == 5 else value.clone() for name, value in weights.items()}


def _kernels_last(value: Tensor) -> Tensor:
    return value.detach().permute(0, 1, 3, 4, 2).clone(memory_format=torch.contiguous_format).permute(0, 1, 4, 2, 3)


def _model(weights: Weights, index: int) -> dict[str, Tensor]:
    return {name: value[index] for name, value in weights.items()}


def _stacked(gradients: list[Tensor]) -> Tensor:
    """Stack without a copy where there is one model, as there is on CPUs."""
    return gradients[0].unsqueeze(0) if len(gradients) == 1 else torch.stack(gradients)


# A text network in local training: token ids in, one model after the other.


class TextNetwork:
    """M models of one architecture of ``models/text``; see ``network.TrainableNetwork``.

    What is frozen stays in the network itself: weights from outside have the rest. Ids may be of the weights' type, as
    what clips by norms takes the type of a batch for that of the gradients.
    """

    def __init__(self, network: nn.Module, next_token: bool = False) -> None:
        """Wrap ``network``, whose loss is that of the classes or, of a decoder, of the next token."""
        self._network, self._next_token = network.eval(), next_token

    @property
    def dropouts(self) -> Mapping[str, DropoutSite]:
        """None: text networks are built without dropout."""
        return {}

    @property
    def buffers(self) -> tuple[str, ...]:
        """None: there are no running statistics."""
        return ()

    def logits(self, weights: Weights, images: Tensor, masks: Mapping[str, Tensor]) -> Tensor:
        """Return the outputs [M, K, B] for token ids ``images`` [G, B, L]."""
        models = len(next(iter(weights.values())))
        outputs = []
        for model in range(models):
            own = {name: value[model] for name, value in weights.items()}
            outputs.append(self._one(own, images[model * len(images) // models]).T)
        return torch.stack(outputs)

    def gradients(
        self, weights: Weights, batch: Batch, wanted: Collection[str] | None = None
    ) -> tuple[Tensor, dict[str, Tensor]]:
        """Return the losses [M] (mean cross-entropy over a batch) and the gradients by name, [M, ...]."""
        models, groups = len(next(iter(weights.values()))), len(batch.labels)
        losses, rows = [], []
        for model in range(models):
            group = model * groups // models
            own = {name: value[model] for name, value in weights.items()}
            leaves = leaves_of(own, wanted)
            loss = self._loss({**own, **leaves}, batch.images[group], batch.labels[group])
            rows.append(torch.autograd.grad(loss, list(leaves.values())))
            losses.append(loss.detach())
        stacked = (torch.stack(column) for column in zip(*rows, strict=True))
        return torch.stack(losses), dict(zip(leaves, stacked, strict=True))

    def sample_gradients(
        self, weights: Mapping[str, Tensor], images: Tensor, labels: Tensor
    ) -> tuple[Tensor, dict[str, Tensor]]:
        """Return one model's losses [B] and gradients by name, [B, ...], of each sentence.

        A sentence's loss of the next token is the mean over its own places, that of a batch over the places of all: the
        mean of these gradients is not the batch's where sentences differ in length.
        """
        losses, rows = [], []
        for sentence, label in zip(images[:, None], labels[:, None], strict=True):
            leaves = leaves_of(weights, None)
            loss = self._loss(leaves, sentence, label)
            rows.append(torch.autograd.grad(loss, list(leaves.values())))
            losses.append(loss.detach())
        stacked = (torch.stack(column) for column in zip(*rows, strict=True))
        return torch.stack(losses), dict(zip(leaves, stacked, strict=True))

    def _loss(self, weights: Mapping[str, Tensor], ids: Tensor, labels: Tensor) -> Tensor:
        """Return the mean loss of one model over a batch [B, L], without the columns that are padding alone."""
        return loss_of(self._network, _cut(ids), None if self._next_token else labels, weights)

    def _one(self, weights: Mapping[str, Tensor], ids: Tensor) -> Tensor:
        """Return the logits [B, K] of one model for ids [B, L]."""
        ids = _cut(ids)
        given = {"input_ids": ids, "attention_mask": (ids != PADDING).to(torch.int64)}
        logits: Tensor = functional_call(self._network, dict(weights), (), given).logits
        return logits


def _cut(ids: Tensor) -> Tensor:
    """Return ids [B, L] as int64, without the columns at the end that are padding alone."""
    return ids[:, : int((ids != PADDING).sum(1).max())].long()
