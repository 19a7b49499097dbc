"""A second, plain program comes to the same verdicts by the rules of docs/verdicts.md.

It reads the published CSV files and the catalogue of claims, and shares no code with ``report/judge`` or ``metrics``:
numbers are sums of terms, and a check is handed to Python three times, with comparisons that ask for what is sure,
possible, or said by the numbers themselves. Where single images or sentences are published, the ends of their mean and
median are derived from these, by other functions of scipy than the first road's; those of a share come from
``binomtest``. What a check cannot express is counted by hand: the images of LRP-16.
"""

import csv
import json
import math
from collections import defaultdict
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from statistics import fmean, median

import numpy as np
import pytest
import yaml
from scipy import stats

from leaklab.report.judge.claims import read_claims
from leaklab.report.judge.judging import judge_all
from leaklab.report.judge.tolerances import Tolerances
from leaklab.report.numbers.results import ResultTable

ROOT = Path(__file__).parents[3]
PAPERS = ROOT / "config/papers"
TABLES = sorted((ROOT / "results/small/lrp").glob("*.csv"))
SCALE = "small"
SHARES = {
    *("label_correct", "label_recovery", "exact_share", "certified", "false_certificate", "named_image"),
    *("named_by_gradient", "token_recovery", "position_recovery", "rouge_1", "rouge_2", "rouge_l"),
    *("sentences_exact", "sentences_certified"),
}
# one of several data sets in a claim of which none is here: the others are judged
NOT_AT_HAND = ("('cifar100',100)", "('femnist',10)", "'cifar100'")


class GoneError(Exception):
    """A number is not there."""


class N:
    """A number and what its terms may add: of each the gaps below and above, and its data set."""

    mode = "value"
    recorded = None

    def __init__(self, value, terms=()):
        self.value, self.terms = value, tuple(terms)

    @classmethod
    def within(cls, value, low, high, data=""):
        return cls(value, [(value - low, high - value, data)] if low != high else [])

    def reach(self, side):
        of_data = defaultdict(float)
        for term in self.terms:
            of_data[term[2]] += term[side]
        if "" in of_data:  # of nothing known all ends are taken together
            return sum(of_data.values())
        return math.sqrt(sum(gap**2 for gap in of_data.values()))

    @property
    def low(self):
        return self.value - self.reach(0) if self.terms else self.value

    @property
    def high(self):
        return self.value + self.reach(1) if self.terms else self.value

    def __add__(self, other):
        return N(self.value + number(other).value, self.terms + number(other).terms)

    def __mul__(self, other):
        factor = number(other)
        if factor.terms:
            return factor * self.value
        turned = [
            (below, above, data) if factor.value > 0 else (above, below, data) for below, above, data in self.terms
        ]
        size = abs(factor.value)
        return N(self.value * factor.value, [(size * b, size * a, data) for b, a, data in turned] if size else [])

    def __sub__(self, other):
        return self + -number(other)

    def __rsub__(self, other):
        return number(other) - self

    __radd__, __rmul__ = __add__, __mul__

    def __neg__(self):
        return self * -1

    def __abs__(self):
        if self.low <= 0 <= self.high:
            return N.within(abs(self.value), 0, max(-self.low, self.high))
        return self if self.value > 0 else -self

    def __gt__(self, other):
        return asked(self - other) > 0

    def __ge__(self, other):
        return asked(self - other) >= 0

    def __lt__(self, other):
        return asked(number(other) - self) > 0

    def __le__(self, other):
        return asked(number(other) - self) >= 0

    def __eq__(self, other):
        return self >= other and self <= other

    __hash__ = None


def number(value):
    return value if isinstance(value, N) else N(value)


def asked(difference):
    if N.recorded is not None:
        N.recorded.append(difference.value)
        return 1
    return {"value": difference.value, "surely": difference.low, "possibly": difference.high}[N.mode]


def ends_of(take):
    def of(*values):
        listed = [number(value) for value in (values if len(values) > 1 else values[0])]
        return N.within(*(take([getattr(one, end) for one in listed]) for end in ("value", "low", "high")))

    return of


