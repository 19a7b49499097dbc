"""What is measured: kinds of work, and the axes along which each grows, as real specs on noise of MNIST's shape."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from leaklab.specs.base import Spec
from leaklab.specs.stages import STAGES

DATASET = "mnist"
WIDTHS = (1, 12, 126, 1258, 12579)
"""Units of the MLP's hidden layer: 1e3 to 1e7 parameters, three more or less."""
LABELS = "honest-but-curious-with-labels"


@dataclass(frozen=True)
class Axis:
    """Values of one quantity, and the spec at each.

    Attributes:
        points: its values, from the smallest to the largest.
        spec: of a value.
        quick: how many of the values ``--quick`` takes.
    """

    points: tuple[int, ...]
    spec: Callable[[int], Spec]
    quick: int = 3


@dataclass(frozen=True)
class Work:
    """A kind of work.

    Attributes:
        name: in the table.
        family: training, capture, or the family of attacks.
        what: in words.
        axes: quantity -> its values.
        left_out: quantity -> why it is not an axis here.
    """

    name: str
    family: str
    what: str
    axes: Mapping[str, Axis]
    left_out: Mapping[str, str] = field(default_factory=dict)


def training(
    model: Mapping[str, Any], clients: int = 2, batch: int = 32, steps: int = 20, seeds: int = 1, dataset: str = DATASET
) -> Spec:
    """Return a round of a training without defense."""
    return STAGES["train"].model_validate({
        "dataset": dataset, "partition": {"name": "iid", "settings": {"clients": clients}}, "model": model,
        "rates": [[0.01]], "rounds": 1, "local_steps": steps, "batch_size": batch, "seeds": list(range(seeds)),
    })  # fmt: skip


def captured(
    model: Mapping[str, Any],
    images: int = 10,
    batch: int = 1,
    steps: int = 1,
    draws: int = 1,
    clients: int = 0,
    dataset: str = DATASET,
) -> dict[str, Any]:
    """Return a capture of so many updates of drawn images, or of clients of a deal."""
    dealt = {"partition": {"name": "iid", "settings": {"clients": clients}}, "clients": list(range(clients))}
    drawn = {"count": images * batch, "min_contrast": 0.0}
    return {
        "dataset": dataset, "images": dealt if clients else drawn, "model": model, "batch_size": batch, "draws": draws,
        "local_steps": steps, "rate": 1e-4, "dtype": "float32", "threat_model": LABELS,
    }  # fmt: skip


def attacking(
    attack: str | Mapping[str, Any], iterations: int, capture: Mapping[str, Any], restarts: int = 1, prior: bool = False
) -> Spec:
    """Return an attack on a capture."""
    return STAGES["attack"].model_validate({
        "capture": capture, "attack": attack, "iterations": iterations, "restarts": restarts,
        "generator": {"dataset": capture["dataset"], "model": "class-gaussian", "steps": 1} if prior else None,
    })  # fmt: skip


def mlp(hidden: int = 64) -> dict[str, Any]:
    """Return an MLP of one hidden layer, without dropout."""
    return {"name": "mlp", "settings": {"hidden": hidden, "dropout": 0.0}}


LENET = {"name": "dlg-lenet"}
CNN = {"name": "cnn-small"}
IG = {"name": "ig", "label_rule": "known", "total_variation": 1e-4}
UNROLLED = {"name": "delta-ig"}
NO_START = {"replicates": "it has no starts: it reads once"}
ONE_UPDATE = {"clients": "an attack reads one update after another: clients are images here"}


def _trainings() -> list[Work]:
    def axes(model: Mapping[str, Any], most: int) -> dict[str, Axis]:
        def below(*values: int) -> tuple[int, ...]:
            return tuple(value for value in values if value <= most)

        return {
            "clients": Axis((10, 30, 100, 300, 1000, 3000, 10_000), lambda k: training(model, k, 4, 1)),
            "batch": Axis(below(1, 4, 16, 64, 256, 1024, 4096), lambda k: training(model, batch=k)),
            "steps": Axis(below(1, 4, 16, 64, 256, 1024, 4096), lambda k: training(model, steps=k)),
            "replicates": Axis((1, 2, 4, 8, 16, 32, 64), lambda k: training(model, seeds=k)),
        }

    wide = {"parameters": Axis(WIDTHS, lambda k: training(mlp(k), steps=5))}
    return [
        Work("training, MLP", "training", "a round of FedAvg on an MLP", {**axes(mlp(), 4096), **wide}),
        Work("training, CNN", "training", "the same on a CNN of two convolutions", axes(CNN, 1024)),
    ]


def _captures() -> list[Work]:
    def axes(model: Mapping[str, Any]) -> dict[str, Axis]:
        def spec(**changes: Any) -> Spec:
            return STAGES["capture"].model_validate(captured(model, **changes))

        return {
            "clients": Axis((10, 30, 100, 300, 1000), lambda k: spec(clients=k)),
            "batch": Axis((1, 4, 16, 64, 256, 1024), lambda k: spec(batch=k)),
            "steps": Axis((1, 4, 16, 64, 256), lambda k: spec(steps=k)),
            "images": Axis((1, 4, 16, 64, 256, 1024), lambda k: spec(images=k)),
            "replicates": Axis((1, 4, 16, 64), lambda k: spec(draws=k)),
        }

    wide = {"parameters": Axis(WIDTHS, lambda k: STAGES["capture"].model_validate(captured(mlp(k))))}
    return [
        Work("capture, MLP", "capture", "updates of one image each, 10 of them", {**axes(mlp()), **wide}),
        Work("capture, LeNet", "capture", "the same of the LeNet of DLG", axes(LENET)),
    ]


