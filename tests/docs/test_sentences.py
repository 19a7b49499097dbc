"""Every generated sentence that says hides, reads, none, all or not broken is held against the table of its item.

The tables are read here as plain CSV files; nothing of ``report/judge`` or of the pages' own arithmetic is used.
"""

import csv
import json
import re
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
import yaml
from scipy import stats

from leaklab.report.site import site
from leaklab.report.site.documents import documents

ROOT = Path(__file__).parents[2]
SMALL = ROOT / "results/small"
CLAIMS_MUCH = re.compile(r"\b(?:hides?|hidden|reads?|recovers?|none|nothing|all|not broken)\b", re.IGNORECASE)
UNBROKEN = re.compile(
    r"Not broken by the attackers tried: (?P<row>.+?)[;,] (?P<left>\d+) %(?: of the protection)? left "
    r"\((?P<low>\d+) to (?P<high>\d+)\)\. Tried: (?P<tried>.+?)\.(?= |$)"
)


BOUND = re.compile(
    r"Not to be broken by any attacker: (?P<row>.+?); no attacker can: total variation between any two images at most "
    r"(?P<variation>[\d.]+) %, so who guesses which of two it was is right (?P<right>[\d.]+) % of the time at most\."
)


@pytest.fixture(scope="module")
def data(published):
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(ROOT)
        yield published


@pytest.fixture(scope="module")
def texts(data, tmp_path_factory):
    """Every generated text: documents by path, pages of the site by file name, one line each."""
    folder = tmp_path_factory.mktemp("site")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(ROOT)
        found = {path.as_posix(): text for path, text in documents(data).items()}
        site.build(with_figures_that_are_here(data), folder)
    for page in sorted(folder.glob("*.html")):
        found[page.name] = re.sub(r"<[^>]+>", "", page.read_text(encoding="utf-8")).replace("&#39;", "'")
    return {name: " ".join(text.split()) for name, text in found.items()}


def with_figures_that_are_here(data):
    """Return the pages without the drawings that only a build of the report makes."""
    papers = [
        replace(paper, items=tuple(
            replace(page, pictures=tuple(picture for picture in page.pictures if picture.path.is_file()))
            for page in paper.items
        ))
        for paper in data.papers
    ]  # fmt: skip
    return replace(data, papers=tuple(papers))


def rows_of(paper, item):
    with (SMALL / paper / f"{item}.csv").open(encoding="utf-8", newline="") as file:
        return [line | {"row": json.loads(line["row"])} for line in csv.DictReader(file)]


def value_of(rows, metric, attacker, keys):
    """Return the one row of an attacker with just these keys beside his attack's name."""
    found = [
        row
        for row in rows
        if (row["metric"], row["attacker"], row["variant"]) == (metric, attacker, "as-described")
        and all(row["row"].get(key) == value for key, value in keys.items())
        and {"selection", "tried", "difference", "image", "update"} & row["row"].keys() <= keys.keys()
    ]
    assert len(found) == 1, (metric, attacker, keys, len(found))
    return found[0]


def guesses(rows, line):
    keys = line["row"] | line["undefended"]
    here = {row["row"].get("selection") for row in rows if row["metric"] == line["metric"] and row["attacker"] == ""}
    return [
        float(value_of(rows, line["metric"], "", keys | {"selection": name})["value"])
        for name in line["guesses"]
        if name in here
    ]


def left(undefended, defended, guess):
    return (float(defended["value"]) - float(undefended["value"])) / (guess - float(undefended["value"]))


def expected(paper, headline):
    """Return whom the tables say the defense hides from: the paper's attackers by line, the knowing ones by name."""
    own, knowing = {}, {}
    for line in headline["lines"]:
        rows = rows_of(paper, line["item"])
        best = min if line["metric"].startswith("mse") else max
        guess = best(guesses(rows, line))
        for who, found in (("paper", own), ("knowing", knowing)):
            before, after = (
                value_of(rows, line["metric"], who, line["row"] | line[kind]) for kind in ("undefended", "defended")
            )
            # one attack with other settings, which stand in brackets, is one attacker
            name = line["attacker"] if who == "paper" else re.sub(r" \([^()]*\)$", "", after["row"]["by"])
            found.setdefault(name, []).append(left(before, after, guess) >= 0.5)
    return own, knowing


HEADLINES = yaml.safe_load((ROOT / "config/papers/headlines.yaml").read_text(encoding="utf-8"))


@pytest.mark.parametrize("paper", sorted(HEADLINES))
def test_an_answer_says_what_its_tables_say_and_is_the_same_everywhere(paper, data, texts):
    headline = HEADLINES[paper]
    sentence = next(own.answer.sentence for own in data.papers if own.key == paper)
    for name in ("README.md", "docs/findings.md", "results/small/README.md", "index.html", f"{paper}.html"):
        assert sentence in texts[name], name
    assert sentence.startswith(f"With {headline['setting']}, {headline['defense']} hides ")
    own, knowing = expected(paper, headline)
    told, known = re.fullmatch(r"With .*? hides (.*), and ((?:not )?from .*)\.", sentence).groups()
    for name, hidden in own.items():
        said = re.search(rf"(not )?from (?:[^,]*? and )?(?:[\w ]+ \([^)]*\), )*{re.escape(name)}\b", told)
        assert said, (name, told)
        assert (said[1] is None) == all(hidden), (name, told)
        assert len(set(hidden)) == 1, "several lines of one attacker differ: this test has to learn their sentence"
    summaries = {(one["attacker"], "in the median" if one["metric"].endswith("_median") else "on average")
                 for one in headline["lines"]}  # fmt: skip
    assert all(f"{name} ({summary})" in told for name, summary in summaries)
    number, everybody = sum(all(hidden) for hidden in knowing.values()), len(knowing)
    if everybody == 1:
        assert known.startswith("from the attacker" if number else "not from the attacker")
    else:
        count = "all" if number == everybody else f"{number or 'none'} of"
        assert known.startswith(f"from {count} the {everybody} attackers who know")


