"""A second, plain program comes to the same verdicts by the rules of docs/verdicts.md.

It reads the published CSV files and the catalogue of claims, and shares no code with ``report/judge``: numbers are
triples, and a check is handed to Python three times, with comparisons that ask for what is sure, possible, or said by
the numbers themselves. What that cannot express is counted by hand: the images of LRP-16 and the draws of LRP-04, 05.
"""

import csv
import json
import math
from collections import defaultdict
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
    *("certified", "exact_share", "false_certificate", "label_correct", "label_recovery", "named_by_gradient"),
    *("named_image", "position_recovery", "rouge_l", "token_recovery"),
}
# one of several data sets in a claim of which none is here: the others are judged
NOT_AT_HAND = ("('cifar100',100)", "('femnist',10)", "'cifar100'")


class GoneError(Exception):
    """A number is not there."""


class N:
    mode = "value"

    def __init__(self, value, low, high, curve=""):
        self.value, self.low, self.high, self.curve = value, low, high, curve

    def _with(self, other, do):
        other = number(other)
        curves = {one.curve for one in (self, other) if one.low != one.high}
        alike = len(curves) == 1 and "" not in curves
        pairs = [(self.low, other.low), (self.high, other.high)]
        pairs += [] if alike else [(self.low, other.high), (self.high, other.low)]
        ends = [0.0 if do is times and 0 in pair else do(*pair) for pair in pairs]
        return N(do(self.value, other.value), min(ends), max(ends), curves.pop() if alike else "")

    def __add__(self, other):
        return self._with(other, lambda a, b: a + b)

    def __sub__(self, other):
        return self._with(other, lambda a, b: a - b)

    def __mul__(self, other):
        return self._with(other, times)

    def __rsub__(self, other):
        return number(other) - self

    __radd__, __rmul__ = __add__, __mul__

    def __neg__(self):
        return N(-self.value, -self.high, -self.low)

    def __abs__(self):
        ends = abs(self.low), abs(self.high)
        return N(abs(self.value), 0 if self.low <= 0 <= self.high else min(ends), max(ends))

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


def times(a, b):
    return a * b


def number(value):
    return value if isinstance(value, N) else N(value, value, value)


def asked(difference):
    return {"value": difference.value, "surely": difference.low, "possibly": difference.high}[N.mode]


def ends_of(take):
    def of(*values):
        listed = [number(value) for value in (values if len(values) > 1 else values[0])]
        curves = {one.curve for one in listed if one.low != one.high}
        curve = curves.pop() if len(curves) == 1 else ""
        return N(*(take([getattr(one, end) for one in listed]) for end in ("value", "low", "high")), curve)

    return of


def log(values):
    return [N(*(math.log(end) if end > 0 else -math.inf for end in (v.value, v.low, v.high)), v.curve) for v in values]


def slope(x, y):
    places = [one.value for one in x]
    found = [np.polyfit(places, [getattr(one, end) for one in y], 1)[0] for end in ("value", "low", "high")]
    return N(found[0], min(found), max(found))


def spearman(x, y):
    value = stats.spearmanr([one.value for one in x], [one.value for one in y]).statistic
    sure = all(one.low == one.high for one in (*x, *y))
    return N(value, value, value) if sure else N(value, -1, 1)


def at_lowest(x, y):
    able = [place.value for place, one in zip(x, y, strict=True) if one.low <= min(other.high for other in y)]
    return N(min(zip([v.value for v in y], [v.value for v in x], strict=True))[1], min(able), max(able))


FUNCTIONS = {
    "abs": abs, "all": all, "any": any, "len": len, "sorted": sorted, "zip": zip, "range": range,
    "mean": ends_of(fmean), "median": ends_of(median), "max": ends_of(max), "min": ends_of(min), "sum": ends_of(sum),
    "log": log, "slope": slope, "spearman": spearman, "at_lowest": at_lowest,
    "E_GRID": (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000),
}  # fmt: skip


def read_rows():
    rows = []
    for path in TABLES:
        with path.open(encoding="utf-8", newline="") as file:
            for line in csv.DictReader(file):
                rows += points(line | {"row": json.loads(line["row"])})
    return rows


def points(line):
    """Return the numbers of one line: of a curve one per point, of several images one per image."""
    names, span = ("value", "std", "ci_low", "ci_high", "n", "clusters"), line["row"].get("index")
    first, last = map(int, span.split("-")) if isinstance(span, str) else (span, span)
    images = line["row"].get("image")
    count = len(images) if isinstance(images, list) else 1 if span is None else last - first + 1
    columns = {name: line[name].split(" ") if " " in line[name] else [line[name]] * count for name in names}
    rows = []
    for place in range(count):
        numbers = {name: None if own[place] in ("", "-") else float(own[place]) for name, own in columns.items()}
        index = {"image": images[place]} if isinstance(images, list) else {}
        index |= {} if span is None else {"index": first + place}
        rows.append(line | numbers | {"row": line["row"] | index, "runs": line["runs"].split(" ")[0]})
    return rows


