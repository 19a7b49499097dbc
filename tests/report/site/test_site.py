import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest
from PIL import Image

from leaklab.items.layouts import TableLayout
from leaklab.records.errors import UserError
from leaklab.report.judge.attackers import AttackerPair
from leaklab.report.judge.claims import Claim
from leaklab.report.judge.comparison import Comparison
from leaklab.report.judge.verdicts import SIGNS, Fact, Frequency, Judgement, Sides, Verdict
from leaklab.report.numbers.results import ResultRow, ResultTable
from leaklab.report.site import documents, site
from leaklab.report.site.answers import Answer, AnswerLine, Pair
from leaklab.report.site.attacks_tried import Left, ProtectionLeft, TriedAttack
from leaklab.report.site.files_beside import LIGHT
from leaklab.report.site.findings import Sentence
from leaklab.report.site.headlines import HeadlineLine, setting_lines
from leaklab.report.site.pages import (
    Cost,
    Download,
    ItemPage,
    JudgedClaim,
    MetricCard,
    PaperPages,
    Picture,
    ProvenanceLink,
    SiteData,
)
from leaklab.report.site.recipes import DataSource, Recipe
from leaklab.report.site.threat_letters import ThreatModel
from leaklab.report.tables.layout import lay_out

VOID = {"meta", "wbr", "link", "img", "br", "hr", "input"}


class Page(HTMLParser):
    """Checks that tags close in order, and collects links, ids, images and text."""

    def __init__(self, text):
        super().__init__()
        self.open, self.links, self.ids, self.images, self.text = [], [], [], [], []
        self.feed(text)
        assert not self.open, self.open

    def handle_starttag(self, tag, attrs):
        values = dict(attrs)
        assert len(values) == len(attrs), attrs
        self.links += [values[name] for name in ("href", "src", "srcset", "action") if name in values]
        self.ids += [values["id"]] if "id" in values else []
        self.images += [values] if tag == "img" else []
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open, tag
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text.append(data)


def full_page(folder):
    Image.new("RGB", (1200, 600), "white").save(folder / "table1.png")
    (folder / "table1.pdf").write_bytes(b"pdf")
    (folder / "table1.csv").write_text("csv")
    row = ResultRow("lrp", "table1", {"model": "cnn & co"}, "test_accuracy", 90.0, std=0.1, better="higher")
    beside = Comparison("lrp", "table1", row.row, "test_accuracy", 91.0, 0.1, 90.0, 0.1, -1.0, 0.5, "tight", "no",
                        draws_min=89.0, draws_max=92.0, within_draws=True, centered_difference=0.25)  # fmt: skip
    spec = TableLayout(rows=("model",), columns=("metric",), metric="test_accuracy")
    claim = Claim("LRP-01", "lrp", "table1", "Accuracy is <best> there.", "T('a')<1", paper_numbers="94.21",
                  premise="T('b')>2", premise_sentence="accuracy without defense")  # fmt: skip
    facts = (Fact("table1", row.row, "test_accuracy", 90.0),)
    judgement = Judgement("not reproduced", "accuracy: needed: above 91 %; found: 90 %", "the check fails", None, facts)
    verdict = Verdict("LRP-01", judgement, frequency=Frequency(7, 10, ("partition-seed=3",)))
    return ItemPage(
        "lrp", "table1", "Two clients", "done",
        pictures=(Picture(folder / "table1.png", "The table drawn.", "Caption", folder / "table1.pdf"),),
        grid=lay_out(spec, ResultTable((row,)), [beside]),
        comparisons=(beside,),
        claims=(JudgedClaim(claim, verdict),),
        attackers=(AttackerPair({"defense": "lrp"}, "mse_median", "", "higher", 0.5, 0.001, "closed-form-scale",
                                difference=(-0.6, -0.4)),
                   AttackerPair({"defense": "none"}, "mse_median", "", "higher", 0.001, None)),
        reading="One sentence of meaning.",
        settings={"paper": {"rounds": 100, "model": {"seed": 0}}, "small": {"rounds": 10, "model": {"seed": 0}}},
        substitutes=("half of LFW",),
        cards=(MetricCard("mse", {"domain": "[0, 1]"}),),
        cost=Cost(3, 3725.0, 61.0, 2048.0, ("cpu",)),
        provenance=(ProvenanceLink("figure", "figures/table1.png", "run-1", "c" * 40, True, "f" * 64),
                    ProvenanceLink("dataset", "data/mnist", sha256="a" * 64)),
        downloads=(Download("csv", folder / "table1.csv"),),
    )  # fmt: skip


