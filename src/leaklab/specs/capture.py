"""Spec of captured updates of images: what clients send in one round."""

from collections.abc import Mapping
from typing import Any, ClassVar, Literal, Self

from pydantic import Field, field_validator, model_validator

from leaklab.records.bounds import Count, Natural, NonNegative, Real, Seed, Share
from leaklab.records.record import Component, Plugin, Record
from leaklab.specs.base import CapturedRound, Spec, has_frozen_part
from leaklab.specs.generator import GENERATORS, GeneratorSpec
from leaklab.specs.training import SCHEMES, PartitionChoice, PartitionSpec, PublishedState, TrainedState, TrainSpec

OF_TRAINING = (
    "dataset", "model", "defense", "local_steps", "batch_size", "dtype", "optimizer", "weight_decay", "schedule",
    "augmentation",
)  # fmt: skip
"""What clients whose messages were kept have from their training."""
SERVERS = "observations/servers"


class ImageChoice(Record):
    """Which private images a client holds: ``count`` images drawn without replacement by ``seed``, or named ones.

    Attributes:
        split: ``train`` or ``test`` part of the dataset.
        count: number of images.
        seed: seed of the draw.
        min_contrast: images whose pixels deviate less (standard deviation within a channel, [0, 1] scale) are
            passed over: a nearly black image has a small error whatever is guessed.
        indexes: positions in the split, from 0, instead of a draw; as many as ``count``.
        planted: a generator that makes the images from latents drawn by ``seed``, one class after another, instead of
            the split: the control of an attack that searches among that generator's images.
        label: drawn images have this label ``of_label`` times; None leaves labels to the draw.
        of_label: how often.
    """

    LATER: ClassVar[frozenset[str]] = frozenset({"indexes", "planted", "label", "of_label"})

    split: Literal["train", "test"] = "test"
    count: Count
    seed: Seed = 0
    min_contrast: Share = 0.1
    indexes: tuple[Natural, ...] = ()
    planted: GeneratorSpec | None = None
    label: Natural | None = None
    of_label: Natural = 0

    @model_validator(mode="after")
    def _one_source(self) -> Self:
        if self.indexes and (len(self.indexes) != self.count or len(set(self.indexes)) < self.count):
            raise ValueError(f"indexes are different positions in the split, as many as count: {self.count}")
        if self.indexes and self.planted:
            raise ValueError("planted images have no positions in a split: leave indexes out")
        if self.label is not None and (self.indexes or self.planted):
            raise ValueError("label and of_label are of drawn images: leave indexes and planted out")
        if self.of_label > (0 if self.label is None else self.count):
            raise ValueError(f"of_label is how many of the {self.count} images have the label: state label, lower it")
        return self

    @property
    def partition(self) -> None:
        """None: drawn images are of no deal."""


class ClientChoice(Record):
    """The private images are those that clients of a deal use in the captured round, batch by batch.

    Attributes:
        partition: the deal.
        clients: numbers of the clients, from 0; one update each.
        seed: of the unrelated images that reconstructions are compared with.
    """

    partition: PartitionChoice
    clients: tuple[Natural, ...] = Field(min_length=1)
    seed: Seed = 0

    @field_validator("clients")
    @classmethod
    def _different(cls, value: tuple[int, ...]) -> tuple[int, ...]:
        if len(set(value)) < len(value) or min(value) < 0:
            raise ValueError("clients are different numbers from 0")
        return value

    @property
    def split(self) -> Literal["train"]:
        """The part of the dataset that is dealt."""
        return "train"

    @property
    def planted(self) -> None:
        """None: no generator makes them."""