def total(values):
    return sum(values, N(0))


def mean(values):
    return total(values) * (1 / len(values))


def log(values):
    return [N.within(*(math.log(end) if end > 0 else -math.inf for end in (v.value, v.low, v.high))) for v in values]


def slope(x, y):
    weights = np.polyfit([one.value for one in x], np.eye(len(x)), 1)[0]
    return total(height * float(weight) for height, weight in zip(y, weights, strict=True))


def at_lowest(x, y):
    able = [place.value for place, one in zip(x, y, strict=True) if one.low <= min(other.high for other in y)]
    best = min(zip([v.value for v in y], [v.value for v in x], strict=True))[1]
    return N.within(best, min(able), max(able))


@cache
def exact_ends(value, n, std):
    """Return the ends of a share: of zeros and ones from the binomial law, else by trying means one after another."""
    hits = round(value * n)
    if abs(hits - value * n) < 1e-6 and (std is None or abs(std**2 - value * (1 - value) * n / (n - 1)) < 1e-6):
        return tuple(stats.binomtest(hits, n).proportion_ci(method="exact"))
    means = np.linspace(0, 1, 20_001)[1:-1]
    likely = []
    for part, mean in ((value, means), (1 - value, 1 - means)):  # as little as that, or as much
        rare = np.e * stats.binom.cdf(math.ceil(part * n - 1e-6), n, mean)
        relative = stats.entropy(np.array([[part], [1 - part]]), np.array([mean, 1 - mean]))
        likely.append((np.minimum(rare, np.exp(-n * relative)) > 0.025) | (mean <= part))
    able = means[likely[0] & likely[1]]
    return (0.0 if value < 1e-9 else able[0]), (1.0 if value > 1 - 1e-9 else able[-1])


def ends_of_values(values, median):
    """Return the ends of a median by ranks of the binomial law, of a mean by the t test that it passes."""
    if median:
        rank = int(stats.binom.ppf(0.025, len(values), 0.5))
        ordered = sorted(values)
        return ordered[rank - 1], ordered[-rank]
    return tuple(stats.ttest_1samp(values, 0).confidence_interval(0.95))


FUNCTIONS = {
    "abs": abs, "all": all, "any": any, "len": len, "sorted": sorted, "zip": zip, "range": range,
    "mean": mean, "median": ends_of(median), "max": ends_of(max), "min": ends_of(min), "sum": total,
    "log": log, "slope": slope, "at_lowest": at_lowest,
    "E_GRID": (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000),
}  # fmt: skip


def read_rows():
    rows = []
    for path in TABLES:
        with path.open(encoding="utf-8", newline="") as file:
            for line in csv.DictReader(file):
                read = line | {"row": json.loads(line["row"])}
                rows += points(read | {"setting": setting(read)})
    return rows


def points(line):
    """Return the numbers of one line: of a curve one per point, of several images or updates one for each."""
    names, span = ("value", "std", "ci_low", "ci_high", "n", "clusters"), line["row"].get("index")
    first, last = map(int, span.split("-")) if isinstance(span, str) else (span, span)
    unit = next((name for name in ("image", "update") if isinstance(line["row"].get(name), list)), "image")
    images = line["row"].get(unit)
    count = len(images) if isinstance(images, list) else 1 if span is None else last - first + 1
    columns = {name: line[name].split(" ") if " " in line[name] else [line[name]] * count for name in names}
    rows = []
    for place in range(count):
        numbers = {name: None if own[place] in ("", "-") else float(own[place]) for name, own in columns.items()}
        index = {unit: images[place]} if isinstance(images, list) else {}
        index |= {} if span is None else {"index": first + place}
        rows.append(line | numbers | {"row": line["row"] | index, "runs": line["runs"].split(" ")[0]})
    return rows


def setting(row):
    gone = {"image", "update", "example", "draw", "index", "by", "tried"}
    keys = {k: v for k, v in row["row"].items() if k not in gone}
    return row["item"], summarised(row["metric"]), row["variant"], json.dumps(keys, sort_keys=True)


