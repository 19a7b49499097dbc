"""``leaklab-probe/1``: what the card of a probe is as data. Its JSON schema is that of these models."""

from typing import Any, Literal

from pydantic import Field

from leaklab.guests.schema import Doubt, Part, Versions, Word

SCHEMA = "leaklab-probe/1"


class ProbeSubject(Part):
    """What was probed."""

    kind: Literal["client", "exchange"] = Field(description="a client run here, or an update that was really sent")
    file: str | None = Field(description="name of the case file or recording, without folders")
    name: str = Field(description="class of the model")
    parameters: int = Field(description="entries of the parameters that are trained")
    sha256: str | None = Field(description="of the case file's bytes")


class Granted(Part):
    """What the attacker of the searches had."""

    letter: str = Field(description="of the systematisation of threat models; see docs/attacks.md")
    what: list[str]


class Stage(Part):
    """What one stage found."""

    name: str
    seconds: float = Field(description="wall time, rounded to 0.1; it varies")
    lines: list[str] = Field(description="what it says")
    record: dict[str, Any] = Field(description="the same as data")


class NotRun(Part):
    """A stage that has nothing to say."""

    name: str
    seconds: float
    not_run: str = Field(alias="not run", description="why")


class ProbeData(Part):
    """The card of a probe: what an update gives away, with a word and what it rests on."""

    schema_: Literal["leaklab-probe/1"] = Field(alias="schema")
    subject: ProbeSubject
    samples: int | None = Field(description="private samples that the auditor holds; null of none")
    granted: Granted
    seed: int = Field(description="of everything that is drawn")
    versions: Versions
    warnings: list[Doubt]
    stages: list[Stage | NotRun]
    read: int | None = Field(description="samples that were read; null where nobody holds them")
    exact: int = Field(description="samples that were read exactly; where nobody holds them, those that are proven")
    gain: float | None = Field(description="largest mean gain of an attacker over the best guess, in the unit")
    measured: bool = Field(
        description="all attackers had their turn, with samples to compare and all known that was done but drawn"
    )
    unit: Literal["dB", "%"]
    ended: Literal["complete", "budget", "interrupted"]
    verdict: Word
    status: int = Field(ge=0, description="exit status of `leaklab probe` for this word")
    sentence: str = Field(description="the verdict and what it rests on")
    not_tried: list[str] = Field(alias="not tried")


def schema() -> dict[str, Any]:
    """Return the JSON schema of a probe's card."""
    return ProbeData.model_json_schema(by_alias=True)