class CaptureSpec(CapturedRound):
    """What clients send who hold images: drawn ones, or their part of a deal.

    Attributes:
        images: drawn images, the same batch in every local step; or clients of a deal, with the batches, the factor
            of the rate and the random streams that they have in that round of a training.
        mode: state of the client's layers: ``eval`` (running statistics stay) or ``train`` (batch statistics).
        rate_schedule: of the nominal rate inside the round: ``constant`` or ``inverse`` (rate / t in step t, from 1).
        input_range: smallest and largest value of an input as the model gets it; the papers' GGL has [-1, 1].
        state: the weights that the server sends: None for initial ones, or those of a training or published ones;
            inputs are then normalised as they were in the training.
        optimizer: how clients step; its state is new in every round.
        weight_decay: added to the gradient as ``weight_decay * parameter``.
        schedule: how the nominal rate changes from round to round of the state's training.
        augmentation: how clients of a deal change their images.
        algorithm: what clients of a deal receive, do and send, and the factors of their rates.
        num_classes: outputs of the network, where that is more than the classes of the data set that is at hand.
        server: a malicious server (``observations/servers/``), which sends weights of its own making.
        sent: whether the updates are those that the training of the state kept while its clients sent them, in the
            round after the state; else they are what the same clients do again from the state.
    """

    LATER: ClassVar[frozenset[str]] = CapturedRound.LATER | {
        "state", "optimizer", "weight_decay", "schedule", "augmentation", "algorithm", "num_classes",
        "server", "sent",
    }  # fmt: skip
    stage: ClassVar[str] = "capture"
    rule: ClassVar[str] = "capture_updates"
    observed: ClassVar[str] = "observation"
    rooms: ClassVar[Mapping[str, str]] = {
        "model": "models",
        "defense": "defenses",
        "schedule": "federated/schedules",
        "optimizer": "federated/optimizers",
        "server": SERVERS,
    }

    images: ImageChoice | ClientChoice
    batch_size: Count = 1
    mode: Literal["eval", "train"] = "eval"
    rate_schedule: Literal["constant", "inverse"] = "constant"
    input_range: tuple[Real, Real] = (0.0, 1.0)
    dtype: Literal["float32", "float64"] = "float64"
    state: TrainedState | PublishedState | None = None
    optimizer: Component = Component(name="sgd")
    weight_decay: NonNegative = 0.0
    schedule: Component = Component(name="constant")
    augmentation: Component = Component(name="none")
    algorithm: Literal["scheme1", "scheme2"] | Component = "scheme1"
    num_classes: Count | None = None
    server: Component | None = None
    sent: bool = False

    @field_validator("input_range")
    @classmethod
    def _ascending(cls, value: tuple[float, float]) -> tuple[float, float]:
        if not value[0] < value[1]:
            raise ValueError("input_range is [smallest, largest], the smallest first")
        return value

    @model_validator(mode="after")
    def _fits_the_state(self) -> Self:
        trained = self.state.train if self.state else None
        if trained and trained.model != self.model:
            raise ValueError(
                f"the state is that of model '{trained.model.name}' with settings of its own, not of this "
                f"'{self.model.name}': take the same model"
            )
        if self.state is not None and self.images.planted:
            raise ValueError("planted images are made for first weights: leave state out")
        if self.state is not None and self.input_range != (0.0, 1.0):
            raise ValueError("inputs are normalised as they were in the state's training: leave input_range out")
        if trained is None and self.schedule.name != "constant":
            raise ValueError("a schedule follows the rounds of a training: give a state, or leave schedule out")
        return self

    @model_validator(mode="after")
    def _fits_the_clients(self) -> Self:
        if self.images.partition:
            if self.client_weight != 1:
                raise ValueError("the deal and the algorithm say what a client weighs: leave client_weight out")
            if self.rate_schedule != "constant":
                raise ValueError("clients of a deal do all steps of a round at one rate: leave rate_schedule out")
        elif self.augmentation.name != "none" or self.algorithm != "scheme1":
            raise ValueError("drawn images know no augmentation or algorithm: name clients of a deal or leave both out")
        return self

    @model_validator(mode="after")
    def _fits_the_server(self) -> Self:
        if self.server is None:
            return self
        if self.images.partition:
            raise ValueError("a malicious server asks drawn images (images.count) only: leave images.clients out")
        if self.local_steps > 1 or self.rounds > 1:
            raise ValueError("a malicious server reads one local step of one round: leave local_steps and rounds out")
        return self

    @model_validator(mode="after")
    def _fits_what_was_sent(self) -> Self:
        trained = self.state.train if self.state else None
        if not self.sent:
            return self
        if trained is None or not self.images.partition:
            raise ValueError("sent updates are those of clients of a deal in a training: name state and images.clients")
        if trained.rounds_done == trained.rounds:
            raise ValueError(f"nobody sends after the last round, {trained.rounds}: take the state of an earlier one")
        if self.draws > 1 or self.rounds > 1:
            raise ValueError("an update is sent once: leave draws and rounds out")
        assert isinstance(self.state, TrainedState)
        own = {name: getattr(self, name) for name in OF_TRAINING} | {"mode": self.mode, "rate": (self.rate,)}
        own |= {"partition": self.images.partition, "algorithm": self.algorithm_plugin}
        rate = trained.rates[self.state.replicate % len(trained.rates)]
        done = {name: getattr(trained, name) for name in OF_TRAINING} | {"mode": "train", "rate": rate}
        done |= {"partition": trained.partition, "algorithm": trained.algorithm_plugin}
        other = [name for name, value in own.items() if value != done[name]]
        if other:
            raise ValueError(
                f"sent updates are of the training as it was, and '{other[0]}' is another: leave it out, or leave sent "
                "out and the clients do their round again"
            )
        return self

    @property
    def algorithm_plugin(self) -> Component:
        """The algorithm as a plug-in with settings."""
        return SCHEMES[self.algorithm] if isinstance(self.algorithm, str) else self.algorithm

    @property
    def image_count(self) -> int:
        """Number of private images of a local step, of all clients."""
        drawn = self.images
        return drawn.count if drawn.partition is None else len(drawn.clients) * self.batch_size

    @property
    def trials(self) -> int:
        """How many updates it holds, each attacked on its own."""
        return self.image_count // self.batch_size * self.draws

    @property
    def manipulated(self) -> bool:
        """Whether the server sends weights of its own making."""
        return self.server is not None

    @property
    def own_weights(self) -> tuple[str, ...]:
        """Published weights that it names itself, by their keys."""
        return (self.state.weights,) if self.state and self.state.train is None else ()

    def needs(self) -> tuple[Spec, ...]:
        """Return the deal whose clients are captured or the generator of their images, and what trained their state."""
        deal, trained = self.images.partition, self.state.train if self.state else None
        dealt = [PartitionSpec(dataset=self.dataset, partition=deal)] if deal else []
        return *dealt, *filter(None, [self.images.planted, trained, self.sending])

    @property
    def sending(self) -> TrainSpec | None:
        """The training that kept what was sent, a round longer than the state's; None where nothing is taken of it."""
        if not self.sent or not isinstance(self.state, TrainedState) or not isinstance(self.images, ClientChoice):
            return None
        return self.state.train.one_more(self.images.clients)

    def plugins(self) -> tuple[Plugin, ...]:
        """Return model, defense, and what client and server do; in a round of a training, what makes it one too."""
        found = list(super().plugins())
        if self.images.planted:
            found.append(self.images.planted.model.in_room(GENERATORS))
        if self.state is not None:
            found.append(self.algorithm_plugin.in_room("federated/algorithms"))
            found.append(self.augmentation.in_room("data/augmentations"))
        return tuple(found)

    def misfit(self) -> str:
        """Return why its model cannot be captured; empty where it can."""
        if has_frozen_part(self.model.name):
            return f"model '{self.model.name}' has a frozen part, which a capture does not know: change model"
        return ""

    def step_factors(self, steps: int) -> tuple[float, ...]:
        """Return the factor on the nominal rate in each of ``steps`` local steps."""
        return tuple(1.0 / step if self.rate_schedule == "inverse" else 1.0 for step in range(1, steps + 1))

    def on_input_range(self, images: Any) -> Any:
        """Return images of the [0, 1] scale as the model gets them; of a state they are normalised besides."""
        low, high = self.input_range
        return images if (low, high) == (0.0, 1.0) else low + (high - low) * images

    def on_unit_range(self, inputs: Any) -> Any:
        """Return what an attack found on the [0, 1] scale."""
        low, high = self.input_range
        return inputs if (low, high) == (0.0, 1.0) else (inputs - low) / (high - low)
