"""Who attacks, where each worker lives and in which environment it runs, and what does not apply."""

from dataclasses import dataclass

from speed.contestants import Contestant

from time_to_picture.cases import Case

OURS, PLAIN, BREACHING = "ours", "plain", "peer_breaching"
PEER = "breaching"
TOGETHER = "-together"


@dataclass(frozen=True)
class Attacker(Contestant):
    """One attacker.

    Attributes:
        attack: which of its worker's.
        together: all updates in one call, side by side; seconds are per update.
        tuned: its smoothing was chosen on held-out images.
    """

    attack: str = ""
    together: bool = False
    tuned: bool = False

    @property
    def ours(self) -> bool:
        """Whether it is one of this project's."""
        return self.module == OURS


_OWN = {
    "exact": "`analytic`, `exact-batch`, `pool-peel` or `residual-peel`, whichever is made for the network",
    "map": "`narrow-map`, 600 evaluations from up to three starts, then `annealed-map`, 100 a stage, then 300; under "
    "Gaussians of the public classes",
    "dlg": "`dlg`, labels searched; by the profiled scale under LRP; `delta-dlg` for several steps",
    "idlg": "`idlg`, labels granted; by the profiled scale under LRP; `csdlg` for several steps",
    "ig": "`ig` in its default setting, 300 steps, then 1,000, 3,000 and 24,000; `csdlg` so for several steps",
}
CONTESTANTS = (
    *(Attacker(f"ours-{name}", OURS, what, attack=name) for name, what in _OWN.items()),
    *(
        Attacker(f"ours-{name}{TOGETHER}", OURS, f"ours-{name}, all updates side by side", attack=name, together=True)
        for name in _OWN
    ),
    Attacker("plain-dlg", PLAIN, "the usual loop: double backward, torch.optim.LBFGS, labels searched", attack="dlg"),
    Attacker("plain-idlg", PLAIN, "the same, labels granted", attack="idlg"),
    Attacker("breaching-analytic", BREACHING, "breaching, 'analytic', labels granted", PEER, attack="analytic"),
    Attacker("breaching-dlg", BREACHING, "breaching, 'deepleakage', labels searched", PEER, attack="dlg"),
    Attacker(
        "breaching-ig",
        BREACHING,
        "breaching, 'invertinggradients', labels granted, its own smoothing; 300 steps, then 1,000, 3,000 and 24,000",
        PEER,
        attack="ig",
    ),
    Attacker(
        "breaching-ig-tuned",
        BREACHING,
        "the same with the smoothing that was best on held-out images",
        PEER,
        attack="ig",
        tuned=True,
    ),
)
_EXACT = ("mlp-1", "mlp-8", "cnn-1", "resnet-1")


def hindrance(case: Case, contestant: Attacker) -> str:
    """Return why a contestant is not made for a case; empty if it is."""
    if contestant.attack == "exact" and case.name not in _EXACT:
        return "no exact reading is known"
    if contestant.attack == "analytic" and not case.name.startswith("mlp"):
        return "made for layers of inputs' size"
    if contestant.module == PLAIN and case.steps > 1:
        return "knows one gradient only"
    return ""
