"""The bound of HyperFL's theorem, and the step size that it needs without saying so.

Source: HyperFL, theorem 1 and equation (11). With eta = min(eta_g, eta_h / 2, eta_v) the proof comes to

    D / (T eta) + L M G^2 eta / 2,

whose least value, at eta = sqrt(2 D / (L M G^2 T)), is the printed 2 sqrt(L M G^2 D / (2 T)). M has to be so large that
eta_g^2 + eta_v^2 + (E - 1) eta_h^2 + (E - 1) / L eta_h <= M eta^2. The least M has eta_g = eta_v = eta, eta_h = 2 eta:

    M = 4 E - 2 + 2 (E - 1) / (L eta).

The last term, of one order less in eta, lets no constant M serve all T unless E = 1: eta falls like 1 / T, M grows like
T, and the bound tends to 2 (E - 1) G^2. Assumption 3 alone says that the mean square is at most 3 G^2.
"""

from dataclasses import dataclass
from math import sqrt


@dataclass(frozen=True)
class Constants:
    """What the theorem assumes.

    Attributes:
        smoothness: L, of every client's loss in all its values together.
        gradient_square: G^2, bound of the mean square of a stochastic gradient of head, hypernetwork or embedding.
        gap: D, by how much a client's first loss is above its least one, at most.
        local_steps: E.
        drift: whether M carries the term (E - 1) / L eta_h.
    """

    smoothness: float
    gradient_square: float
    gap: float
    local_steps: int
    drift: bool = True

    def rate(self, steps: int) -> float:
        """Return eta for T = ``steps``: the root of M(eta) eta^2 = 2 D / (L G^2 T)."""
        square, linear = 4 * self.local_steps - 2, self._drift / 2
        wanted = 2 * self.gap / (self.smoothness * self.gradient_square * steps)
        # the usual formula loses all digits where the linear term is large
        return wanted / (linear + sqrt(linear**2 + square * wanted))

    def rates(self, steps: int) -> dict[str, float]:
        """Return eta_g, eta_h and eta_v, by what they move."""
        rate = self.rate(steps)
        return {"head": rate, "hypernetwork": 2 * rate, "embedding": rate}

    def factor(self, steps: int) -> float:
        """Return M for T = ``steps``."""
        return 4 * self.local_steps - 2 + self._drift / self.rate(steps)

    def bound(self, steps: int) -> float:
        """Return the right side of (11) for T = ``steps``."""
        return 2 * sqrt(self.smoothness * self.factor(steps) * self.gradient_square * self.gap / (2 * steps))

    @property
    def _drift(self) -> float:
        return 2 * (self.local_steps - 1) / self.smoothness if self.drift else 0.0