def beside(row):
    return {"selection", "tried", "difference"} & row["row"].keys()


def of_attacker(row):
    own = row["row"].get("difference") in ("attack - best guess", "defended - undefended") or not beside(row)
    return bool(row["attacker"]) and own


def strongest(rows):
    """Leave in each setting the rows of the knowing attacker, and mark the settings in which several were tried."""
    attackers, runs, tried = defaultdict(set), {}, defaultdict(set)
    for row in rows:
        if "tried" in row["row"] or (row["attacker"] and "index" in row["row"]):
            tried[row["setting"]].add(row["row"].get("tried", row["attacker"]))
        if of_attacker(row):
            attackers[row["setting"], row["metric"]].add(row["attacker"])
            if row["attacker"] == "knowing" and (row["metric"].endswith("_median") or row["setting"] not in runs):
                runs[row["setting"]] = row["runs"]
    left = []
    for row in rows:
        own = attackers[row["setting"], row["metric"]]
        if of_attacker(row):
            if "knowing" not in own and row["setting"] in runs:
                stays = row["runs"] == runs[row["setting"]]
            else:
                stays = row["attacker"] == next(name for name in ("knowing", "paper", "blind") if name in own)
            if not stays:
                continue
        keys = {k: v for k, v in row["row"].items() if k != "by"}
        left.append(row | {"row": keys, "contested": len(tried[row["setting"]]) > 1})
    return left


class Results:
    """The questions of the claims' language, on rows of one kind."""

    def __init__(self, rows, everyone, claim, variant="as-described", bare=False, knowing=False):
        self.rows, self.everyone, self.variant, self.bare, self.knowing = rows, everyone, variant, bare, knowing
        self.stand_ins = {} if claim["id"] in STAND_INS["not_for"] else STAND_INS["metrics"]
        self.contested = False

    def find(self, item, metric, keys, points=False):
        for name in (metric, self.stand_in(metric)):
            rows = [
                row for row in (published().strong if keys.get("attacker") == "knowing" else self.rows)[item, name]
                if row["variant"] == self.variant
                and all(row["row"].get(k) == v for k, v in keys.items() if k != "attacker")
                and beside(row) <= keys.keys() and ("update" not in row["row"] or "update" in keys)
                and (self.knowing or "attacker" in keys or row["attacker"] in ("", "paper"))
            ]  # fmt: skip
            rows = [row for row in rows if ("index" in row["row"]) == points] or rows
            if any(row["value"] is not None or row["note"].startswith("capped") for row in rows):
                self.contested |= any(row.get("contested") for row in rows)
                return rows
        raise GoneError(item, metric, keys)

    def stand_in(self, metric):
        for own, other in self.stand_ins.items():
            if metric in (own, f"{own}_median", f"{own}_mean"):
                return metric.replace(own, other)
        return ""

    def n(self, row):
        value = row["value"]
        if value is None and row["note"].startswith("capped"):
            return number(math.inf if row["better"] == "lower" else -math.inf)
        if value is None:
            raise GoneError(row)
        if row["n"] is None or self.bare:
            return number(value)
        n, attack = row["clusters"], row["attacker"] or beside(row)
        data = str(row["row"].get("dataset", ""))
        if n < (6 if attack else 2) or (row["std"] is None and row["ci_low"] is None):
            return N.within(value, -math.inf, math.inf, data)
        low, high = ends(row, value, int(n))
        if "difference" in row["row"] and summarised(row["metric"]) in SHARES and (low == high or low < -1 or high > 1):
            return N.within(value, -math.inf, math.inf, data)
        if row["unit"] == "rounds":
            low, high = math.ceil(low), math.floor(high)
        return N.within(value, min(low, value), max(high, value), data)

    def one(self, item, metric, **keys):
        rows = self.find(item, metric, keys)
        if len(rows) != 1:
            raise GoneError(item, metric, keys)
        return self.n(rows[0])

    def fact(self, item, metric, **keys):
        return number(self.one(item, metric, **keys).value)

    def sd(self, item, metric, **keys):
        (row,) = self.find(item, metric, keys)
        low, high = (math.sqrt(2 / stats.chi2.ppf(level, 2)) for level in (0.975, 0.025))
        assert row["n"] == 3
        return number(row["std"]) if self.bare else N.within(row["std"], row["std"] * low, row["std"] * high)

    def every(self, item, metric, **keys):
        return [(row["row"], self.n(row)) for row in self.find(item, metric, keys)]

    def differences(self, item, metric, key, a, b, **keys):
        pairs = []
        for row in self.find(item, metric, keys | {key: a}):
            rest = {k: v for k, v in row["row"].items() if k != key}
            try:
                pairs.append((rest, self.one(item, metric, **rest, **{key: b}) - self.n(row)))
            except GoneError:
                assert rest["dataset"] in ("cifar100", "femnist")
        return pairs

    def series(self, item, metric, **keys):
        rows = sorted(self.find(item, metric, keys, points=True), key=lambda row: row["row"]["index"])
        assert len({row["row"]["index"] for row in rows}) == len(rows)
        return [self.n(row) for row in rows]

    def margins(self, text):
        """Return how far each comparison of a check lies on its side, in the order of asking."""
        N.recorded = []
        try:
            self.holds(text, "value")
            return N.recorded
        finally:
            N.recorded = None

    def holds(self, text, mode):
        N.mode = mode
        for name in NOT_AT_HAND:
            text = text.replace(f",{name}", "")
        questions = {
            "T": self.one, "F": self.fact, "V": self.every, "D": self.differences, "S": self.series, "sd": self.sd,
        }  # fmt: skip
        return bool(eval(text, {"__builtins__": {}, **FUNCTIONS, **questions}))  # noqa: S307


