"""Fishing: a server that changes the last layer only, so that one sample of a batch answers for all.

With softmax p and one-hot y, a sample with features h leaves (p - y) h' and p - y in the head's weight W and bias b,
and W'(p - y) in everything below it. The server keeps row t of W only (class t is its target) and lifts all other
biases so far that p_t = 0 and p_c = 1 / (K - 1) for the other classes c, whatever the sample. Then
W'(p - y) = -y_t W_t:

* samples of other classes leave nothing below the head and nothing in row t;
* a sample of class t leaves what it would leave alone, times 1 / B;
* of the head's other rows, where all samples mix, the single sample's own follow from row t: they are
  p_c / (p_t - 1) = -1 / (K - 1) times that row. So the whole gradient of the single sample is known.

Where the batch has several samples of class t, the row is m at one feature j and the cut f decides who answers:
p_t = 1 for h_j > f (no answer, if t is the label) and p_t = 0 below. The mean of h_j over those who answer is
dW_tj / db_t, free of any factor on the update. The cut goes to that mean, again and again, until the mean stays: one
sample is left. Samples of other classes must lie below the cut, or they answer too, and the means go in a circle: the
server takes the feature that speaks most for class t.

Source: "Fishing for User Data in Large-Batch Federated Learning via Gradient Magnification" (Wen et al. 2022), sections
3 and 4. The authors' code leaves the other biases at 1000 while it cuts, which moves every cut by 1000 / m; here they
are 0 then.
"""

from dataclasses import dataclass
from math import isfinite
from typing import ClassVar, Literal

import torch
from torch import Tensor

from leaklab.observations.servers.base import Catch, Server, Tensors, Victims, head_names
from leaklab.records.bounds import Count, Natural, Positive
from leaklab.records.errors import UserError
from leaklab.records.traits import ServerTraits

CIRCLE, SAME = 5, 0.01
"""A mean that is one of the last four again, to this share of the tolerance, came back without noise: it will again."""


