"""Spec of a training sweep."""

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import AfterValidator, Field, model_validator

from leaklab.records.bounds import Count, Distinct, Natural, NonNegative, PartShare, Rate, Seed, distinct
from leaklab.records.record import Component, Record
from leaklab.specs.base import Spec, has_frozen_part

# Spec of a partition: how the training data are dealt to clients.


class PartitionChoice(Component):
    """How the training data are dealt to clients: ``{name: two-clients, seed: 0, shard_size: 100}``.

    Attributes:
        seed: seed of the deal.
        validation: share of every client's samples that is set aside and never trained on.
        tests: samples of the test part that every client is dealt, in the proportions of the classes that it trains on.
    """

    LATER: ClassVar[frozenset[str]] = frozenset({"tests"})

    seed: Seed = 0
    validation: PartShare = 0.0
    tests: Natural = 0


class PartitionSpec(Spec):
    """One deal of a dataset's training part to clients."""

    stage: ClassVar[str] = "partition"
    rule: ClassVar[str] = "partition_data"
    called: ClassVar[str] = "{dataset}-{partition.name}"
    rooms: ClassVar[Mapping[str, str]] = {"partition": "data/partitions"}

    dataset: str
    partition: PartitionChoice

    def seedless(self) -> "PartitionSpec":
        """Return the deal of seed 0: deals that differ by their seed look alike."""
        return self.model_copy(update={"partition": self.partition.model_copy(update={"seed": 0})})


OWN_TEST: Literal["own-test"] = "own-test"
VALIDATION: Literal["validation"] = "validation"
LOCAL_LOSS: Literal["local-loss"] = "local-loss"
EXTRACTOR_CHANGE: Literal["extractor-change"] = "extractor-change"
SCHEMES = {f"scheme{number}": Component(name="fedavg", settings={"scheme": number}) for number in (1, 2)}


class Goal(Record):
    """A replicate stops in the first evaluated round in which ``metric`` is at least ``value``.

    Attributes:
        metric: accuracy in percent on a part named under ``evaluate``.
        value: in percent.
    """

    metric: Literal["test_accuracy", "train_accuracy"]
    value: Annotated[NonNegative, Field(le=100)]


class Backbone(Record):
    """Where a model's frozen part comes from: published weights, or the global network of another training.

    Attributes:
        weights: key of ``config/weights.yaml``.
        train: the training; its first replicate is taken, where it stops.
    """

    weights: str | None = None
    train: "TrainSpec | None" = None

    @model_validator(mode="after")
    def _one_source(self) -> "Backbone":
        if (self.weights is None) == (self.train is None):
            raise ValueError("a backbone is {weights: <key of config/weights.yaml>} or {block: <a block of trainings>}")
        return self


