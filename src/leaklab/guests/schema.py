"""``leaklab-card/1``: what a card is as data. Cards are made through these models, and their JSON schema is theirs."""

from typing import Annotated, Any, Literal, get_args

from pydantic import BaseModel, ConfigDict, Field

SCHEMA = "leaklab-card/1"
Word = Literal["stood", "read", "undecided", "no premise", "invalid"]
AttackerKind = Literal["undefended", "unaware", "rule", "learnt", "noise", "rounds", "noise of the same price"]
Decibels = Annotated[float, Field(description="dB, rounded to 0.01", allow_inf_nan=False)]
Seconds = Annotated[float, Field(ge=0, description="wall time, rounded to 0.1; it varies")]
Score = Annotated[float, Field(description="dB, or percent of tokens, rounded to 0.01", allow_inf_nan=False)]
Points = Annotated[float, Field(description="percent, or points of it, rounded to 0.01", allow_inf_nan=False)]
Milliseconds = Annotated[float, Field(ge=0, description="wall time, rounded to 0.01; it varies")]
WORDS = get_args(Word)


class Part(BaseModel):
    """A part of a card: what it has is declared, and nothing else is in it."""

    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=True)


class Subject(Part):
    """What was judged."""

    kind: Literal["defense"]
    file: str = Field(description="its name, without folders")
    name: str = Field(description="what of the file was judged")
    sha256: str = Field(
        pattern="^[0-9a-f]{64}$",
        description="of the syntax trees of the file and of what it imports from beside it; comments do not count",
    )


class Versions(Part):
    """Of what the numbers depend on."""

    leaklab: str
    python: str
    torch: str


class Doubt(Part):
    """A warning: what makes the verdict doubtful."""

    what: str = Field(description="a word for programs")
    text: str = Field(description="a line for people")


class Row(Part):
    """What one attacker read."""

    attacker: AttackerKind = Field(
        description="undefended: of the plain gradients; unaware, rule, learnt: of the defended updates; "
        "noise: of the plain gradients with normal noise of the energy of what the defense changes, or that costs a "
        "training as much; rounds: of the mean of what a client sends in several rounds, where the defense draws"
    )
    by: str = Field(description="the search, and what it knows")
    seconds: Seconds
    psnr: Decibels | None = Field(
        description="mean over updates, and their images, in dB, rounded to 0.01; at most 150; null of sentences"
    )
    tokens: Points | None = Field(None, description="percent of a sentence's tokens that stand at their place")
    each: list[Score] = Field(description="PSNR of each update, or percent of its tokens")
    gain: Score = Field(description="mean over that of the best guess of the same update, in the unit")
    low: Score | None = Field(description="end of the gain's interval; null where one update tells nothing of it")
    high: Score | None = Field(description="the other end")
    labels: int | None = Field(ge=0, description="labels that were right; null where they were told, or none was read")


class NotRun(Part):
    """An attacker who failed, and has no numbers."""

    attacker: AttackerKind
    by: str
    seconds: Seconds
    not_run: str = Field(alias="not run", description="why")


class Price(Part):
    """What the defense costs in short paired trainings."""

    network: str | None = Field(None, description="what was trained; null where it is the network that was attacked")
    pairs: int = Field(description="trainings with and without it, from the same weights and on the same batches")
    rounds: int
    clients: int
    without: Points = Field(description="mean test accuracy without it")
    accuracy: Points = Field(description="the same with it")
    lost: Points = Field(description="mean of the paired differences")
    low: Points = Field(description="end of its Student interval")
    high: Points = Field(description="the other end")
    milliseconds: Milliseconds = Field(description="of the defense in one step of one client")
    gradient_milliseconds: Milliseconds = Field(description="of the gradient itself")
    bytes: int = Field(description="of one update in float32; where most is zero, of the rest and its places")
    bytes_without: int
    noise: float | None = Field(
        description="deviation of noise that costs as much; null where no cost was measured, or none does"
    )


class Network(Part):
    """What was found on one network."""

    updates: int = Field(ge=0, description="that were attacked; 0 where it was cut off before")
    samples: int = Field(1, ge=1, description="images of an update; labels of several are told to attackers")
    facts: list[str] = Field(description="what the defense does, by experiment")
    unit: Literal["dB", "%"] = Field("dB", description="of all that is read: PSNR of images, or tokens of sentences")
    guess_psnr: Decibels | None = Field(description="mean PSNR of the best guesses")
    guess_tokens: Points | None = Field(None, description="the same of sentences, in percent of their tokens")
    control: bool | None = Field(
        description="whether a guest that does nothing sent the gradients to the bit; null where it was not asked"
    )
    rows: list[Row | NotRun]
    price: Price | None = Field(description="null on networks where it is not asked")
    complete: bool = Field(description="all attackers had their turn")
    verdict: Word


class CardData(Part):
    """A card: what of a defense is read by attackers, with a word and what it rests on."""

    schema_: Literal["leaklab-card/1"] = Field(alias="schema")
    subject: Subject
    seed: int = Field(description="of everything that is drawn")
    versions: Versions
    warnings: list[Doubt]
    arenas: dict[str, dict[str, Network]] = Field(description="arena -> network -> what was found")
    ended: Literal["complete", "budget", "interrupted"] = Field(description="why it ended when it did")
    verdict: Word = Field(description="that of the worst network")
    status: int = Field(ge=0, description="exit status of `leaklab try` for this word")
    sentence: str = Field(description="the verdict and what it rests on; who was tried where it stood")
    not_measured: list[str] = Field(alias="not measured")


def schema() -> dict[str, Any]:
    """Return the JSON schema of a card."""
    return CardData.model_json_schema(by_alias=True)
