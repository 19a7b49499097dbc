"""Who tries what on which client, and what came of it.

Settings were chosen on images 20 to 22 of the test part; those of the table were looked at once. What an oracle grants
is for the diagnosis, and named so.
"""

import time
from functools import cache, partial
from typing import Any

import torch
from pool_peel.cases import FASHION, Workload, captured, dataset, psnr
from torch import Tensor

from leaklab.attacks.annealed import AnnealedMap
from leaklab.attacks.base import Budget, Case, victim
from leaklab.attacks.pooling.picture import GaussianPrior
from leaklab.attacks.residual.closing import Closing
from leaklab.attacks.residual.peeling import peeled
from leaklab.attacks.residual.picture import Frontier, behind
from leaklab.attacks.residual.structure import Structure
from leaklab.attacks.residual_peel import rounding
from leaklab.data.dataset import unit_range
from leaklab.models.generators.class_gaussian import ClassGaussian, ClassGaussianGenerator
from leaklab.records.streams import stream
from residual_reading.pictures import MATCHED, Matching, narrowed

Row = dict[str, Any]
NOISES = (0.01, 0.03, 0.1)
PEEL, PEEL_ONLY, MEAN, MAP = "peeled from the head", "peeled, maps only", "class mean", "annealed-map"
SEARCHES = {"features of the head beside the gradient": {"features": 1.0}, "softened ReLUs": {"soft": True}}
ORACLES = {"oracle: all masks": 19, "oracle: masks of the last stage": 6}
"""How many ReLUs, the last ones, have the truth's mask."""
RANK = 1e-6
"""Least singular value that is no rounding, relative to the largest."""
DEPTH = 11
STARTS = {f"oracle: truth + noise {noise:g}": noise for noise in NOISES}
FEW, FRESH, COLOUR = range(98, 100), range(98, 106), "cifar10"
PLAN = (
    *((FASHION, one, image) for one in (PEEL, MEAN) for image in FRESH),
    *((FASHION, one, image) for image in FEW for one in (MAP, *SEARCHES, *ORACLES, *STARTS)),
    *((COLOUR, PEEL_ONLY, image) for image in FEW),
    *((FASHION, MAP, image) for image in FRESH if image not in FEW),
)
"""Data, who tries, image; the network of each image has its seed."""


@cache
def generator(name: str) -> ClassGaussianGenerator:
    """Return the Gaussians of the training part; one covariance for all classes where a class has too few images."""
    data = dataset(name)
    plan = ClassGaussian(pooled=name == COLOUR)
    return plan.fitted(unit_range(data.train_images), data.train_labels, data.num_classes)


def measured(name: str, attacker: str, image: int) -> Row:
    """Return what one attempt reads of one client; see ``page``."""
    model = {"name": "resnet-small", "blocks": 3}
    workload = Workload("ResNet-20", range(image, image + 1), capture={"model": model, "dataset": name})
    observation, knowledge, truth = captured(workload, image)
    seen = observation.in_dtype(torch.float64)
    network = victim(seen, knowledge, attacker)
    gradients, shape = {key: value[0] for key, value in seen.update.items()}, tuple(truth.shape[-3:])
    label, truth = int(gradients["fc.bias"].argmin()), truth.double().flatten()
    matching, row = Matching(network, gradients, label, shape), Row(data=name, attacker=attacker, image=image)
    given = generator(name)
    mean, factor = given.mean[label].detach().double(), given.factor_of(label).detach().double()
    prior = GaussianPrior(mean, factor, torch.zeros_like(mean), torch.ones_like(mean))
    if attacker in (PEEL, PEEL_ONLY):
        noise = rounding(seen, torch.finfo(next(iter(observation.update.values())).dtype).eps)[0]
        start = time.process_time()
        read = peeled(Structure(network, shape, attacker), gradients, noise)
        told = [one for one in read.maps.values() if "fc" not in one.layers]
        layers = sum(len(one.layers) for one in told)
        row |= {"closed": layers == DEPTH, "layers": layers, "flips": sum(one.flips for one in told)}
        row |= {"worst": max((one.residual for one in told), default=torch.inf)}
        sizes = torch.linalg.svdvals(gradients["layer3.2.conv2.weight"].flatten(1))
        row |= {"rank": int((sizes > RANK * sizes[0]).sum()), "places": (shape[-1] // 4) ** 2}
        row |= {"fitted": time.process_time() - start}
    if attacker == PEEL_ONLY:
        return row | {"seconds": row["fitted"]}
    start = time.process_time()
    if attacker == PEEL:
        frontier = Frontier(read)
        closed = Closing(frontier, prior, gradients, noise).closed(behind(frontier, prior))
        found, row["certified"] = closed.picture.flatten(), closed.certified
    elif attacker == MEAN:
        found = prior.mean
    elif attacker == MAP:
        case = Case(observation, knowledge, Budget(40, 1), partial(stream, 0, "attack"), None, given)
        found = AnnealedMap().reconstruct(case).images.flatten()
    else:
        found = _searched(matching, attacker, prior, truth, row)
    row |= {"seconds": time.process_time() - start + row.get("fitted", 0.0)}
    found = found.detach().double().clamp(0, 1)
    own, right = matching.masks(found), matching.masks(truth)
    wrong = torch.cat([(a != b).flatten() for a, b in zip(own, right, strict=True)]).double().mean()
    row |= {"psnr": psnr(found, truth), "wrong": float(wrong)}
    return row | {"loss": matching.loss(found), "loss_of_truth": matching.loss(truth)}


def _searched(matching: Matching, attacker: str, prior: GaussianPrior, truth: Tensor, row: Row) -> Tensor:
    """Return where gradient matching ends; of an oracle that starts beside the truth, the row says how it began."""
    start, widths = prior.mean.new_zeros(prior.factor.shape[1]), MATCHED
    for key, value in SEARCHES.get(attacker, {}).items():
        setattr(matching, key, value)
    right = [one.clone() for one in matching.masks(truth)]
    if attacker in ORACLES:
        hidden = len(right) - ORACLES[attacker]
        matching.gate.granted = [one if place >= hidden else None for place, one in enumerate(right)]
    if attacker in STARTS:
        draws = stream(row["image"], "noise").normal(len(truth)).to(truth)
        start = torch.linalg.solve(prior.factor, truth + STARTS[attacker] * draws - prior.mean)
        picture, widths = prior.mean + prior.factor @ start, MATCHED[-1:]
        begun = torch.cat([(a != b).flatten() for a, b in zip(matching.masks(picture), right, strict=True)])
        row |= {"start_psnr": psnr(picture, truth), "start_wrong": float(begun.double().mean())}
        row |= {"start_loss": matching.loss(picture)}
    return prior.mean + prior.factor @ narrowed(matching, prior, start, widths)
