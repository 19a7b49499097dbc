"""Typed, frozen specs: what a run is. Their canonical JSON is the run's identity (see ``ids``).

A spec holds everything that decides a result and nothing else: no paths, no devices, no chunk sizes.
"""

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

Scalar = bool | int | float | str | None


class Record(BaseModel):
    """A frozen model that refuses unknown keys."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class Component(Record):
    """A plug-in by name, with its settings: ``lrp`` or ``{name: lrp, class_slope: 0.1}``.

    Attributes:
        name: module name in the room (``defenses/``, ``attacks/``, ...), with dashes.
        settings: keyword arguments of the plug-in; each must be declared there.
    """

    name: str
    settings: dict[str, Scalar] = Field(default_factory=dict)

    @model_validator(mode="before")
    @classmethod
    def _accept_short_forms(cls, value: Any) -> Any:
        if isinstance(value, str):
            return {"name": value}
        if isinstance(value, dict) and "settings" not in value:
            own = {k: v for k, v in value.items() if k in cls.model_fields}
            return {**own, "settings": {k: v for k, v in value.items() if k not in own}}
        return value


class PartitionChoice(Component):
    """How the training data are dealt to clients: ``{name: two-clients, seed: 0, shard_size: 100}``.

    Attributes:
        seed: seed of the deal.
        validation: share of every client's samples that is set aside and never trained on.
    """

    seed: int = 0
    validation: float = Field(default=0.0, ge=0, lt=1)


class ImageChoice(Record):
    """Which private images a client holds: ``count`` images drawn without replacement by ``seed``.

    Attributes:
        split: ``train`` or ``test`` part of the dataset.
        count: number of images.
        seed: seed of the draw.
        min_contrast: images whose pixels deviate less (standard deviation within a channel, [0, 1] scale) are
            passed over: a nearly black image has a small error whatever is guessed.
    """

    split: Literal["train", "test"] = "test"
    count: int = Field(gt=0)
    seed: int = 0
    min_contrast: float = 0.1


class PartitionSpec(Record):
    """One deal of a dataset's training part to clients."""

    dataset: str
    partition: PartitionChoice


class Goal(Record):
    """A replicate stops in the first evaluated round in which ``metric`` is at least ``value``.

    Attributes:
        metric: accuracy in percent on a part named under ``evaluate``.
        value: in percent.
    """

    metric: Literal["test_accuracy", "train_accuracy"]
    value: float


class TrainSpec(Record):
    """A sweep: one model, one dataset, one algorithm, one defense; replicates = seeds x rates.

    Attributes:
        rates: one entry a setting; an entry has one rate for all clients or one rate per client.
        evaluate: parts that the global model is tested on; ``train`` is all clients' training samples together.
        evaluate_every: test the global model every so many rounds; 0 tests after the last round only.
        goal: where a replicate stops; None trains all rounds.
        optimizer: how clients step; its state is new in every round.
        weight_decay: added to the gradient as ``weight_decay * parameter``.
        augmentation: how a client changes its training images.
        schedule: how the nominal rate changes from round to round.
    """

    dataset: str
    partition: PartitionChoice
    model: Component
    defense: Component = Component(name="none")
    algorithm: Literal["scheme1", "scheme2"] = "scheme1"
    rates: tuple[tuple[float, ...], ...]
    rounds: int = Field(gt=0)
    local_steps: int = Field(gt=0)
    batch_size: int = Field(gt=0)
    optimizer: Component = Component(name="sgd")
    weight_decay: float = Field(default=0.0, ge=0)
    augmentation: Component = Component(name="none")
    schedule: Component = Component(name="constant")
    clients_per_round: int | None = None
    seeds: tuple[int, ...]
    evaluate: tuple[Literal["test", "train"], ...] = Field(default=("test",), min_length=1)
    evaluate_every: int = Field(default=0, ge=0)
    goal: Goal | None = None
    dtype: Literal["float32", "float64"] = "float32"


class CaptureSpec(Record):
    """What clients send in one round, and their secret: trials = images x draws of the defense's randomness.

    Attributes:
        rate: the server's nominal local learning rate.
        client_weight: p_k N of the client, by which scheme 1 scales its rate (LRP section 5.3 uses 2).
        kind: ``gradient`` (the update divided by the rate that the server assumes, times -1) or ``delta``.
        threat_model: name of the set of facts that the attacker is granted (``observations/threat_models.py``).
        draws: independent draws of the defense's randomness for each image.
    """

    dataset: str
    images: ImageChoice
    draws: int = Field(default=1, gt=0)
    model: Component
    defense: Component = Component(name="none")
    local_steps: int = Field(default=1, gt=0)
    batch_size: int = Field(default=1, gt=0)
    rate: float = Field(default=0.01, gt=0)
    client_weight: float = Field(default=1.0, gt=0)
    kind: Literal["gradient", "delta"] = "gradient"
    threat_model: str = "honest-but-curious"
    seed: int = 0
    dtype: Literal["float32", "float64"] = "float64"


class AttackSpec(Record):
    """One attack on all trials of a capture.

    Attributes:
        transform: ``none`` for the attacker of the paper, else a defense-aware transform (``attacks/adaptive/``).
        iterations: largest number of outer iterations per start.
        restarts: largest number of starts; the best one is chosen by the attack's own matching loss.
    """

    capture: CaptureSpec
    attack: Component
    transform: Component = Component(name="none")
    iterations: int = Field(gt=0)
    restarts: int = Field(default=1, gt=0)
    seed: int = 0


class ScoreSpec(Record):
    """The metrics of one attack's reconstructions."""

    attack: AttackSpec
    metrics: tuple[str, ...]


class CheckSpec(Record):
    """A numerical check of a statement (theorem, algorithm, protocol, drawing); no model is trained on data.

    Attributes:
        check: plug-in in ``theory/``.
        dataset: with ``partition``: the check is told how many samples and classes each client of this deal has.
        seed: seed of all the check's draws.
    """

    check: Component
    dataset: str = ""
    partition: PartitionChoice | None = None
    seed: int = 0

    @model_validator(mode="after")
    def _dataset_with_partition(self) -> "CheckSpec":
        if bool(self.dataset) != (self.partition is not None):
            raise ValueError("a check has either both 'dataset' and 'partition' or neither")
        return self


Spec = CheckSpec | PartitionSpec | TrainSpec | CaptureSpec | AttackSpec | ScoreSpec