def data(*pages, scale="small"):
    return SiteData(scale, "What it is.", (PaperPages("lrp", "LRP & co", tuple(pages)),), "0.1.0", "abc", True)


@pytest.fixture
def built(tmp_path):
    (tmp_path / "in").mkdir()
    planned = ItemPage("lrp", "table2", "Accuracy", "planned", "needs ResNet-18, which is not written yet")
    written = site.build(data(full_page(tmp_path / "in"), planned), tmp_path / "out")
    return tmp_path / "out", written


def pages(folder):
    return {path.name: Page(path.read_text()) for path in folder.glob("*.html")}


def test_every_file_written_is_reported(built):
    folder, written = built
    assert written[0] == folder / "index.html"
    assert set(written) == {path for path in folder.rglob("*") if path.is_file()}
    assert {path.name for path in written} == {
        "index.html", "claims.html", "style.css", "lrp.html", "thumbnail.webp", "lrp-table1.html", "lrp-table2.html",
        "table1.png", "table1.pdf", "table1.csv",
    }  # fmt: skip


def test_every_link_stays_inside_and_leads_somewhere(built):
    folder, _ = built
    found = pages(folder)
    for page in found.values():
        for link in page.links:
            assert not re.match(r"[a-z]+:|//", link) or link == "data:,", link
            path, _, anchor = link.partition("#")
            if link != "data:,":
                assert path == "" or (folder / path).is_file(), link
                assert anchor == "" or anchor in (found[path] if path else page).ids, link


def test_nothing_is_fetched_and_nothing_runs(built):
    folder, _ = built
    for path in [*folder.glob("*.html"), *folder.glob("*.css")]:
        text = path.read_text()
        assert "http" not in text
        assert "@import" not in text
        assert "url(" not in text
        assert "<script" not in text
        assert not re.search(r"\son[a-z]+=", text)


def test_ids_are_unique_and_images_have_a_text(built):
    for page in pages(built[0]).values():
        assert len(page.ids) == len(set(page.ids))
        assert all("alt" in image for image in page.images)
    assert pages(built[0])["lrp-table1.html"].images[0]["alt"] == "The table drawn."


def test_every_part_of_an_item_is_on_its_page(built):
    text = " ".join(" ".join(pages(built[0])["lrp-table1.html"].text).split())
    for part in (
        "Two clients", "One sentence of meaning.", "half of LFW", "not reproduced", "Accuracy is <best> there.",
        "Accuracy: needed: above 91 %; found: 90 %.", "about utility", "The check fails.", "Accuracy without defense.",
        "T('b')>2", "holds in 7 of 10 partition draws; fails for partition seed 3", "closed-form-scale",
        "The knowing attacker, the strongest of all that were tried, sees more in 1 of the 1 numbers in which",
        "1 setting differs from the paper's", "1 h 02 min", "2.0 GiB", "1 min 01 s",
        "paper's attacker", "uncommitted changes", "f" * 64, "94.21", "cnn & co", "0 of 1 printed numbers are met",
    ):  # fmt: skip
        assert part in text, part


def test_the_overview_shows_state_reason_and_verdicts(built):
    text = " ".join(" ".join(pages(built[0])["index.html"].text).split())
    for part in ("1 of 2", "needs ResNet-18, which is not written yet", "planned", "LRP & co", "claims not reproduced"):
        assert part in text, part
    for word in set(SIGNS) - {"not run"}:
        assert f"claims {word}" in text
        assert word.capitalize() in text
    assert "1 of 1 claims tested, 1 of 2 items done" in text


def judged(name, verdict, knowing=None, about="protection"):
    second = Judgement(knowing, f"knowing line of {name}") if knowing else None
    claim = Claim(name, "lrp", "table1", f"Statement {name}.", "T('a')<1", about=about)
    return JudgedClaim(claim, Verdict(name, Judgement(verdict, f"line of {name}"), knowing=second))


