"""A check that cannot fail, or cannot hold, is refused: it says nothing about any paper.

Each check is asked of many made-up results. Their numbers are flat, or grow and fall along keys, or decay along curves,
or are the check's own constants and their neighbors. One that gives the same answer on all of them is refused.
"""

import ast
import hashlib
import math
import random
from pathlib import Path

import pytest

from leaklab.report.judge.claims import Claim, read_claims
from leaklab.report.judge.draws import Unanswered, outcome_of
from leaklab.report.judge.estimates import Estimate
from leaklab.report.judge.evidence import Evidence
from leaklab.report.judge.indexed import Indexed
from leaklab.report.judge.tolerances import Tolerances
from leaklab.report.numbers.results import ResultRow, ResultTable
from leaklab.report.numbers.words import NumberMissingError

ROOT = Path(__file__).parents[3]
PAPERS = ROOT / "config/papers"
TRIES = 3000
POINTS = 30
UNDEFENDED = ("none", "fedavg", "vanilla", "vanilla-scheme1", "vanilla-scheme2", "vanilla-scaled")


class Row(dict):
    """A made-up row: it has every key."""

    def __missing__(self, key):
        return key in ("modified", "collision") or f"another {key}"


class MadeUp:
    """Answers every question of the claims' language with numbers of one family, the same question always alike."""

    def __init__(self, seed, constants, rows, measured=None, points=None):
        self.draw = random.Random(seed)
        self.seed, self.rows, self.measured = seed, rows, measured
        self.points = points or {}
        self.family = self.draw.choice(("flat", "keys", "keys", "any", "own", "own"))
        self.ignored = self.draw.choice(("", "perturbation", "dataset", "model"))
        self.pool = [0.0, 1.0, *(c * f for c in constants for f in (1, 0.999, 1.001, 0.5, 2, 10, -1, -10))]
        self.slopes = {}

    def questions(self):
        return {"T": self.one, "F": self.one, "sd": self.sd, "V": self.every, "D": self.differences, "S": self.series}

    def one(self, item, metric, /, **keys):
        return self._held("T", item, metric, keys) or Estimate.exact(self.number(item, metric, keys))

    def sd(self, item, metric, /, **keys):
        return Estimate.exact(abs(self.number(item, f"sd {metric}", keys)))

    def every(self, item, metric, /, **keys):
        return [(row, self.one(item, metric, **{**keys, **row})) for row in self._rows_of(item, metric, keys)]

    def differences(self, item, metric, key, a, b, /, **keys):
        return [
            (row, Estimate.exact(self.number(item, f"difference {metric}", {**keys, **row})))
            for row in self._rows_of(item, metric, keys)
        ]

    def series(self, item, series, /, **keys):
        held = self._held("S", item, series, keys)
        return held or [Estimate.exact(value) for value in self.curve(item, series, keys)]

    def number(self, item, metric, keys):
        told = sorted((k, str(v)) for k, v in keys.items() if k != self.ignored)
        if "difference" in keys or metric.startswith("difference "):  # alone among all numbers these may be negative
            return self.amount(item, metric, keys, told) * self.of("sign", item, metric, told).choice((1, -1))
        return self.amount(item, metric, keys, told)

    def amount(self, item, metric, keys, told):
        own = self.of(item, metric)
        if self.family == "flat":
            return own.choice([0.0, 1e-9, 0.3, 0.6, 5.0, 60.0])
        if self.family == "own":
            return self.of(item, metric, told).choice(self.pool)
        scale = 10 ** own.uniform(-6, 3)
        if self.family == "any":
            return scale * 10 ** self.of(item, metric, told).uniform(-2, 2)
        return scale * (2 + sum(self.slope(key, value) for key, value in keys.items() if key != self.ignored))

    def slope(self, key, value):
        """Return what a key adds to a number: along its values if they are numbers, any amount for a name."""
        if isinstance(value, bool | str):
            return self.of(key, str(value)).uniform(-0.5, 0.5)
        return self.of(key).uniform(-0.5, 0.5) * math.log1p(abs(value) * 1000)

    def curve(self, item, series, keys):
        own = self.of(item, series, sorted(map(str, keys.items())))
        kind = own.choice(("decay", "power", "noise", "line"))
        scale, rate, floor = 10 ** own.uniform(-3, 3), own.uniform(-0.5, 2), 10 ** own.uniform(-4, -1)
        shape = {
            "decay": lambda i: math.exp(-rate * i) + floor, "power": lambda i: (i + 1) ** -rate,
            "noise": lambda i: own.random() + floor, "line": lambda i: (i + 1) * abs(rate) + floor,
        }[kind]  # fmt: skip
        return [scale * shape(i) for i in range(self.points.get((item, series), POINTS))]

    def of(self, *name):
        """Return draws that belong to a name and to this seed."""
        return random.Random(hashlib.sha256(repr((self.seed, *name)).encode()).digest())

    def _rows_of(self, item, metric, keys):
        rows = self.rows.get((item, metric)) or [Row(k=1), Row(k=2)]
        return [row for row in rows if all(row[key] == value for key, value in keys.items() if key in row)]

    def _held(self, question, item, metric, keys):
        """Return the measured number of a row without defense; None for all others."""
        undefended = keys.get("defense") == "none" or keys.get("method") in UNDEFENDED
        if self.measured is None or not undefended:
            return None
        try:
            return getattr(self.measured, question)(item, metric, **keys)
        except NumberMissingError:
            return None