def summarised(metric):
    return metric.removesuffix("_median").removesuffix("_mean")


def ends(row, value, n):
    """Return the ends of a number's interval: of a share its own, else from single values or as they are published."""
    if summarised(row["metric"]) in SHARES and not row["metric"].endswith("_median") and "difference" not in row["row"]:
        return exact_ends(value, n, row["std"])
    if "difference" not in row["row"] and "selection" not in row["row"]:
        values = [take for _, take in sorted(published().singles.get((row["setting"], row["runs"]), {}).items())]
        is_median = row["metric"].endswith("_median")
        if len(values) == n and math.isclose((median if is_median else fmean)(map(fmean, values)), value, rel_tol=1e-6):
            return ends_of_values([fmean(own) for own in values], is_median)
    if row["ci_low"] is not None:
        return row["ci_low"], row["ci_high"]
    reach = stats.t.ppf(0.975, n - 1) * (row["std"] or 0) / math.sqrt(n)
    return value - reach, value + reach


def singles_of(rows):
    """Return the values of each image or sentence over its draws, by setting and runs."""
    found = defaultdict(lambda: defaultdict(list))
    for row in rows:
        name = next((row["row"][key] for key in ("image", "update", "example") if key in row["row"]), None)
        if name is not None and row["value"] is not None and not beside(row) and "index" not in row["row"]:
            found[row["setting"], row["runs"]][name].append(row["value"])
    return found


def by_metric(rows):
    found = defaultdict(list)
    for row in rows:
        found[row["item"], row["metric"]].append(row)
    return found


@dataclass(frozen=True)
class Tables:
    """What is published: all lines, those of single images or sentences, and those by metric, of whom they ask."""

    rows: list
    singles: dict
    known: dict
    strong: dict


@cache
def published():
    rows = read_rows()
    return Tables(rows, singles_of(rows), by_metric(rows), by_metric(strongest(rows)))


STAND_INS = yaml.safe_load((PAPERS / "tolerances.yaml").read_text())["stand_ins"]


