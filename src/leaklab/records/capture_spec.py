"""Spec of captured updates: what clients send in one round, whether they hold images or sentences."""

from typing import Any, ClassVar, Literal, Self

from pydantic import Field, field_validator, model_validator

from leaklab.records.bounds import Count, Flag, Natural, NonNegative, Positive, Rate, Real, Seed, Share
from leaklab.records.generator_spec import GeneratorSpec
from leaklab.records.partition_spec import PartitionChoice
from leaklab.records.record import Component, Record
from leaklab.records.state_spec import PublishedState, TrainedState
from leaklab.records.train_spec import SCHEMES


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


class SentenceChoice(Record):
    """Which private sentences clients hold; the first is example 1.

    Attributes:
        printed: begin with the two sentences that LRP table 7 prints.
        others: sentences drawn besides, without replacement.
        seed: of that draw.
        longest: drawn sentences have at most so many tokens, start and end included.
    """

    printed: Flag = True
    others: Natural = 0
    seed: Seed = 0
    longest: Count = Field(default=24, gt=2)

    @property
    def count(self) -> int:
        """Number of sentences."""
        return (2 if self.printed else 0) + self.others


class CapturedRound(Record):
    """A client's round as the server sees it: what captures of images and of sentences have in common.

    Trials = groups of private samples x draws of the defense's randomness.

    Attributes:
        dataset: key of ``config/datasets.yaml`` or ``config/texts.yaml``.
        draws: independent draws of the defense's randomness for each group.
        rate: the server's nominal local learning rate.
        client_weight: p_k N of the client, by which scheme 1 scales its rate (LRP section 5.3 uses 2).
        kind: ``gradient`` (the update divided by the rate that the server assumes, times -1) or ``delta``.
        rounds: how often the client did this round, from the same weights on the same samples and with fresh
            randomness of its defense; the server keeps the mean of what it saw.
        threat_model: name of the set of facts that the attacker is granted (``observations/threat_models.py``).
    """

    LATER: ClassVar[frozenset[str]] = frozenset({"rounds"})

    dataset: str
    draws: Count = 1
    model: Component
    defense: Component = Component(name="none")
    local_steps: Count = 1
    rate: Rate = 0.01
    client_weight: Positive = 1.0
    kind: Literal["gradient", "delta"] = "gradient"
    rounds: Count = 1
    threat_model: str = "honest-but-curious"
    seed: Seed = 0

    def step_factors(self, steps: int) -> tuple[float, ...]:
        """Return the factor on the nominal rate in each of ``steps`` local steps."""
        return (1.0,) * steps


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
    """

    LATER: ClassVar[frozenset[str]] = CapturedRound.LATER | {
        "state", "optimizer", "weight_decay", "schedule", "augmentation", "algorithm", "num_classes",
        "server",
    }  # fmt: skip

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

    @field_validator("input_range")
    @classmethod
    def _ascending(cls, value: tuple[float, float]) -> tuple[float, float]:
        if not value[0] < value[1]:
            raise ValueError("input_range is [smallest, largest], the smallest first")
        return value

    @model_validator(mode="after")
    def _fits_the_state(self) -> Self:
        trained = self.state if isinstance(self.state, TrainedState) else None
        if trained and trained.train.model != self.model:
            raise ValueError(
                f"the state is that of model '{trained.train.model.name}' with settings of its own, not of this "
                f"'{self.model.name}': take the same model"
            )
        if self.state is not None and isinstance(self.images, ImageChoice) and self.images.planted:
            raise ValueError("planted images are made for first weights: leave state out")
        if self.state is not None and self.input_range != (0.0, 1.0):
            raise ValueError("inputs are normalised as they were in the state's training: leave input_range out")
        if trained is None and self.schedule.name != "constant":
            raise ValueError("a schedule follows the rounds of a training: give a state, or leave schedule out")
        return self

    @model_validator(mode="after")
    def _fits_the_clients(self) -> Self:
        if isinstance(self.images, ClientChoice):
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
        if isinstance(self.images, ClientChoice):
            raise ValueError("a malicious server asks drawn images (images.count) only: leave images.clients out")
        if self.local_steps > 1 or self.rounds > 1:
            raise ValueError("a malicious server reads one local step of one round: leave local_steps and rounds out")
        return self

    @property
    def algorithm_plugin(self) -> Component:
        """The algorithm as a plug-in with settings."""
        return SCHEMES[self.algorithm] if isinstance(self.algorithm, str) else self.algorithm

    @property
    def image_count(self) -> int:
        """Number of private images of a local step, of all clients."""
        drawn = self.images
        return drawn.count if isinstance(drawn, ImageChoice) else len(drawn.clients) * self.batch_size

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


class TextCaptureSpec(CapturedRound):
    """What clients send who hold one sentence each.

    Attributes:
        dtype: float32 is what clients send; a delta of rounded weights is then part of the observation.
    """

    sentences: SentenceChoice
    dtype: Literal["float32", "float64"] = "float32"
