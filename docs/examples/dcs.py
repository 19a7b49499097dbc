"""DCS: a concealed sample, made to look unlike the private one and to have a gradient like its, is mixed into the step.

Paper: Jing Wu, Munawar Hayat, Mingyi Zhou, Mehrtash Harandi, "Concealing Sensitive Samples against Gradient Leakage in
Federated Learning", AAAI 2024.

Taken over: for each batch another one of the same labels is synthesised, whose gradient points where the true one does
while its images stay away from the private ones; its gradient, as long as the true one, is mixed with it, and the
mix is projected so that its cosine with the true gradient is at least ``least``.
Left out: hidden features as a part of what is matched, the choice of which samples are sensitive (here all are), and a
long search. The bound on the cosine and the signed steps are ours.

Expect: the mix is not the gradient of any one image, but the true gradient is a part of it. Its direction is hidden no
further than the concealed sample's gradient differs from it: the better the defense is for training, the less it hides.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

from leaklab import ClientContext, Defense

Gradients = Mapping[str, Tensor]


@dataclass(frozen=True)
class DCS(Defense):
    """Send a mix of the gradient with that of concealed samples.

    Attributes:
        share: of the concealed samples' gradient in the mix; 1 for theirs alone.
        least: cosine with the true gradient, at least, of what is sent.
        apart: root mean square of the pixels by which concealed images differ from private ones, at least, if the
            search comes so far.
        steps: of the search, by the signs of the slope, shorter and shorter.
    """

    share: float = 0.5
    least: float = 0.5
    apart: float = 0.4
    steps: int = 8

    def gradient(self, gradients: Gradients, context: ClientContext) -> Gradients:
        """Return the mix; a gradient of zero stays zero."""
        true = torch.cat([value.double().flatten() for value in gradients.values()])
        length = true.norm()
        if not length:
            return gradients
        true = true / length
        concealed = self.concealed(true, context)
        mix = self.share * concealed + (1 - self.share) * true
        sent = projected(mix, true, self.least) * length
        parts = sent.split([value.numel() for value in gradients.values()])
        return {
            name: part.view_as(value).to(value) for part, (name, value) in zip(parts, gradients.items(), strict=True)
        }

    def concealed(self, true: Tensor, context: ClientContext) -> Tensor:
        """Return the direction [n] of the gradient of images that are sought from noise, far from the private ones."""
        private, labels, network = context.batch["images"], context.batch["labels"], context.network()
        images = context.stream("dcs").uniform(*private.shape).to(private).requires_grad_()

        def direction(graph: bool) -> Tensor:
            loss = F.cross_entropy(network(images), labels)
            found = torch.autograd.grad(loss, list(network.parameters()), create_graph=graph)
            flat = torch.cat([value.double().flatten() for value in found])
            return flat / flat.norm().clamp(min=1e-30)

        for step in range(self.steps):
            away = (images - private).pow(2).flatten(1).mean(1).clamp(min=1e-12).sqrt()
            loss = 1 - direction(graph=True) @ true + (self.apart - away).clamp(min=0).mean()
            (slope,) = torch.autograd.grad(loss, images)
            with torch.no_grad():
                images -= 0.2 * (1 - step / self.steps) * slope.sign()
                images.clamp_(0, 1)
        return direction(graph=False)


def projected(mix: Tensor, true: Tensor, least: float) -> Tensor:
    """Return a direction in the plane of two, as near to ``mix`` as its cosine with ``true`` (length 1) allows."""
    along = mix @ true
    across = mix - along * true
    along = along.clamp(min=least / (1 - least**2) ** 0.5 * across.norm())
    turned = along * true + across
    return turned / turned.norm()