@dataclass(frozen=True)
class Fishing:
    """Isolate a sample of one class.

    Attributes:
        target: the class t.
        strategy: ``class`` (one query), ``feature`` (queries with a moving cut, for several samples of the class) or
            ``none``: the weights are left as they are and the update is read as if one sample had sent it.
        multiplier: every entry of row t under ``class``.
        bias: of all other classes under ``class``; under ``feature`` the first cut lies at this value of feature j.
        feature_multiplier: m.
        feature: j; None for the one whose honest weight exceeds the other classes' mean the most.
        tolerance: two means of h_j that are no further apart are the same; the cut lies so much above the mean.
        most_queries: a search for the cut ends here at the latest.
    """

    traits: ClassVar[ServerTraits] = ServerTraits(isolates=True, needs_head=True)

    target: Natural
    strategy: Literal["class", "feature", "none"] = "class"
    multiplier: Positive = 0.5
    bias: Positive = 1000.0
    feature_multiplier: Positive = 300.0
    feature: Natural | None = None
    tolerance: Positive = 0.01
    most_queries: Count = 500

    def catch(self, victims: Victims) -> Catch:
        """Query the clients; all of them at once under ``class``, one alone under ``feature``.

        Raises:
            UserError: no head with a bias, no such class or feature, a head that is kept back, or several clients.
        """
        weight, _ = head_names(victims, "fishing")
        classes, features = victims.state[weight].shape
        if self.target >= classes or (self.feature or 0) >= features:
            raise UserError(
                f"server 'fishing': the last layer has {features} features and {classes} classes, numbered from 0: "
                f"lower target ({self.target}) or feature"
            )
        if self.strategy == "none":
            return Catch({}, victims.ask({}), 1, 1)
        if self.strategy == "class":
            row = torch.full_like(victims.state[weight][0], self.multiplier)
            sent = self._deaf(victims, row, self.bias)
            return Catch(sent, self._alone(victims, victims.ask(sent)), 1, 1)
        row = torch.zeros_like(victims.state[weight][0])
        row[self._feature(victims)] = self.feature_multiplier
        deaf = self._deaf(victims, row, self.feature_multiplier * self.bias)
        update, queries = self._narrowed(victims, deaf)
        # below the cut the answer does not depend on where it lies, and a search must not fall dead above it
        return Catch(deaf, self._alone(victims, update), 1, queries)

    def wanted(self, features: Tensor, labels: Tensor, victims: Victims) -> Tensor:
        """Return the sample of class t with the smallest feature j, [T, 1]: the last one below a falling cut.

        Raises:
            UserError: a client has no sample of the class.
        """
        own = labels == self.target
        if not own.any(1).all():
            raise UserError(f"server 'fishing': a batch has no sample of class {self.target}: name other images")
        values = features[..., self._feature(victims)]
        return values.masked_fill(~own, torch.inf).argmin(1, keepdim=True)

    def _feature(self, victims: Victims) -> int:
        if self.feature is not None:
            return self.feature
        weight = victims.state[head_names(victims, "fishing")[0]]
        others = (weight.sum(0) - weight[self.target]) / max(len(weight) - 1, 1)
        return int((weight[self.target] - others).argmax())

    def _deaf(self, victims: Victims, row: Tensor, others: float) -> dict[str, Tensor]:
        """Return a head with this row for the class and p_t = 0 for every sample; ``others`` is the other biases."""
        weight, bias = head_names(victims, "fishing")
        rows, biases = torch.zeros_like(victims.state[weight]), torch.full_like(victims.state[bias], others)
        rows[self.target] = row
        biases[self.target] = victims.state[bias][self.target]
        return {weight: rows, bias: biases}

    def _cut(self, victims: Victims, deaf: Tensors, cut: float) -> dict[str, Tensor]:
        """Return the head whose p_t goes from 0 to 1 at the cut."""
        weight, bias = head_names(victims, "fishing")
        biases = torch.zeros_like(deaf[bias])
        biases[self.target] = -self.feature_multiplier * cut
        return {weight: deaf[weight], bias: biases}

    def _narrowed(self, victims: Victims, deaf: Tensors) -> tuple[Tensors, int]:
        """Return the update in which one sample is left, and the number of queries."""
        update = victims.ask(deaf)
        means = [self._mean(victims, update)]
        while len(means) < self.most_queries:
            narrower = victims.ask(self._cut(victims, deaf, means[-1] + self.tolerance))
            means.append(self._mean(victims, narrower))
            if abs(means[-1] - means[-2]) <= self.tolerance or not isfinite(means[-1]):
                # the wider cut is the sharper one: nobody is near it
                break
            update = narrower
            if min(abs(means[-1] - mean) for mean in means[-CIRCLE:-1]) <= self.tolerance * SAME:
                break
        return update, len(means)

    def _mean(self, victims: Victims, update: Tensors) -> float:
        """Return the mean of feature j over the samples that answer."""
        weight, bias = self._head_of(victims, update)
        if len(bias) > 1:
            raise UserError(
                f"server 'fishing': a cut is made for one client, not {len(bias)}: set images.count to batch_size and "
                "draws to 1, or strategy: class"
            )
        return float(weight[0, self.target, self._feature(victims)] / bias[0, self.target])

    def _alone(self, victims: Victims, update: Tensors) -> dict[str, Tensor]:
        """Return B times the update, with the head's other rows as the single sample would leave them."""
        names = head_names(victims, "fishing")
        single = {name: value * victims.samples for name, value in update.items()}
        for name, value in zip(names, self._head_of(victims, single), strict=True):
            own = value[:, self.target : self.target + 1]
            rows = (-own / (value.shape[1] - 1)).expand_as(value).clone()
            rows[:, self.target] = own[:, 0]
            single[name] = rows
        return single

    @staticmethod
    def _head_of(victims: Victims, update: Tensors) -> tuple[Tensor, Tensor]:
        weight, bias = head_names(victims, "fishing")
        if not {weight, bias} <= set(update):
            raise UserError("server 'fishing': the client keeps its last layer to itself: choose another defense")
        return update[weight], update[bias]


PLUGIN: type[Server] = Fishing