def setting(row):
    gone = {"image", "example", "draw", "index", "by", "tried"}
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
            tried[setting(row)].add(row["row"].get("tried", row["attacker"]))
        if of_attacker(row):
            attackers[setting(row), row["metric"]].add(row["attacker"])
            if row["attacker"] == "knowing" and (row["metric"].endswith("_median") or setting(row) not in runs):
                runs[setting(row)] = row["runs"]
    left = []
    for row in rows:
        own = attackers[setting(row), row["metric"]]
        if of_attacker(row):
            if "knowing" not in own and setting(row) in runs:
                stays = row["runs"] == runs[setting(row)]
            else:
                stays = row["attacker"] == next(name for name in ("knowing", "paper", "blind") if name in own)
            if not stays:
                continue
        keys = {k: v for k, v in row["row"].items() if k != "by"}
        left.append(row | {"row": keys, "contested": len(tried[setting(row)]) > 1})
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
                row for row in (STRONG if keys.get("attacker") == "knowing" else self.rows)[item, name]
                if row["variant"] == self.variant
                and all(row["row"].get(k) == v for k, v in keys.items() if k != "attacker")
                and beside(row) <= keys.keys()
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
        if n < (6 if attack else 2) or (row["std"] is None and row["ci_low"] is None):
            return N(value, -math.inf, math.inf)
        reach = stats.t.ppf(0.975, n - 1) * (row["std"] or 0) / math.sqrt(n)
        low, high = (value - reach, value + reach) if row["ci_low"] is None else (row["ci_low"], row["ci_high"])
        least = -1 if "difference" in row["row"] else 0
        if summarised(row["metric"]) in SHARES and (low == high or low < least or high > 1):
            count = value * n
            if least or abs(count - round(count)) > 1e-5:
                return N(value, -math.inf, math.inf)
            exact = stats.binomtest(round(count), int(n)).proportion_ci(method="exact")
            low, high = exact.low, exact.high
        if row["unit"] == "rounds":
            low, high = math.ceil(low), math.floor(high)
        curve = f"{row['metric']} {setting(row)}" if "index" in row["row"] else ""
        return N(value, min(low, value), max(high, value), curve)

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
        return number(row["std"]) if self.bare else N(row["std"], row["std"] * low, row["std"] * high)

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

    def holds(self, text, mode):
        N.mode = mode
        for name in NOT_AT_HAND:
            text = text.replace(f",{name}", "")
        questions = {
            "T": self.one,
            "F": self.fact,
            "V": self.every,
            "D": self.differences,
            "S": self.series,
            "sd": self.sd,
        }
        return bool(eval(text, {"__builtins__": {}, **FUNCTIONS, **questions}))  # noqa: S307


def summarised(metric):
    return metric.removesuffix("_median").removesuffix("_mean")


def by_metric(rows):
    found = defaultdict(list)
    for row in rows:
        found[row["item"], row["metric"]].append(row)
    return found


ROWS = read_rows()
KNOWN, STRONG = by_metric(ROWS), by_metric(strongest(ROWS))
STAND_INS = yaml.safe_load((PAPERS / "tolerances.yaml").read_text())["stand_ins"]


def word(claim, knowing):
    """Return the verdict's word, and whether more than one attacker was run on what the claim asks for."""
    results = Results(STRONG if knowing else KNOWN, ROWS, claim, knowing=knowing)
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
    """LRP-16: the share of images that are farthest under LRP, with Wilson's interval, against 0.7."""
    rows = results.find("figure3", "lpips_vgg", {})
    images = sorted({row["row"]["image"] for row in rows})
    most = []
    for image in images:
        values = defaultdict(list)
        for row in rows:
            if row["row"]["image"] == image:
                values[row["row"]["defense"]].append(row["value"])
        most.append(fmean(values.pop("lrp")) >= max(max(found) for found in values.values()))
    low, high = stats.binomtest(sum(most), len(most)).proportion_ci(method="wilson")
    return low >= 0.7, high >= 0.7


def with_draws(claim, surely, possibly):
    text = claim["check"] if claim["check_per_draw"] == "same" else claim["check_per_draw"]
    draws = sorted({row["variant"] for row in ROWS if row["item"] == claim["item"]} - {"as-described"})
    if not text or not draws:
        return surely, possibly
    assert len(draws) == 10
    tables = [Results(KNOWN, ROWS, claim, variant=draw, bare=True) for draw in draws]
    holds = sum(table.holds(text, "value") for table in tables)
    fails = sum(table.holds(PLACES[claim["id"]], "value") for table in tables) if holds <= 1 else 0
    needed = min(k for k in range(11) if stats.binom.sf(k - 1, 10, 0.5) <= 0.025)
    if holds >= needed and possibly:
        return True, True
    if fails >= needed and not surely:
        return False, False
    return False, True


# where the claims fail that fail in every draw
PLACES = {
    "LRP-04": "T('table5','test_accuracy',eta1=0.0005,eta2=0.001,perturbation=False)"
    "<T('table5','test_accuracy',eta1=0.0005,eta2=0.002,perturbation=False)",
    "LRP-05": "T('table5','test_accuracy',eta1=0.001,eta2=0.0005,perturbation=True)"
    "-T('table5','test_accuracy',eta1=0.001,eta2=0.0005,perturbation=False)>1",
}


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
    assert len(mine) == 49
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
