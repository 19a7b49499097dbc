"""What attacks take for granted about a client's round, beside what clients of a production system do.

OUTPOST's table II, setting by setting. Of model state, heterogeneity and optimizer it says the same of all attacks; of
epochs (E), samples (n), batches (B) and priors the entries are those that the attacks' own papers state for their
experiments. A mark says whether an attack's assumption leaves room for what practice has.

Source: OUTPOST paper, table II; "Deep Leakage from Gradients"; "iDLG"; "Inverting Gradients"; "See through Gradients".
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar, Literal

from leaklab.records.traits import CheckTraits
from leaklab.theory.base import Check, Clients, Number, Track

EVERY = "all four"
SECRET = ("private labels", "batch statistics")
"""What a server of a production system has no access to."""


@dataclass(frozen=True)
class Assumptions:
    """Of one attack.

    Attributes:
        name: the attack's.
        epochs: E that it can face.
        samples: n that it can face.
        batch: B that it can face.
        priors: what it is given or takes for likely beside the update.
    """

    name: str
    epochs: Literal["1", "≥ 1"]
    samples: Literal["1", "≥ 1", "> 1"]
    batch: Literal["1", "n", "≤ n"]
    priors: tuple[str, ...]

    @property
    def faces_production(self) -> bool:
        """Whether it can face E > 1, n > 1 and B < n."""
        return self.epochs != "1" and self.samples != "1" and self.batch == "≤ n"

    @property
    def has_its_priors(self) -> bool:
        """Whether a server of a production system has all that it is given."""
        return not set(self.priors) & set(SECRET)

    @property
    def counts(self) -> str:
        """E, n and B in one text."""
        pairs = {"E": self.epochs, "n": self.samples, "B": self.batch}
        return ", ".join(f"{name} {value if value[0] in '≥>≤' else f'= {value}'}" for name, value in pairs.items())


ATTACKS = (
    Assumptions("DLG", "1", "≥ 1", "n", ()),
    Assumptions("iDLG", "1", "1", "1", ()),
    Assumptions("csDLG", "≥ 1", "≥ 1", "≤ n", ("private labels", "batch statistics", "smooth images")),
    Assumptions("GradInversion", "1", "> 1", "n", ("batch statistics", "smooth images")),
)


@dataclass(frozen=True)
class Setting:
    """One of those of which print says the same of all attacks.

    Attributes:
        name: of the setting.
        practice: what production has.
        assumed: what attacks were tried with.
        covered: whether that leaves room for what production has.
    """

    name: str
    practice: str
    assumed: str
    covered: bool = False


STATE = Setting("model state", "that of any round", "untrained, explicit wide weights")
DEALS = Setting("heterogeneity", "non-IID", "not fully investigated")
OPTIMIZER = Setting("optimizer", "momentum, weight decay, schedule", "a fixed rate only")
COUNTS, PRIORS, ALL = "epochs E, samples n, batch B", "other priors", "all of these"


@dataclass(frozen=True)
class AttackAssumptions:
    """For each setting and attack, as texts among the keys, whether the assumption holds in practice: 1 or 0."""

    traits: ClassVar[CheckTraits] = CheckTraits(seconds=0.5)

    def run(self, seed: int, clients: Clients | None, track: Track) -> Iterator[Number]:
        """Return one number for each setting and attack, in the order of print; see ``Check``."""
        yield _of_all(STATE)
        for one in ATTACKS:
            practice = "several steps: E ≥ 1, n ≫ 1, B < n"
            yield _number(COUNTS, practice, one.name, one.counts, holds=one.faces_production)
        yield _of_all(DEALS)
        yield _of_all(OPTIMIZER)
        for one in ATTACKS:
            priors = ", ".join(one.priors) or "none"
            yield _number(PRIORS, "not accessible", one.name, priors, holds=one.has_its_priors)
        together = all(setting.covered for setting in (STATE, DEALS, OPTIMIZER))
        for one in ATTACKS:
            yield _number(ALL, "", one.name, "", holds=together and one.faces_production and one.has_its_priors)


def _of_all(setting: Setting) -> Number:
    return _number(setting.name, setting.practice, EVERY, setting.assumed, holds=setting.covered)


def _number(setting: str, practice: str, attack: str, assumed: str, *, holds: bool) -> Number:
    row = {"setting": setting, "practice": practice, "attack": attack, "assumed": assumed}
    return Number("holds_in_practice", float(holds), row)


PLUGIN: type[Check] = AttackAssumptions