def word(claim, knowing):
    """Return the verdict's word, and whether more than one attacker was run on what the claim asks for."""
    tables = published()
    results = Results(tables.strong if knowing else tables.known, tables.rows, claim, knowing=knowing)
    try:
        surely, possibly = farthest_images(results) if claim["id"] == "LRP-16" else (
            results.holds(claim["check"], mode) for mode in ("surely", "possibly")
        )  # fmt: skip
        premise, sure_premise = (results.holds(claim["premise"], mode) for mode in ("value", "surely"))
    except GoneError:
        return "not run", results.contested
    if not premise:
        return "no premise", results.contested
    surely, possibly = with_draws(claim, surely, possibly)
    if surely != possibly or not sure_premise:
        return "undecided", results.contested
    return ("reproduced" if surely else "not reproduced"), results.contested


def farthest_images(results):
    """LRP-16: the share of images that are farthest under LRP, with its exact interval, against 0.7."""
    rows = results.find("figure3", "lpips_vgg", {})
    images = sorted({row["row"]["image"] for row in rows})
    most = []
    for image in images:
        values = defaultdict(list)
        for row in rows:
            if row["row"]["image"] == image:
                values[row["row"]["defense"]].append(row["value"])
        most.append(fmean(values.pop("lrp")) >= max(max(found) for found in values.values()))
    low, high = stats.binomtest(sum(most), len(most)).proportion_ci(method="exact")
    return low >= 0.7, high >= 0.7


def with_draws(claim, surely, possibly):
    """Every comparison is a series of margins over the draws; where a t test puts their mean is what they say of it."""
    text, _, tie = claim["check_per_draw"].partition(" within ")
    text, tie = claim["check"] if text == "same" else text, float(tie or 0)
    tables = published()
    draws = sorted({row["variant"] for row in tables.rows if row["item"] == claim["item"]} - {"as-described"})
    if not text or not draws:
        return surely, possibly
    assert len(draws) == 10
    series = np.array(
        [Results(tables.known, tables.rows, claim, variant=draw, bare=True).margins(text) for draw in draws]
    ).T
    means = [stats.ttest_1samp(own, 0).confidence_interval(0.95) for own in series]
    if all(low > -tie for low, _ in means) and possibly:
        return True, True
    if any(high < -tie for _, high in means) and not surely:
        return False, False
    return False, True


@pytest.fixture(scope="module")
def catalogue():
    with (PAPERS / "claims.csv").open(encoding="utf-8", newline="") as file:
        return [line for line in csv.DictReader(file) if line["paper"] == "lrp"]


@pytest.fixture(scope="module")
def verdicts():
    results = sum((ResultTable.read(path) for path in TABLES), ResultTable())
    claims = [claim for claim in read_claims(PAPERS / "claims.csv") if claim.paper == "lrp"]
    stand_ins = Tolerances.load(PAPERS / "tolerances.yaml").stand_ins
    printed = ResultTable.read_printed(PAPERS / "targets.csv")
    return {verdict.id: verdict for verdict in judge_all(claims, results, printed, stand_ins, SCALE)}


def test_both_roads_say_the_same_of_every_claim_of_lrp(catalogue, verdicts):
    mine = {claim["id"]: word(claim, knowing=False)[0] for claim in catalogue}
    assert len(mine) == 75
    assert mine == {name: verdict.verdict for name, verdict in verdicts.items()}


def test_both_roads_say_the_same_under_the_strongest_attacker(catalogue, verdicts):
    mine = {}
    for claim in catalogue:
        verdict, contested = word(claim, knowing=True)
        mine[claim["id"]] = verdict if contested else None
    assert mine == {name: verdict.knowing and verdict.knowing.verdict for name, verdict in verdicts.items()}


def test_a_verdicts_line_says_what_was_needed_and_found_or_why_not(verdicts):
    for verdict in verdicts.values():
        own = verdict.judgement
        if own.verdict == "not run":
            assert own.sentence.startswith(own.reason)
        else:
            assert ("needed: " in own.sentence and "; found: " in own.sentence) or "this is" in own.sentence
        if own.verdict == "undecided":
            assert own.reason in own.sentence


def test_every_claim_on_stand_ins_says_so_in_its_line(verdicts):
    for verdict in verdicts.values():
        assert ("on stand-ins: " in verdict.judgement.sentence) == bool(verdict.substitutes)