@pytest.mark.parametrize(
    ("printed", "knowing", "standing"),
    [
        ("reproduced", "reproduced", "stands"),
        ("reproduced", "not reproduced", "falls"),
        ("not reproduced", "reproduced", "not found"),
        ("not reproduced", "undecided", "not found"),
        ("reproduced", "undecided", "open"),
        ("reproduced", "no premise", "open"),
        ("undecided", "reproduced", "open"),
        ("no premise", "not reproduced", "falls"),
        ("not run", "not run", "open"),
        ("undecided", "not reproduced", "falls"),
        ("reproduced", None, "stands"),
        ("not run", None, "open"),
    ],
)
def test_what_is_left_of_a_claim(printed, knowing, standing):
    assert judged("LRP-01", printed, knowing).standing == standing
    assert judged("LRP-01", printed, knowing, about="utility").standing is None


def test_a_papers_page_says_what_survives_with_intervals(tmp_path):
    claims = (
        judged("LRP-01", "reproduced", "reproduced"),
        judged("LRP-02", "reproduced", "not reproduced"),
        judged("LRP-03", "not reproduced", "not reproduced"),
        judged("LRP-04", "reproduced", about="theory"),
        judged("LRP-05", "no premise"),
    )
    pair = AttackerPair({"defense": "lrp"}, "psnr_median", "dB", "lower", 12.0, 31.0, "closed-form-scale",
                        (11.5, 12.5), (30.0, 33.0))  # fmt: skip
    shown = ItemPage("lrp", "figure9", "IG", "done", claims=claims, attackers=(pair,), headline="psnr")
    site.build(data(shown), tmp_path)
    page = Page((tmp_path / "lrp.html").read_text())
    text = " ".join(" ".join(page.text).split())
    wanted = (
        "Of 4 claims of protection 1 is reproduced against the strongest attacker that was run: 2 not reproduced, "
        "1 no premise. Against the attacker of the paper 2 are."
    )
    assert wanted in text
    for part in (
        "What stands",
        "What falls",
        "knowing line of LRP-02",
        "line of LRP-05",
        "11.5 to 12.5",
        "30 to 33",
        "lower is more",
    ):
        assert part.lower() in text.lower(), part
    assert text.index("Statement LRP-01") < text.index("Statement LRP-02") < text.index("Statement LRP-03")
    assert "lrp-figure9.html#LRP-02" in page.links
    assert "numbers" in page.ids


def test_claims_of_protection_that_were_not_run_are_not_called_refuted(tmp_path):
    claims = (judged("LRP-01", "not run"), judged("LRP-02", "not run"))
    site.build(data(ItemPage("lrp", "figure9", "IG", "done", claims=claims)), tmp_path)
    text = " ".join(" ".join(Page((tmp_path / "lrp.html").read_text()).text).split())
    assert "None of the 2 claims of protection was tested at this scale." in text
    assert "is reproduced against" not in text


def test_a_page_of_an_item_that_was_not_run_has_no_empty_sections(built):
    assert pages(built[0])["lrp-table2.html"].ids == ["main"]


def test_the_same_data_give_the_same_bytes(tmp_path):
    (tmp_path / "in").mkdir()
    page = full_page(tmp_path / "in")
    first, second = (site.build(data(page), tmp_path / name) for name in ("a", "b"))
    assert [path.read_bytes() for path in first] == [path.read_bytes() for path in second]


def test_a_site_without_results_can_be_built(tmp_path):
    site.build(data(ItemPage("lrp", "smc", "Masked sums", "not run", "run it")), tmp_path)
    assert "Results at this scale" not in (tmp_path / "index.html").read_text()


def test_missing_figures_and_doubled_names_are_refused(tmp_path):
    lost = ItemPage("lrp", "table1", "t", "done", pictures=(Picture(tmp_path / "no.png", "a"),))
    with pytest.raises(UserError, match=r"no\.png is missing"):
        site.build(data(lost), tmp_path / "out")
    twice = ItemPage("lrp", "smc", "t", "planned", "r")
    with pytest.raises(UserError, match="two items are called lrp-smc"):
        site.build(data(twice, twice), tmp_path / "out")