def lengths(measured):
    """Return how many points each measured undefended curve has."""
    found = {}
    for row in measured.results.table.rows if measured else ():
        if row.is_point and row.row.get("defense") == "none" and row.attacker not in ("knowing", "blind"):
            found[row.item, row.metric] = found.get((row.item, row.metric), 0) + 1
    return found


def constants_of(text):
    found = {node.value for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Constant)}
    return sorted(float(value) for value in found if isinstance(value, int | float) and not isinstance(value, bool))


def answers(claim, rows, measured=None, tries=TRIES):
    """Return the truth values that a check takes on made-up results, both as soon as both were seen."""
    check, constants, seen = claim.parsed(claim.check), constants_of(claim.check), set()
    points = lengths(measured)
    for seed in range(tries):
        try:
            truth = check.run(MadeUp(seed, constants, rows, measured, points).questions()).truth
        except (ArithmeticError, ValueError, StopIteration, NumberMissingError):
            continue
        seen.add(truth.point)
        if len(seen) == 2:
            break
    return seen


@pytest.fixture(scope="module")
def claims():
    return read_claims(PAPERS / "claims.csv")


@pytest.fixture(scope="module")
def printed():
    return ResultTable.read_printed(PAPERS / "targets.csv")


@pytest.fixture(scope="module")
def small():
    return sum((ResultTable.read(path) for path in sorted((ROOT / "results/small/lrp").glob("*.csv"))), ResultTable())


@pytest.fixture(scope="module")
def rows(printed, small):
    """The rows that a paper's tables have, so that made-up ones have the same keys."""
    stand_ins = Tolerances.load(PAPERS / "tolerances.yaml").stand_ins.metrics
    found = {}
    for table in (printed, small):
        own = {}
        for row in table.select(variant="as-described").rows:
            if not row.aside and row.attacker not in ("knowing", "blind") and not row.is_point:
                own.setdefault((row.paper, row.item, row.metric), []).append(dict(row.row))
        found = own | found
    for (paper, item, metric), known in list(found.items()):
        for asked, instead in stand_ins.items():
            if metric == instead:
                found[paper, item, asked] = known
    return found


def rows_of(rows, paper):
    return {(item, metric): known for (own, item, metric), known in rows.items() if own == paper}


def test_every_check_can_fail_and_can_hold(claims, rows):
    refused = {claim.id: seen for claim in claims if len(seen := answers(claim, rows_of(rows, claim.paper))) < 2}
    assert refused == {}


@pytest.mark.parametrize(
    "check",
    [
        "1 < 2",
        "T('figure2','mse')*0 <= 1",
        "abs(T('figure2','mse')) >= 0",
        "spearman(S('figure4','loss'),S('figure4','lpips')) >= -1.2",
        "T('table1','acc',m='a') > 1 or T('table1','acc',m='a') <= 1",
        "T('table1','acc') < T('table1','acc')",
        "all(share([v > 1 for _,v in V('table1','acc')]) <= 1 for k in (1,2))",
    ],
)
def test_a_check_with_one_answer_is_refused(check):
    assert len(answers(Claim("X-01", "lrp", "table1", "s", check), {}, tries=300)) < 2


def test_with_the_undefended_numbers_as_measured_every_check_can_still_fail(claims, small, rows):
    """Where the premise holds, the defended numbers alone can make the check fail."""
    stand_ins = Tolerances.load(PAPERS / "tolerances.yaml").stand_ins
    table = Indexed(small)
    refused = set()
    for claim in claims:
        if claim.paper != "lrp" or claim.about not in ("protection", "attack"):
            continue
        evidence = Evidence(table, stand_ins=stand_ins.of(claim.id), as_they_are=True)
        premise = outcome_of(claim, claim.premise, evidence)
        if isinstance(premise, Unanswered) or not premise.truth.point:
            continue
        refused |= set() if False in answers(claim, rows_of(rows, "lrp"), evidence) else {claim.id}
    assert refused == set()


def test_the_agreement_of_curves_is_asked_only_where_it_is_there_without_defense(claims, rows):
    """Where loss and distance run apart without defense, of images the generator can draw, LRP-20 is not asked."""
    claim = next(claim for claim in claims if claim.id == "LRP-20")

    def premise(drawn, planted):
        found = {"": drawn, "planted": planted}
        keys = [{"defense": "none", **({"selection": name} if name else {})} for name in found]
        own = [ResultRow("lrp", "figure4", key, "rho_lpips_median", value)
               for key, value in zip(keys, found.values(), strict=True)]  # fmt: skip
        return outcome_of(claim, claim.premise, Evidence(Indexed(ResultTable(tuple(own))), as_they_are=True)).truth

    assert premise(0.8, 0.95).point
    assert premise(-0.95, 0.95).point  # images of the data set say what the generator can draw, not what a loss shows
    assert not premise(0.8, 0.2).point
    assert answers(claim, rows_of(rows, "lrp"), tries=200) == {True, False}