def _exact() -> Work:
    def spec(model: Mapping[str, Any], **changes: int) -> Spec:
        return attacking("exact-batch", 1, captured(model, **{"batch": 4, "images": 5, **changes}))

    axes = {
        "parameters": Axis(WIDTHS[1:4], lambda k: spec(mlp(k))),
        "batch": Axis((1, 2, 4, 8, 16, 32), lambda k: spec(mlp(200), batch=k)),
        "images": Axis((1, 4, 16, 64), lambda k: spec(mlp(), images=k)),
    }
    out = {**ONE_UPDATE, **NO_START, "steps": "it reads one step"}
    return Work("exact reading, MLP", "exact", "batches of 4 read off the first affine layer", axes, out)


def _matching() -> list[Work]:
    def lbfgs(**changes: Any) -> Spec:
        restarts, model = changes.pop("restarts", 1), changes.pop("model", LENET)
        return attacking("dlg", 5, captured(model, **{"images": 2, **changes}), restarts)

    def adam(**changes: Any) -> Spec:
        restarts, model = changes.pop("restarts", 1), changes.pop("model", LENET)
        return attacking(IG, 100, captured(model, **{"images": 2, **changes}), restarts)

    def unrolled(steps: int) -> Spec:
        return attacking(UNROLLED, 50, captured(LENET, images=2, steps=steps))

    images, batch, starts = (1, 4, 10, 40, 160), (1, 2, 4, 8, 16, 32), (1, 2, 4, 8, 16)
    return [
        Work("DLG, LeNet", "matching", "L-BFGS on label and image, 5 outer iterations", {
            "images": Axis(images, lambda k: lbfgs(images=k)),
            "replicates": Axis(starts, lambda k: lbfgs(restarts=k)),
        }, {**ONE_UPDATE, "batch": "DLG reads single images here; see IG", "steps": "see delta-IG"}),
        Work("IG, LeNet", "matching", "signed Adam, 100 iterations", {
            "batch": Axis(batch, lambda k: adam(batch=k)),
            "images": Axis(images, lambda k: adam(images=k)),
            "replicates": Axis(starts, lambda k: adam(restarts=k)),
        }, ONE_UPDATE),
        Work("IG, MLP", "matching", "the same on an MLP", {
            "parameters": Axis(WIDTHS, lambda k: adam(model=mlp(k))),
            "batch": Axis(batch, lambda k: adam(model=mlp(), batch=k)),
        }, ONE_UPDATE),
        Work("delta-IG, LeNet", "matching", "local steps are done again, 50 iterations", {
            "steps": Axis((1, 2, 4, 8, 16, 32), unrolled),
        }, ONE_UPDATE),
    ]  # fmt: skip


def _prior() -> list[Work]:
    def annealed(model: Mapping[str, Any], **changes: Any) -> Spec:
        restarts, matching = changes.pop("restarts", 1), changes.pop("matching", "gradient")
        attack = {"name": "annealed-map", "matching": matching, "label_rule": "known"}
        return attacking(attack, 20, captured(model, **{"images": 2, **changes}), restarts, prior=True)

    return [
        Work("annealed MAP, LeNet", "prior", "L-BFGS in stages under a Gaussian for each class, 20 iterations each", {
            "batch": Axis((1, 2, 4, 8, 16), lambda k: annealed(LENET, batch=k)),
            "steps": Axis((1, 2, 4, 8, 16), lambda k: annealed(LENET, steps=k, matching="unrolled")),
            "images": Axis((1, 4, 10, 40), lambda k: annealed(LENET, images=k)),
            "replicates": Axis((1, 2, 4, 8), lambda k: annealed(LENET, restarts=k)),
        }, ONE_UPDATE),
        Work("annealed MAP, MLP", "prior", "the same on an MLP", {
            "parameters": Axis(WIDTHS[:4], lambda k: annealed(mlp(k))),
        }, ONE_UPDATE),
    ]  # fmt: skip


def works() -> Sequence[Work]:
    """Return all kinds of work."""
    return [*_trainings(), *_captures(), _exact(), *_matching(), *_prior()]


REAL = "digits"


def jobs() -> Mapping[str, Spec]:
    """Return jobs of some seconds each on real images, which a plan has to predict within a factor of two."""
    seen = {"images": 10, "dataset": REAL}
    annealed = {"name": "annealed-map", "label_rule": "known"}
    return {
        "training of an MLP": training(mlp(), steps=4000, dataset=REAL),
        "training of a CNN": training(CNN, steps=300, dataset=REAL),
        "capture": STAGES["capture"].model_validate(captured(mlp(200), images=300, dataset=REAL)),
        "exact reading": attacking("exact-batch", 1, captured(mlp(200), images=12, batch=8, dataset=REAL)),
        "DLG": attacking("dlg", 60, captured(LENET, **seen)),
        "IG": attacking(IG, 150, captured(LENET, **seen)),
        "annealed MAP": attacking(annealed, 30, captured(LENET, **seen), prior=True),
    }