def test_settings_are_flattened_and_changes_come_first():
    lines = setting_lines({"paper": {"seeds": [1, 2], "m": {"b": True, "rates": [[1, 2]]}},
                           "demo": {"seeds": [1, 2], "m": {"b": False, "rates": [[1, 2]]}}}, "demo")  # fmt: skip
    assert [(line.name, line.values, line.changed) for line in lines] == [
        ("m.b", ("true", "false"), True),
        ("seeds", ("1, 2", "1, 2"), False),
        ("m.rates", ("(1, 2)", "(1, 2)"), False),
    ]


def test_templates_are_packaged():
    folder = Path(site.__file__).parent / "templates"
    names = {path.name for path in folder.iterdir()}
    pages = {f"{name}.html" for name in ("base", "claims", "index", "item", "macros", "paper", "scoreboard")}
    assert names == {*pages, "strip.svg", "style.css"}


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [
        (0.44, "0.4 s"),
        (59.7, "1 min 00 s"),
        (200, "3 min 20 s"),
        (7500, "2 h 05 min"),
        (864_000, "10 days"),
        (None, "not measured"),
    ],
)
def test_durations(seconds, shown):
    assert site.duration(seconds) == shown


def test_keys_that_all_rows_share_stand_in_the_heading_once():
    rows = [{"model": "cnn", "perturbation": True}, {"model": "mlp", "perturbation": False}]
    assert site.shared_keys(rows) == ("model", "perturbation")
    assert site.values_text(rows[0], ("model", "perturbation")) == "CNN · perturbation"
    assert site.shared_keys([*rows, {"E": 1}]) == ()
    assert site.values_text(rows[0], ()) == "CNN, perturbation"


def test_what_is_missing_stands_at_the_top_and_in_the_overview(tmp_path):
    page = ItemPage("lrp", "table2", "Accuracy", "done", gaps=("not run: data not here: <ImageNet> (4 numbers)",))
    site.build(data(page), tmp_path)
    text = " ".join(" ".join(Page((tmp_path / "lrp-table2.html").read_text()).text).split())
    assert "What is missing." in text
    assert "Not run: data not here: <ImageNet> (4 numbers)." in text
    assert "incomplete" in (tmp_path / "index.html").read_text()


RECIPE = Recipe("snakemake --cores 2 x.csv", "leaklab plan lrp table2 --scale small", 12, 7500.0,
                (DataSource("mnist", "fetched"),))  # fmt: skip


def words_of(path):
    return " ".join(" ".join(Page(path.read_text()).text).split())


def test_a_page_says_how_to_make_it_and_what_that_costs(tmp_path):
    site.build(data(ItemPage("lrp", "table2", "Accuracy", "not run", recipe=RECIPE)), tmp_path)
    text = words_of(tmp_path / "lrp-table2.html")
    for part in (
        RECIPE.command,
        RECIPE.plan,
        "12 runs, 2 h 05 min of one CPU core",
        "estimate, at most",
        "mnist (fetched)",
    ):
        assert part in text, part


def test_where_records_are_absent_no_cost_is_stated_but_the_estimate(tmp_path):
    site.build(data(ItemPage("lrp", "table2", "Accuracy", "done", recipe=RECIPE, absent_records=5)), tmp_path)
    text = words_of(tmp_path / "lrp-table2.html")
    assert (
        "2 h 05 min estimated CPU time to make, at most" in text or "estimated CPU time to make, at most 2 h 05" in text
    )
    assert "Cost and metric cards: not in this checkout." in text
    assert "wall time" not in text


def test_stand_ins_are_said_once_and_captions_lead_there(tmp_path):
    (tmp_path / "in").mkdir()
    site.build(data(full_page(tmp_path / "in")), tmp_path / "out")
    text = (tmp_path / "out/lrp-table1.html").read_text()
    assert text.count("half of LFW") == 1
    captions = re.findall(r"<figcaption>.*?</figcaption>|<p class=\"legend\">.*?</p>", text, re.DOTALL)
    led = [caption for caption in captions if 'href="#stand-ins">With stand-ins.' in caption]
    assert len(led) == 2  # the figure, and the result table
    assert "stand-ins" in Page(text).ids


