import csv
import io
import re
from pathlib import Path

import pytest

from leaklab.records.errors import UserError
from leaklab.records.expand import expand
from leaklab.records.items import load_items
from leaklab.report.judge.claims import CLAIM_COLUMNS, Claim, read_claims
from leaklab.report.numbers.results import AS_DESCRIBED

ROOT = Path(__file__).parents[3]
PAPERS = ROOT / "config/papers"
# what a sentence counts: its unit in brackets, where it has one
UNITS = {None, "%", "points", "share", "dB", "rounds", "s"}


@pytest.fixture(scope="module")
def claims():
    return read_claims(PAPERS / "claims.csv")


def test_the_spelling_is_one(claims):
    text = " ".join([PAPERS.joinpath(name).read_text() for name in ("claims.csv", "targets.csv")])
    assert "defence" not in text
    assert "'fig" not in text.replace("'figure", "")


def test_every_claim_says_what_it_is_about_and_what_it_measures(claims):
    assert len(claims) == 87
    for claim in claims:
        assert claim.sentence, claim.id
        found = re.search(r"\[(.*)\]$", claim.sentence)
        assert (found.group(1) if found else None) in UNITS, claim.id


def test_every_claim_of_lrp_declares_its_premise_in_words_too(claims):
    own = [claim for claim in claims if claim.paper == "lrp"]
    assert len(own) == 39
    for claim in own:
        assert claim.premise, claim.id
        assert claim.premise_sentence, claim.id
        if claim.about != "theory":
            assert claim.premise != "True", claim.id


def test_a_premise_is_no_part_of_its_check_alone(claims):
    """A claim whose premise is its check would never be refuted, only be without a premise."""
    for claim in claims:
        assert claim.premise != claim.check


def test_the_images_of_an_update_are_those_of_the_item(claims):
    """A claim on an item whose updates are made of several images says so."""
    items = load_items(ROOT / "config/items")
    for claim in claims:
        for name in set(re.findall(r"'((?:figure|table)[\w-]+)'", f"{claim.check} {claim.premise}")):
            item = items[f"{claim.paper}/{name}"]
            for scale in ("small", "paper"):
                assert claim.batches(scale).get(name, 1) == batch(item, scale), (claim.id, name, scale)


def batch(item, scale):
    """Return the images of one update that claims see of an item at a scale; without updates one."""
    if item.planned:
        return 1
    seen = [run.spec for run in expand(item, scale) if run.variant == AS_DESCRIBED]
    attacks = [spec.attack for spec in seen if hasattr(spec, "attack")]
    captures = [attack.capture for attack in attacks if hasattr(attack, "capture")]
    return max((capture.batch_size for capture in captures if hasattr(capture, "batch_size")), default=1)


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
        ({"images_per_update": "figure6"}, "not e.g. 'figure6=4'"),
        ({"images_per_update": "figure6=0"}, "not e.g. 'figure6=4'"),
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
    assert Claim("X", "lrp", "table1", "s", "1<2", images_per_update="a=2 b=3 b@small=1").batches("small") == {
        "a": 2,
        "b": 1,
    }
