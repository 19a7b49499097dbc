"""What an observation's ``facts.json`` has to say, wherever it came from.

A file of a colleague's that was changed, or cut and mended, ends the job that reads it in one line.
"""

from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, ConfigDict

from leaklab.observations.base import Kind, Mode
from leaklab.observations.threat_models import THREAT_MODELS, Silence
from leaklab.records.bounds import Count, Flag, Natural, Real

Labels = list[Natural] | list[list[Natural]]


class _Strict(BaseModel):
    # values of another type are refused, and so are NaN and infinities
    model_config = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)


class Plugin(_Strict):
    """A plug-in by its name, and its settings."""

    name: str
    settings: dict[str, Any] = {}


class Vocabulary(_Strict):
    """Of a text network: how many tokens there are, and which of them are no words."""

    size: Count
    padding: Natural
    start: Natural
    end: Natural


class Architecture(Plugin):
    """A model; of text with its vocabulary."""

    vocabulary: Vocabulary | None = None


class Normalisation(_Strict):
    """Mean and deviation of each channel."""

    mean: list[Real]
    std: list[Real]


class Facts(_Strict):
    """The facts of ``threat_models.FACTS``; which of them are there is the threat model's to say."""

    architecture: Architecture | None = None
    weights: str | None = None
    nominal_rate: Real | None = None
    local_steps: Count | None = None
    step_factors: list[Real] | None = None
    batch_size: Count | None = None
    num_classes: Count | None = None
    input_shape: list[Count] | None = None
    input_range: list[Real] | None = None
    defense: Plugin | None = None
    normalisation: Normalisation | None = None
    optimizer: Plugin | None = None
    weight_decay: Real | None = None
    algorithm: Plugin | None = None
    round: Natural | None = None
    rounds: Count | None = None
    server: Plugin | None = None
    queries: Count | None = None
    labels: Labels | None = None


def _known(threat_model: str) -> str:
    if threat_model not in THREAT_MODELS:
        raise ValueError(f"is none of {', '.join(THREAT_MODELS)}")
    return threat_model


def _number(trial: str) -> str:
    if not (trial.isascii() and trial.isdecimal() and len(trial) < 10):
        raise ValueError("is no number of a trial")
    return trial


class Description(_Strict):
    """All of ``facts.json``; see ``artefacts.save_observation``."""

    kind: Kind
    mode: Mode
    model: dict[str, Any]
    parameters: list[str]
    shared: list[str]
    buffers: list[str]
    trials: Natural
    dtype: str
    threat_model: Annotated[str, AfterValidator(_known)]
    facts: Facts
    each_its_own: Flag = False
    silent: dict[Annotated[str, AfterValidator(_number)], Silence] = {}