def test_no_number_of_ours_is_called_printed_for_its_attacker(built):
    for page in pages(built[0]).values():
        assert "as printed" not in " ".join(page.text).lower()


def test_the_overview_shows_each_item_once_and_folds_what_is_planned(built):
    page = pages(built[0])["index.html"]
    assert [page.links.count(f"lrp-{item}.html") for item in ("table1", "table2")] == [1, 1]
    assert "1 planned item, and what it waits for" in words_of(built[0] / "index.html")


def test_papers_lead_to_each_other(tmp_path):
    item = ItemPage("lrp", "smc", "Masked sums", "not run", "run it")
    papers = tuple(PaperPages(key, f"Paper {key}", (replace(item, paper=key),)) for key in "abc")
    site.build(SiteData("small", "", papers, "0.1.0"), tmp_path)
    links = {
        key: set(Page((tmp_path / f"{key}.html").read_text()).links) & {"a.html", "b.html", "c.html"} for key in "abc"
    }
    assert links == {"a": {"b.html"}, "b": {"a.html", "c.html"}, "c": {"b.html"}}


def test_settings_that_a_scale_left_alone_are_folded(built):
    text = words_of(built[0] / "lrp-table1.html")
    assert "1 setting left as it is" in text


def test_deals_are_shown_each_with_its_own_file(tmp_path):
    pictures = []
    for seed in range(4):
        folder = tmp_path / "results/runs/partition" / f"mnist-label-shards-{seed}"
        folder.mkdir(parents=True)
        Image.new("L", (8, 8), seed).save(folder / "partition.png")
        pictures.append(Picture(folder / "partition.png", f"Deal {seed}", f"mnist, label-shards (seed {seed})"))
    written = site.build(
        data(ItemPage("lrp", "table2", "Accuracy", "done", partitions=tuple(pictures))), tmp_path / "out"
    )
    page = Page((tmp_path / "out/lrp-table2.html").read_text())
    assert "partition" in page.ids
    assert [image["alt"] for image in page.images] == [f"Deal {seed}" for seed in range(4)]
    assert [(tmp_path / "out" / image["src"]).read_bytes() for image in page.images] == [
        picture.path.read_bytes() for picture in pictures
    ]
    assert len([path for path in written if path.suffix == ".png"]) == 4
    assert "2 more" in " ".join(page.text)


def test_a_cell_that_was_judged_by_its_spread_says_so_and_is_not_counted_as_not_compared(tmp_path):
    judged = Comparison("lrp", "table5", {"eta1": 0.002}, "test_accuracy", 50.0, value=60.0, std=9.0, difference=10.0,
                        class_name="spread", within="yes", reason="judged by its spread: up to 9")  # fmt: skip
    site.build(data(ItemPage("lrp", "table5", "Adam", "done", comparisons=(judged,))), tmp_path)
    text = " ".join(" ".join(Page((tmp_path / "lrp-table5.html").read_text()).text).split())
    assert "✓ yes judged by its spread: up to 9" in text
    assert "1 of 1 printed numbers are met, 0 are not, 0 are not compared." in text


def answered(folder, scale):
    line = HeadlineLine(
        attacker="DLG", dataset="digits", setting="one image", hides="images", item="table1", metric="mse_median",
        shown="median MSE", row={}, undefended={}, defended={}, guesses=("mean-image",),
    )  # fmt: skip
    paper, knowing = Pair("DLG", 2.0, 9.2, 10.0, "higher"), Pair("DLG, free scale", 1.0, 1.18, 10.0, "higher")
    numbers = AnswerLine(line, "lrp-table1", "", paper, knowing, "mean image", 7, ("half of LFW",))
    (folder / "in").mkdir()
    paper = PaperPages(
        "lrp", "LRP", (full_page(folder / "in"),), answer=Answer("LRP hides & fails.", (numbers,), "LRP")
    )
    site.build(SiteData(scale, "What it is.", (paper,), "0.1.0"), folder / "out")
    return pages(folder / "out")