def unbroken_of(paper, item):
    """Return (left, low, high, number of attacks) of each setting that the strongest attacker surely leaves half."""
    rows = [row for row in rows_of(paper, item) if row["variant"] == "as-described"]
    tried = Counter()
    for row in rows:
        if "tried" in row["row"]:
            keys = {key: value for key, value in row["row"].items() if key != "tried"}
            tried[json.dumps(keys, sort_keys=True), row["metric"]] += 1
    found = []
    for row in rows:
        known = row["metric"] == "protection_left" and row["attacker"] == "knowing"
        if not known or " " in row["ci_low"] or not row["ci_low"] or float(row["ci_low"]) <= 50:
            continue
        keys = json.dumps({key: value for key, value in row["row"].items() if key != "by"}, sort_keys=True)
        number = max((count for (own, _), count in tried.items() if own == keys), default=0)
        if number > 1:
            ends = [min(max(float(row[name]), 0), 100) for name in ("value", "ci_low", "ci_high")]
            found.append((*(f"{end:.0f}" for end in ends), number))
    return Counter(found)


def told_unbroken(text):
    return Counter(
        (found["left"], found["low"], found["high"], len(found["tried"].split("; ")))
        for found in UNBROKEN.finditer(text)
    )


def test_not_broken_is_said_of_just_the_settings_that_the_tables_leave_half(data, texts):
    sections = re.split(r"(?=<summary>\S+: )", texts["docs/findings.md"])
    of_item = {re.match(r"<summary>(\S+): ", part)[1] + part: part for part in sections if part.startswith("<summary>")}
    seen = Counter()
    for paper in data.papers:
        for page in paper.done:
            wanted = unbroken_of(page.paper, page.item)
            told, proven = told_unbroken(texts[f"{page.name}.html"]), BOUND.findall(texts[f"{page.name}.html"])
            assert told <= wanted, page.name
            assert told.total() + len(proven) == wanted.total(), page.name
            seen += told
    assert sum((told_unbroken(part) for part in of_item.values()), Counter()) == seen
    assert sum(seen.values()) > 0


def test_what_nobody_can_break_has_clip_and_noise_that_say_so(texts):
    """HyperFL's noise is 10.62 clips on one step, twice the clip apart: two normal laws that nearly coincide."""
    variation = 2 * stats.norm.cdf(1 / 10.62) - 1
    said = BOUND.findall(texts["docs/findings.md"])
    assert {(share, right) for _, share, right in said} == {(f"{100 * variation:.1f}", f"{50 + 50 * variation:.1f}")}
    methods = {row.rpartition(", ")[2] for row, _, _ in said}
    assert methods == {"DP-FedAvg", "PPSGD", "CENTAUR", "DP-SGD"}


def test_a_finding_that_says_much_has_to_hold_in_its_table():
    findings = yaml.safe_load((ROOT / "config/papers/findings.yaml").read_text(encoding="utf-8"))
    bare = [
        (paper, item, one["says"][:60])
        for paper, items in findings.items()
        for item, own in items.items()
        for one in own
        if CLAIMS_MUCH.search(re.sub(r"\{[^{}]*\}", "", one["says"])) and not one.get("holds")
    ]
    # "Three seeds decide none of it" is what the verdicts below it say
    assert [found[:2] for found in bare] == [("lrp", "table2")]


def test_nobody_is_said_to_read_what_ends_no_nearer_than_a_guess(texts):
    said = re.findall(r"[^.*]*\breads? [^.]*13\.[56] dB[^.]*", texts["docs/findings.md"])
    assert not [text for text in said if "PPSGD" in text or "CENTAUR" in text]


def test_the_count_of_claims_of_protection_is_that_of_the_verdicts(texts):
    verdicts = {one["id"]: one for one in json.loads((SMALL / "verdicts.json").read_text(encoding="utf-8"))}
    with (ROOT / "config/papers/claims.csv").open(encoding="utf-8", newline="") as file:
        protection = [line for line in csv.DictReader(file) if line["about"] == "protection"]
    for paper in sorted({line["paper"] for line in protection}):
        own = [verdicts[line["id"]] for line in protection if line["paper"] == paper]
        strongest = Counter((one["knowing"] or one["judgement"])["verdict"] for one in own)
        printed = sum(one["judgement"]["verdict"] == "reproduced" for one in own)
        found = re.search(
            r"Of (\d+) claims of protection (\w+) (?:is|are) reproduced against the strongest attacker.*?"
            r"Against the attacker of the paper (\w+) (?:is|are)\.", texts[f"{paper}.html"],
        )  # fmt: skip
        if found is None:
            assert strongest["not run"] == len(own)
            continue
        words = {"none": 0}
        counts = [words.get(word) if word in words else int(word) for word in found.groups()]
        assert counts == [len(own), strongest["reproduced"], printed], paper


def test_a_verdicts_line_in_the_findings_has_the_word_of_the_verdicts(texts):
    verdicts = {one["id"]: one["judgement"]["verdict"] for one in json.loads((SMALL / "verdicts.json").read_text())}
    said = dict(re.findall(r"\* ([A-Z]{3}-\d\d) \S (not reproduced|reproduced|undecided|no premise|not run):",
                           texts["docs/findings.md"]))  # fmt: skip
    assert said == {name: verdicts[name] for name in said}
    assert len(said) > 90
