"""Two defenses written as their publications run them, sample by sample and feature by feature: oracles and timing."""

from collections.abc import Mapping
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from leaklab.defenses.base import ClientContext
from leaklab.defenses.grad_defense import EndToEnd, GradDefense
from leaklab.defenses.lrp import last_affine
from leaklab.defenses.soteria import Soteria


@dataclass(frozen=True)
class GradDefenseLoop(GradDefense):
    """``grad-defense`` with a backward pass per sample, and norms, clipping and noise entry by entry."""

    def gradient(self, gradients: Mapping[str, Tensor], context: ClientContext) -> Mapping[str, Tensor]:
        """Return the gradient with the chosen slices clipped and noised; the same draws as the plug-in's."""
        network, laid = context.network(), EndToEnd(gradients)
        cuts = self._cuts(list(gradients), network, context)
        chosen = context.stream("chosen slices").permutation(self.slices)[: max(1, round(self.noised * self.slices))]
        samples = []
        for image, label in zip(context.batch["images"], context.batch["labels"], strict=True):
            network.zero_grad()
            with torch.enable_grad():
                F.cross_entropy(network(image[None]), label[None]).backward()
            own = {name: network.get_parameter(name).grad for name in gradients}
            samples.append(laid.flat({name: slope for name, slope in own.items() if slope is not None}).tolist())
        total = laid.flat(gradients).tolist()
        noise = context.stream("noise")
        for place in sorted(chosen.tolist()):
            inside = range(cuts[place], cuts[place + 1])
            shorter = [max(1.0, sum(own[i] ** 2 for i in inside) ** 0.5 / self.sigma) for own in samples]
            for entry in inside:
                clipped = [own[entry] / by for own, by in zip(samples, shorter, strict=True)]
                total[entry] = sum(clipped) / len(samples) + self.sigma * float(noise.normal())
        return laid.apart(torch.tensor(total, dtype=torch.float64).to(next(iter(gradients.values()))))


@dataclass(frozen=True)
class SoteriaLoop(Soteria):
    """``soteria`` with one backward pass per feature; features that are 0 are not looked after."""

    def gradient(self, gradients: Mapping[str, Tensor], context: ClientContext) -> Mapping[str, Tensor]:
        """Return the gradient with the pruned columns zero."""
        network = context.network()
        layer = self.layer or last_affine(network, "defense soteria")
        front = network[: [name for name, _ in network.named_children()].index(layer)]
        images = context.batch["images"].detach().requires_grad_()
        ratios = []
        with torch.enable_grad():
            features = front(images)
            for feature in range(features.shape[1]):
                (slopes,) = torch.autograd.grad(features[:, feature].sum(), images, retain_graph=True)
                lengths = slopes.flatten(1).norm(dim=1)
                ratios.append(float((lengths / features[:, feature].detach().abs()).sum()))
        name = f"{layer}.weight"
        columns = sorted(range(len(ratios)), key=lambda place: ratios[place])[: int(self.pruned * len(ratios))]
        changed = gradients[name].clone()
        for column in columns:
            changed[:, column] = 0
        return {**gradients, name: changed}