@pytest.mark.parametrize("name", ["index.html", "lrp.html"])
def test_the_answer_stands_first_with_both_attackers(tmp_path, name):
    page = answered(tmp_path, "small")[name]
    text = " ".join(" ".join(page.text).split())
    for part in ("LRP hides & fails.", "DLG on digits one image; median MSE, n = 7 2 9.2 90 % of the protection left",
                 "1 1.2 2 % of the protection left; DLG, free scale", "10 mean image", "attacker who knows LRP",
                 "Stand-ins: half of LFW."):  # fmt: skip
        assert part in text, part
    assert text.index("LRP hides & fails.") < text.index("Accuracy is" if name == "lrp.html" else "claims tested")
    assert "lrp-table1.html" in page.links


def test_at_the_demos_scale_nothing_is_said_about_a_paper(tmp_path):
    text = " ".join(" ".join(answered(tmp_path, "demo")["index.html"].text).split())
    assert "Stand-in data decide nothing about a paper" in text
    assert "claims not reproduced" not in text


def test_tiles_show_small_pictures(built):
    with Image.open(built[0] / "files/lrp-table1/thumbnail.webp") as thumbnail:
        assert thumbnail.size == (680, 340)
    assert "files/lrp-table1/thumbnail.webp" in pages(built[0])["index.html"].links


def test_every_claim_stands_on_one_page_with_its_command(tmp_path):
    (tmp_path / "in").mkdir()
    page = replace(full_page(tmp_path / "in"), recipe=Recipe("snakemake --cores 2 a.csv", "leaklab plan", 3, 9.0))
    sides = Sides("at most", 0.3, 0.3073, -0.0073)
    verdict = Verdict("LRP-01", Judgement("reproduced", sides=sides), knowing=Judgement("not reproduced"))
    page = replace(page, claims=(JudgedClaim(page.claims[0].claim, verdict),))
    site.build(data(page), tmp_path / "out")
    text = " ".join(" ".join(pages(tmp_path / "out")["claims.html"].text).split())
    for part in (
        "Accuracy is <best> there.",
        "reproduced ✗ not reproduced",
        f"margin {site.number(-0.0073)}",
        "snakemake --cores 2 a.csv",
    ):
        assert part in text, part


def test_an_item_is_led_by_what_came_out_under_the_strongest_attacker(tmp_path):
    (tmp_path / "in").mkdir()
    page = replace(full_page(tmp_path / "in"), findings=(Sentence("LRP hides & fails."), Sentence("", "no number")))
    verdict = Verdict("LRP-01", Judgement("reproduced"), knowing=Judgement("not reproduced"))
    page = replace(page, claims=(JudgedClaim(page.claims[0].claim, verdict),))
    site.build(data(page), tmp_path / "out")
    text = " ".join(" ".join(pages(tmp_path / "out")["lrp-table1.html"].text).split())
    assert text.index("LRP hides & fails.") < text.index("✗ 1") < text.index("How to read it.")
    assert "claim reproduced" not in text


def test_a_page_shows_every_attack_that_was_tried_and_the_protection_left(tmp_path):
    row = {"defense": "lrp & co"}
    tried = (
        TriedAttack(row, "dlg", "psnr_median", "dB", 12.0, None, False),
        TriedAttack(row, "dlg, profiled scale", "psnr_median", "dB", 18.0, (17.0, 19.0), True),
    )
    protection = (
        ProtectionLeft(row, {"paper": Left(100.0, (90.0, 100.0)), "knowing": Left(40.4, (0.0, 60.0))}),
        ProtectionLeft({"defense": "soteria"}, {"paper": Left(None, None, "no premise: nothing to protect")}),
    )
    site.build(data(ItemPage("lrp", "figure2", "DLG", "done", tried=tried, protection=protection)), tmp_path)
    text = words_of(tmp_path / "lrp-figure2.html")
    for part in (
        "defense paper's attacker attacker who knows the defense lrp & co 100 % 90 to 100 40 % 0 to 60",
        "Soteria no premise: nothing to protect",
        "2 numbers: PSNR (median) (dB)",
        "lrp & co DLG 12 lrp & co DLG, profiled scale , the strongest 18 17 to 19",
    ):
        assert part in text, part