class TrainSpec(Spec):
    """A sweep: one model, one dataset, one algorithm, one defense; replicates = seeds x rates.

    Attributes:
        algorithm: how clients and server work together; ``scheme1`` and ``scheme2`` are short for those of ``fedavg``.
        rates: one entry a setting; an entry has one rate for all clients or one rate per client.
        evaluate: parts that the global model is tested on; ``train`` is all clients' training samples together, and
            ``validation`` what all of them set aside.
            ``own-test`` tests every client on the deal's own test split, before and after the round's local training.
        evaluate_every: test every so many rounds; 0 tests after the last round only.
        goal: where a replicate stops; None trains all rounds.
        optimizer: how clients step; its state is new in every round.
        weight_decay: added to the gradient as ``weight_decay * parameter``.
        augmentation: how a client changes its training images.
        schedule: how the nominal rate changes from round to round.
        until: stop after so many of the ``rounds`` and test there; schedules do not notice. The state that a capture
            starts from. ``own-test`` belongs to a round: after none, clients are not tested.
        watch: what is noted of local training beside the tests: ``local-loss`` is the mean loss of the clients' last
            epoch, ``extractor-change`` how far the first client's weights, its classifier aside, moved since the round
            before.
        backbone: of a model that has a frozen part; None for an untrained one, the same for all seeds.
        sends: clients whose messages of the last round are kept as they are sent; for captures (``CaptureSpec.sent``).
    """

    LATER: ClassVar[frozenset[str]] = frozenset({"until", "watch", "backbone", "sends"})
    stage: ClassVar[str] = "train"
    rule: ClassVar[str] = "train_federated"
    called: ClassVar[str] = "{dataset}-{model.name}-{defense.name}"
    rooms: ClassVar[Mapping[str, str]] = {
        "model": "models",
        "defense": "defenses",
        "algorithm_plugin": "federated/algorithms",
        "schedule": "federated/schedules",
        "optimizer": "federated/optimizers",
        "augmentation": "data/augmentations",
    }
    block: ClassVar[str] = "train"

    dataset: str
    partition: PartitionChoice
    model: Component
    defense: Component = Component(name="none")
    algorithm: Literal["scheme1", "scheme2"] | Component = "scheme1"
    rates: Distinct[Annotated[tuple[Rate, ...], Field(min_length=1)]]
    rounds: Count
    local_steps: Count
    batch_size: Count
    optimizer: Component = Component(name="sgd")
    weight_decay: NonNegative = 0.0
    augmentation: Component = Component(name="none")
    schedule: Component = Component(name="constant")
    clients_per_round: Count | None = None
    seeds: Distinct[Seed]
    evaluate: Distinct[Literal["test", "train", "validation", "own-test"]] = ("test",)
    evaluate_every: Natural = 0
    goal: Goal | None = None
    dtype: Literal["float32", "float64"] = "float32"
    until: Natural | None = None
    watch: Annotated[tuple[Literal["local-loss", "extractor-change"], ...], AfterValidator(distinct)] = ()
    backbone: Backbone | None = None
    sends: Annotated[tuple[Natural, ...], AfterValidator(distinct)] = ()

    @property
    def algorithm_plugin(self) -> Component:
        """The algorithm as a plug-in with settings."""
        return SCHEMES[self.algorithm] if isinstance(self.algorithm, str) else self.algorithm

    @property
    def rounds_done(self) -> int:
        """Rounds until it stops."""
        return self.rounds if self.until is None else self.until

    @property
    def whole(self) -> "TrainSpec":
        """The same training with all its rounds, of which nobody keeps messages."""
        return self.model_copy(update={"until": None, "sends": ()}) if self.until is not None or self.sends else self

    def one_more(self, sends: tuple[int, ...]) -> "TrainSpec":
        """Return the same training with one round more, of which the messages of ``sends`` are kept."""
        return TrainSpec.model_validate({**self.model_dump(), "until": self.rounds_done + 1, "sends": sends})

    @property
    def goes_on(self) -> bool:
        """Whether a longer training can go on from where this one stops.

        The results of a run hold all that the next round depends on, except where a replicate stops at a goal, and
        what is watched from round to round.
        """
        return self.rounds_done > 0 and self.goal is None and not self.watch

    @property
    def replicates(self) -> int:
        """Number of replicates: seeds x rates."""
        return len(self.seeds) * len(self.rates)

    def needs(self) -> tuple[Spec, ...]:
        """Return the deal, and the training of the backbone if it is one."""
        deal = PartitionSpec(dataset=self.dataset, partition=self.partition)
        return (deal, self.backbone.train) if self.backbone and self.backbone.train else (deal,)

    def misfit(self) -> str:
        """Return why its model takes no backbone; empty where it does, or there is none."""
        if self.backbone and not has_frozen_part(self.model.name):
            return f"model '{self.model.name}' has no frozen part: leave backbone out, or change model"
        return ""

    @property
    def own_weights(self) -> tuple[str, ...]:
        """Published weights that it names itself, by their keys."""
        return (self.backbone.weights,) if self.backbone and self.backbone.weights else ()

    @property
    def own_keys(self) -> dict[str, Any]:
        """Return the rates: the table has a line for each entry of them."""
        return {"rates": self.rates[0]}

    @model_validator(mode="after")
    def _clients_can_be_tested(self) -> "TrainSpec":
        if OWN_TEST in self.evaluate and not self.partition.tests:
            raise ValueError("evaluate: own-test needs test images for every client: set partition.tests above 0")
        if VALIDATION in self.evaluate and not self.partition.validation:
            raise ValueError("evaluate: validation needs samples that are set aside: set partition.validation above 0")
        return self

    @model_validator(mode="after")
    def _can_be_watched(self) -> "TrainSpec":
        if self.watch and self.until == 0:
            raise ValueError("watch: local training belongs to a round, and until is 0: set until above 0")
        if EXTRACTOR_CHANGE in self.watch and self.clients_per_round is not None:
            raise ValueError(
                "watch: extractor-change follows the first client through every round: leave clients_per_round out"
            )
        return self

    @model_validator(mode="after")
    def _somebody_sends(self) -> "TrainSpec":
        if self.sends and self.until == 0:
            raise ValueError("sends: nobody sends before the first round, and until is 0: set until above 0")
        if self.sends and self.goal is not None:
            raise ValueError("sends: a training with a goal stops in a round that nobody knows before: leave one out")
        return self

    @model_validator(mode="before")
    @classmethod
    def _all_rounds_are_no_stop(cls, value: Any) -> Any:
        """Let a training that stops after all its rounds be the same run as one that does not stop."""
        if isinstance(value, dict) and value.get("until") is not None and value.get("until") == value.get("rounds"):
            return {**value, "until": None}
        return value

    @model_validator(mode="after")
    def _until_is_reached(self) -> "TrainSpec":
        if self.until is not None and self.until > self.rounds:
            raise ValueError(f"until is {self.until}, but the training ends after {self.rounds} rounds: lower it")
        return self


# Where the weights that a server sends come from, if they are not the initial ones.


class TrainedState(Record):
    """The weights are those after a round of a training.

    Attributes:
        train: the training; where it stops (``until``, else its last round) is the state.
        replicate: seed and setting of the training: place of the seed times the number of settings, plus that of the
            setting.
    """

    train: TrainSpec
    replicate: Natural = 0

    @model_validator(mode="after")
    def _replicate_exists(self) -> Self:
        count = self.train.replicates
        if self.replicate >= count:
            raise ValueError(f"replicate is {self.replicate}, but the training has {count}: 0 to {count - 1}")
        return self

    @property
    def round(self) -> int:
        """Rounds done; the captured round has this number, from 0."""
        return self.train.rounds_done

    @property
    def seed(self) -> int:
        """Seed of the replicate."""
        return self.train.seeds[self.replicate // len(self.train.rates)]


class PublishedState(Record):
    """The weights are published ones.

    Attributes:
        weights: key of ``config/weights.yaml``.
    """

    weights: str

    @property
    def train(self) -> None:
        """None: no training of ours made them."""
