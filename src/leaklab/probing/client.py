"""A client of somebody else's training: any network, loss and optimizer, and what it sends of one round.

The owner's network is never touched: a copy is trained.
"""

from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import nullcontext
from copy import deepcopy
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from leaklab.probing.exchange import Exchange, Sends
from leaklab.probing.owned import drawing
from leaklab.records.errors import UserError

Optimize = Callable[[list[nn.Parameter]], torch.optim.Optimizer]
Loss = Callable[[Any, Tensor], Tensor]
Change = Callable[[dict[str, Tensor]], Mapping[str, Tensor]]


@dataclass(frozen=True)
class Client:
    """How a client trains in one round, and what it sends of it.

    Attributes:
        model: any module with the weights that the round begins with; it is copied before anything is done.
        loss: (output of the model, targets [B, ...]) -> scalar.
        rate: learning rate of the default optimizer, plain gradient descent.
        optimizer: from the parameters that are trained to their optimizer; None for the default.
        schedule: from an optimizer to its schedule, stepped after each local step; None for none.
        steps: local steps.
        batch_size: samples of a step, taken in order and again from the start; None for all in each step.
        accumulate: batches whose mean gradient makes one step.
        clip: largest norm of a step's gradient over all parameters; None for no clipping.
        mode: state of the model's layers; None leaves them as they are.
        precision: type of mixed precision (``torch.autocast``); None for the model's own.
        prepare: from samples as they are held to what the model takes, e.g. a normalisation; None for nothing.
        call: (model, prepared samples [B, ...]) -> output; None for ``model(samples)``.
        sends: what is sent; a gradient is that of one step.
        shares: names of the tensors that are sent, parameters and buffers; None for all trained parameters.
        defense: from what would be sent, by name, to what is sent; None for none.
        seed: of what the model draws itself, e.g. dropout.
        usual: of a transformer with paths of its own, path of a layer -> the one that it has in GPT-2, Llama or BERT.
    """

    model: nn.Module
    loss: Loss = F.cross_entropy
    rate: float = 0.1
    optimizer: Optimize | None = None
    schedule: Callable[[torch.optim.Optimizer], Any] | None = None
    steps: int = 1
    batch_size: int | None = None
    accumulate: int = 1
    clip: float | None = None
    mode: Literal["train", "eval"] | None = "train"
    precision: torch.dtype | None = None
    prepare: Callable[[Tensor], Tensor] | None = None
    call: Callable[[nn.Module, Tensor], Any] | None = None
    sends: Sends = "delta"
    shares: Collection[str] | None = None
    defense: Change | None = None
    seed: int = 0
    usual: Mapping[str, str] | None = None

    def output(self, model: nn.Module, inputs: Tensor) -> Any:
        """Return what ``model`` makes of samples [B, ...], prepared as this client does."""
        prepared = inputs if self.prepare is None else self.prepare(inputs)
        return model(prepared) if self.call is None else self.call(model, prepared)

    def trained(self) -> dict[str, nn.Parameter]:
        """Return the parameters that are trained by name, each once where names are tied."""
        return {name: value for name, value in self.model.named_parameters() if value.requires_grad}

    def round(self, inputs: Tensor, targets: Tensor) -> Exchange:
        """Train a copy for one round on [N, ...] and return what the server sends and gets.

        Raises:
            UserError: nothing is trained, there are no samples, the loss is no scalar or not finite.
        """
        model = deepcopy(self.model)
        if self.mode is not None:
            model.train(self.mode == "train")
        named = {name: value for name, value in model.named_parameters() if value.requires_grad}
        if not named:
            raise UserError("the client trains nothing: no parameter of the model requires a gradient")
        if not len(inputs) or len(inputs) != len(targets):
            raise UserError(f"the client has {len(inputs)} samples and {len(targets)} targets: give as many of both")
        if self.sends == "gradient" and self.steps != 1:
            raise UserError(f"a gradient is that of one step, not of {self.steps}: set sends to 'delta'")
        before = {name: value.detach().clone() for name, value in model.state_dict().items()}
        with drawing(self.seed):
            self._train(model, named, inputs, targets)
        after = {**model.state_dict(), **{name: value.detach() for name, value in named.items()}}
        return Exchange(before, self._sent(before, after, named), self.sends)

    def batches(self, inputs: Tensor, targets: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
        """Yield the batch of every backward pass of the round, ``steps * accumulate`` of them."""
        size = self.batch_size or len(inputs)
        for number in range(self.steps * self.accumulate):
            rows = torch.arange(number * size, (number + 1) * size) % len(inputs)
            yield (inputs, targets) if size == len(inputs) else (inputs[rows], targets[rows])

    def value(self, model: nn.Module, inputs: Tensor, targets: Tensor) -> Tensor:
        """Return the loss of a batch, a scalar.

        Raises:
            UserError: the loss returns no scalar, or one that is not finite.
        """
        cast = nullcontext() if self.precision is None else torch.autocast(inputs.device.type, self.precision)
        with cast:
            value = self.loss(self.output(model, inputs), targets)
        if not isinstance(value, Tensor) or value.dim():
            raise UserError("the loss returns no scalar tensor: take its mean or sum over the batch")
        if not value.isfinite():
            raise UserError(f"the loss is {value.item()} on the client's samples: no update comes of it")
        return value

    def _train(self, model: nn.Module, named: Mapping[str, nn.Parameter], inputs: Tensor, targets: Tensor) -> None:
        parameters = list(named.values())
        make = self.optimizer or (lambda these: torch.optim.SGD(these, lr=self.rate))
        optimizer = make(parameters)
        schedule = None if self.schedule is None else self.schedule(optimizer)
        for number, (some, wanted) in enumerate(self.batches(inputs, targets), 1):
            torch.autograd.backward(self.value(model, some, wanted) / self.accumulate)
            if number % self.accumulate:
                continue
            if self.clip is not None:
                nn.utils.clip_grad_norm_(parameters, self.clip)
            if self.sends == "gradient":
                return
            optimizer.step()
            optimizer.zero_grad()
            if schedule is not None:
                schedule.step()

    def _sent(
        self, before: Mapping[str, Tensor], after: Mapping[str, Tensor], named: Mapping[str, nn.Parameter]
    ) -> dict[str, Tensor]:
        names = list(named) if self.shares is None else [name for name in after if name in set(self.shares)]
        if self.sends == "gradient":
            grads = {name: value.grad for name, value in named.items() if name in names}
            sent = {name: torch.zeros_like(before[name]) if grad is None else grad for name, grad in grads.items()}
        elif self.sends == "delta":
            sent = {name: after[name] - before[name] for name in names}
        else:
            sent = {name: after[name].clone() for name in names}
        return sent if self.defense is None else self._defended(sent)

    def _defended(self, sent: Mapping[str, Tensor]) -> dict[str, Tensor]:
        assert self.defense is not None
        try:
            return dict(self.defense(dict(sent)))
        except UserError:
            raise
        except Exception as error:  # it is somebody else's function
            text = " ".join(str(error).split())[:300]
            raise UserError(f"the client's defense fails: {type(error).__name__}: {text}") from error