def test_a_page_says_what_each_attack_has_to_know(tmp_path):
    threats = (
        ThreatModel("ig", "linear-heads", ("paper", "knowing"), "C+y", "parameter-aware: rate & steps"),
        ThreatModel("dlg", "", (), "B", "informed"),
        ThreatModel("ggl", "", (), "D+p", "data-enhanced", "train part of mnist"),
    )
    site.build(data(ItemPage("lrp", "figure2", "DLG", "done", threats=threats)), tmp_path)
    text = words_of(tmp_path / "lrp-figure2.html")
    assert "What each attack has to know" in text
    assert "IG, linear heads paper's attacker; attacker who knows the defense C+y \N{EN DASH} DLG" in text
    assert "DLG \N{EN DASH} B \N{EN DASH} GGL" in text
    assert "GGL \N{EN DASH} D+p train part of mnist" in text
    assert "C parameter-aware: rate & steps; B informed; D data-enhanced." in text


def test_the_list_of_items_names_those_without_results(tmp_path):
    done, waiting = full_page(tmp_path), ItemPage("lrp", "figure2", "Pictures", "planned")
    assert documents._how_many(data(done, waiting)) == (
        "1 of 2 items have results; `leaklab items --why` says what others wait for: lrp figure2."
    )
    assert documents._how_many(data(done)) == "All 1 items have results."
    assert documents._how_many(data(*[waiting] * 7)).endswith("lrp figure2, lrp figure2 and more.")


class TestWhoKnowsTheDefense:
    """Of a defense for which no attack here was made, no page says that somebody knows it."""

    @staticmethod
    def pages(folder, **changes):
        (folder / "in").mkdir()
        site.build(data(replace(full_page(folder / "in"), **changes)), folder / "out")
        return {name: " ".join(page.text) for name, page in pages(folder / "out").items()}

    def test_a_defense_from_elsewhere_has_no_attacker_who_knows_it(self, tmp_path):
        left = ProtectionLeft({"defense": "mine"}, {"knowing": Left(80.0, (60.0, 90.0))})
        text = self.pages(tmp_path, strangers=("mine",), protection=(left,), headline="mse")
        for name in ("lrp-table1.html", "lrp.html"):
            assert "strongest attacker tried" in text[name]
            assert "attacker who knows the defense" not in text[name]
        assert "No attacker here was made for mine" in text["lrp-table1.html"]
        assert not re.search("one who knows the defense|knowing attacker", text["lrp-table1.html"])

    def test_one_of_the_house_has(self, tmp_path):
        text = self.pages(tmp_path, headline="mse")["lrp-table1.html"]
        assert "The attacker of the paper, and the one who knows the defense" in text
        assert "attacker who knows the defense" in text
        assert "No attacker here was made for" not in text

    def test_a_defense_that_changed_no_update_is_said_to_do_nothing(self, tmp_path):
        text = self.pages(tmp_path, idle=("mine on digits",))["lrp-table1.html"]
        assert "The defense mine on digits does nothing: it changed no update" in text


