import csv
import io
import re
from pathlib import Path

import pytest

from leaklab.records.errors import UserError
from leaklab.report.judge.claims import CLAIM_COLUMNS, Claim, read_claims

ROOT = Path(__file__).parents[3]
PAPERS = ROOT / "config/papers"
# what a sentence counts: its unit in brackets, where it has one
UNITS = {None, "%", "points", "share", "dB", "rounds", "s", "multiplier"}


@pytest.fixture(scope="module")
def claims():
    return read_claims(PAPERS / "claims.csv")


def test_the_spelling_is_one(claims):
    text = " ".join([PAPERS.joinpath(name).read_text() for name in ("claims.csv", "targets.csv")])
    assert "defence" not in text
    assert "'fig" not in text.replace("'figure", "")


def test_every_claim_says_what_it_is_about_and_what_it_measures(claims):
    assert len(claims) == 153
    for claim in claims:
        assert claim.sentence, claim.id
        found = re.search(r"\[(.*)\]$", claim.sentence)
        assert (found.group(1) if found else None) in UNITS, claim.id


def test_every_claim_of_lrp_declares_its_premise_in_words_too(claims):
    own = [claim for claim in claims if claim.paper == "lrp"]
    assert len(own) == 75
    for claim in own:
        assert claim.premise, claim.id
        assert claim.premise_sentence, claim.id
        if claim.about != "theory":
            assert claim.premise != "True", claim.id


def test_a_premise_is_no_part_of_its_check_alone(claims):
    """A claim whose premise is its check would never be refuted, only be without a premise."""
    for claim in claims:
        assert claim.premise != claim.check


def line(**cells):
    known = {"id": "X-09", "paper": "lrp", "item": "table1", "about": "utility", "check": "1<2"}
    buffer = io.StringIO()
    writer = csv.DictWriter(buffer, CLAIM_COLUMNS, restval="", lineterminator="\n")
    writer.writeheader()
    writer.writerow(known | cells)
    return buffer.getvalue()


@pytest.mark.parametrize(
    ("cells", "message"),
    [
        ({"check": "__import__('os')"}, "claim X-09: "),
        ({"premise": "T.x"}, "claim X-09: Attribute"),
        ({"check_per_draw": "1<"}, "claim X-09: the check is not"),
        ({"about": "everything"}, "not one of protection, attack, utility, theory"),
    ],
)
def test_a_claim_that_asks_for_more_is_refused_when_read(tmp_path, cells, message):
    (tmp_path / "claims.csv").write_text(line(**cells))
    with pytest.raises(UserError, match="claim X-09") as error:
        read_claims(tmp_path / "claims.csv")
    assert message in str(error.value)


def test_a_missing_column_is_named(tmp_path):
    (tmp_path / "claims.csv").write_text("id,paper\n")
    with pytest.raises(UserError, match="no column item"):
        read_claims(tmp_path / "claims.csv")


def test_the_check_itself_may_be_the_check_per_draw():
    assert Claim("X", "lrp", "table1", "s", "1<2", check_per_draw="same").draw_check == "1<2"
    assert Claim("X", "lrp", "table1", "s", "1<2").draw_check == ""


@pytest.mark.parametrize(
    ("text", "check", "tie"),
    [("same within 0.2", "1<2", 0.2), ("3<4 within 1", "3<4", 1.0), ("3<4", "3<4", 0.0), ("", "", 0)],
)
def test_a_check_per_draw_may_declare_a_tie(text, check, tie):
    claim = Claim("X", "lrp", "table1", "s", "1<2", check_per_draw=text)
    assert (claim.draw_check, claim.tie) == (check, tie)
