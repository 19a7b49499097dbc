"""What is attacked, the same for every contestant."""

import json
from dataclasses import asdict, dataclass, replace

CLASSES = 10
INNER = 20
"""Iterations in one step of ``torch.optim.LBFGS``, in its default setting, which all contestants of DLG have."""


@dataclass(frozen=True)
class Workload:
    """Some trials of one attack on single made-up images: the cost does not depend on pixels.

    Attributes:
        name: key on the command line.
        title: heading in the report.
        attack: ``dlg`` (squared distance of the gradients, image and soft label, L-BFGS) or ``ig`` (cosine and total
            variation, signed Adam, label known).
        model: plug-in of ``models/``, in evaluation state.
        trials: images, one per update.
        iterations: of every start; a multiple of ``INNER`` for ``dlg``.
        quick_iterations: the same under ``--quick``.
        starts: largest number of starts of a trial.
        target: a trial ends where its image is so close to the private one, in dB; None for all iterations.
        quality: what the images come to is what matters: measured once, beside the peers only.
        fewest: smallest fraction of the iterations that must have been done where there is no target; L-BFGS may end
            by its tolerances.
        image_shape: (channels, height, width).
        batch_size: images of an update.
    """

    name: str
    title: str
    attack: str
    model: str
    trials: int
    iterations: int
    quick_iterations: int
    starts: int = 1
    target: float | None = None
    quality: bool = False
    fewest: float = 1.0
    image_shape: tuple[int, int, int] = (3, 32, 32)
    batch_size: int = 1

    @property
    def most(self) -> int:
        """Iterations of all starts of all trials, if none ends early."""
        return self.trials * self.starts * self.iterations

    def quick(self) -> "Workload":
        """Return the same work with fewer iterations."""
        return replace(self, iterations=self.quick_iterations)

    def to_json(self) -> str:
        """Return the text that a worker gets."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> "Workload":
        """Read what ``to_json`` wrote."""
        fields = json.loads(text)
        return cls(**fields | {"image_shape": tuple(fields["image_shape"])})


_DLG = Workload(
    name="a1-dlg-4",
    title="A1 DLG on the LeNet with four convolutions, 4 trials",
    attack="dlg",
    model="dlg-lenet",
    trials=4,
    iterations=200,
    quick_iterations=60,
    fewest=0.5,
)
WORKLOADS = (
    _DLG,
    replace(_DLG, name="a1-dlg-10", title="A1 DLG on the LeNet with four convolutions, 10 trials", trials=10),
    Workload(
        name="a2-ig",
        title="A2 IG on ResNet-18 with CIFAR stem, 4 trials",
        attack="ig",
        model="resnet-18",
        trials=4,
        iterations=24,
        quick_iterations=5,
    ),
    replace(_DLG, name="a2-dlg-cnn", title="A2 DLG on the CNN 10/20/50, 4 trials", model="cnn-small"),
    *(
        Workload(
            name=f"a2-ig-{key}",
            title=f"A2 IG on the {network}, 4 trials",
            attack="ig",
            model=model,
            trials=4,
            iterations=200,
            quick_iterations=20,
        )
        for key, network, model in (
            ("lenet", "LeNet with four convolutions", "dlg-lenet"),
            ("cnn", "CNN 10/20/50", "cnn-small"),
        )
    ),
    replace(
        _DLG,
        name="a3-dlg-25db",
        title="A3 DLG on the LeNet with four convolutions, 3 images to 25 dB",
        trials=3,
        iterations=1600,
        quick_iterations=1600,
        starts=2,
        target=25.0,
    ),
    replace(
        _DLG,
        name="a4-dlg-quality",
        title="A4 DLG on the LeNet with four convolutions, what 20 images come to",
        trials=20,
        iterations=1200,
        quality=True,
    ),
    Workload(
        name="a5-ig-quality",
        title="A5 IG on ResNet-18 with CIFAR stem, what 20 images come to",
        attack="ig",
        model="resnet-18",
        trials=20,
        iterations=150,
        quick_iterations=5,
        quality=True,
    ),
)
QUICK = ("a1-dlg-4", "a1-dlg-10", "a2-ig")