class TestOnAPhone:
    """What is long is folded there, pictures have their space before they are there, and nothing heavy is fetched."""

    @staticmethod
    def page(folder, name="lrp-table1.html", **changes):
        (folder / "in").mkdir()
        site.build(data(replace(full_page(folder / "in"), **changes)), folder / "out")
        return (folder / "out" / name).read_text()

    @pytest.mark.parametrize(("rows", "folds"), [(4, 0), (5, 1)])
    def test_a_long_table_is_folded_and_a_short_one_is_not(self, tmp_path, rows, folds):
        left = tuple(ProtectionLeft({"E": row}, {"paper": Left(80.0, None)}) for row in range(rows))
        text = self.page(tmp_path, protection=left, cards=(), provenance=())
        assert text.count('<details class="phone">') == folds
        assert text.count("<summary>All 5 settings</summary>") == folds

    def test_every_picture_says_its_size_and_only_the_first_is_fetched_at_once(self, tmp_path):
        (tmp_path / "more").mkdir()
        Image.new("L", (30, 20)).save(tmp_path / "more/draws.png")
        first = Picture(tmp_path / "in/table1.png", "first")
        second = Picture(tmp_path / "more/draws.png", "second")
        page = Page(self.page(tmp_path, pictures=(first, second), pictures_first=True))
        assert [(image["width"], image["height"], image.get("loading")) for image in page.images] == [
            ("1200", "600", None), ("30", "20", "lazy"),
        ]  # fmt: skip

    def test_a_heavy_figure_is_shown_lighter_and_leads_to_the_whole_one(self, tmp_path):
        drawn = Image.effect_noise((2000, 1000), 90)
        drawn.save(tmp_path / "noise.png")
        text = self.page(tmp_path, pictures=(Picture(tmp_path / "noise.png", "noise"),))
        page = Page(text)
        (image,) = page.images
        assert image["src"] == "files/lrp-table1/noise.webp"
        assert (image["width"], image["height"]) == ("2000", "1000")
        assert "files/lrp-table1/noise.png" in page.links
        with Image.open(tmp_path / "out" / image["src"]) as lighter:
            assert lighter.size == (1400, 700)
        assert (tmp_path / "out" / image["src"]).stat().st_size <= LIGHT

    def test_a_tile_s_picture_is_the_top_of_a_high_figure(self, tmp_path):
        Image.new("L", (680, 3000)).save(tmp_path / "high.png")
        self.page(tmp_path, pictures=(Picture(tmp_path / "high.png", "high"),))
        with Image.open(tmp_path / "out/files/lrp-table1/thumbnail.webp") as small:
            assert small.size == (680, 400)

    def test_a_page_begins_with_what_came_out_and_its_picture(self, tmp_path):
        text = self.page(tmp_path, findings=(Sentence("LRP hides & fails."),), pictures_first=True)
        order = ["<h1>", "LRP hides &amp; fails.", "claim not reproduced", "<img ", "How to read it.", "Stand-ins:"]
        assert sorted(order, key=text.index) == order

    def test_prints_show_what_is_folded(self, built):
        style = (built[0] / "style.css").read_text()
        assert "details::details-content { content-visibility: visible" in style.partition("@media print")[2]


def test_items_before_and_after_stand_at_the_top_too(built):
    page = Page((built[0] / "lrp-table1.html").read_text())
    assert page.links.count("lrp-table2.html") == 2


def test_a_page_names_the_files_of_its_settings_code_and_documentation(tmp_path):
    recipe = replace(RECIPE, settings="config/a.yaml", code=("src/leaklab/b.py",), pages=("docs/c.md",))
    site.build(data(ItemPage("lrp", "table2", "Accuracy", "not run", recipe=recipe)), tmp_path)
    text = "".join(Page((tmp_path / "lrp-table2.html").read_text()).text)
    for path in (recipe.settings, *recipe.code, *recipe.pages):
        assert path in text


def test_commands_go_on_after_a_slash_and_break_no_word():
    assert site.breakable("a --b c/<d>/e") == "a --b c/<wbr>&lt;d&gt;/<wbr>e"
    assert site.breakable("c/e-f.csv/g") == 'c/<wbr><span class="whole">e-f.csv</span>/<wbr>g'


@pytest.mark.parametrize(
    ("metric", "words"),
    [
        ("lpips_squeeze_median", "LPIPS-Squeeze (median)"),
        ("psnr", "PSNR"),
        ("test_accuracy", "test accuracy"),
        ("mse_unit", "MSE on [0, 1]"),
    ],
)
def test_metrics_are_written_as_tables_write_them(metric, words):
    assert site.metric_in_words(metric) == words


def test_a_number_that_nobody_has_is_no_line(tmp_path):
    pairs = (AttackerPair({"defense": "lrp"}, "mse", "", "higher", None, None),
             AttackerPair({"defense": "none"}, "mse", "", "higher", 0.5, None))  # fmt: skip
    site.build(data(ItemPage("lrp", "table2", "Accuracy", "done", attackers=pairs)), tmp_path)
    text = words_of(tmp_path / "lrp-table2.html")
    assert "lrp" not in text.partition("who sees more")[2].partition("Made by")[0]
    assert "no defense 0.5" in text
