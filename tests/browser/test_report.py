"""Pages of the report in a real browser: nothing fails, nothing is cut, everyone can use them."""

from pathlib import Path

import pytest

pytest.importorskip("playwright", reason="`make test-browser` installs it and runs this")
axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="`make test-browser` installs it")

NARROW, HIGHEST, FIRST_LOAD = 400, 8000, 1_000_000
SERIOUS = ("serious", "critical")


def pages(report):
    return sorted(report.glob("*.html"))


def size(urls):
    """Return the bytes of files that a page asked for."""
    return sum(
        Path(url.removeprefix("file://").partition("#")[0]).stat().st_size for url in urls if url.startswith("file")
    )


def test_no_page_reports_an_error_or_asks_the_network(report, show):
    found = {}
    for path in pages(report):
        _, seen = show(path)
        found[path.name] = seen.errors + [url for url in seen.requests if not url.startswith(("file:", "data:"))]
    assert {name: said for name, said in found.items() if said} == {}


def test_no_page_scrolls_sideways_on_a_phone_or_has_no_end(report, show):
    wide, high = {}, {}
    for path in pages(report):
        page, _ = show(path, NARROW)
        wide[path.name] = page.evaluate("document.documentElement.scrollWidth")
        high[path.name] = page.evaluate("document.documentElement.scrollHeight")
    assert {name: value for name, value in wide.items() if value > NARROW} == {}
    assert {name: value for name, value in high.items() if value > HIGHEST} == {}


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_serious(scheme, report, show):
    found = {}
    for path in pages(report):
        page, _ = show(path, color_scheme=scheme)
        said = axe.Axe().run(page).response["violations"]
        found[path.name] = [(one["id"], one["nodes"][0]["target"]) for one in said if one["impact"] in SERIOUS]
    assert {name: said for name, said in found.items() if said} == {}


def test_what_a_page_loads_first_is_small(report, show):
    sizes = {}
    for path in pages(report):
        _, seen = show(path)
        sizes[path.name] = size(seen.requests)
    assert {name: value for name, value in sizes.items() if value > FIRST_LOAD} == {}


def test_the_scoreboard_is_sorted_by_a_click_and_by_another_turned_around(report, show):
    page, _ = show(report / "scoreboard.html")
    table = page.locator("table.board").first
    head = table.get_by_role("button", name="accuracy lost")
    read = "rows => rows.map(row => row.querySelector('[data-label^=\"accuracy lost\"]').dataset.value)"
    head.click()
    up = table.locator("tbody tr").evaluate_all(read)
    head.click()
    down = table.locator("tbody tr").evaluate_all(read)
    numbers = [float(value) for value in up if value]
    assert len(numbers) > 5
    assert numbers == sorted(numbers)
    assert [float(value) for value in down if value] == numbers[::-1]
    assert table.locator("th[aria-sort]").count() == 1


def test_the_scoreboard_s_filters_hide_what_does_not_fit_and_say_how_many_stay(report, show):
    page, _ = show(report / "scoreboard.html")
    section = page.locator("section:has(table.board)").first
    everything = section.locator("tbody tr").count()
    section.locator("input[name=text]").fill("soteria")
    shown = section.locator("tbody tr:visible")
    assert 0 < shown.count() < everything
    assert all("soteria" in text.lower() for text in shown.all_inner_texts())
    assert section.locator("output").inner_text() == f"{shown.count()} of {everything}"
    section.locator("input[name=text]").fill("")
    word = section.locator("select[name=word] option").nth(1).inner_text()
    section.locator("select[name=word]").select_option(word)
    assert {row.get_attribute("data-word") for row in section.locator("tbody tr:visible").all()} == {word}


def test_without_scripts_the_scoreboard_is_whole(report, show):
    page, seen = show(report / "scoreboard.html", java_script_enabled=False)
    rows = page.locator("table.board tbody tr")
    assert rows.count() > 5
    assert all(row.is_visible() for row in rows.all())
    assert not page.locator("form.filters").first.is_visible()
    assert seen.errors == []


@pytest.mark.parametrize("name", ["lrp-table3.html", "lrp.html", "index.html"])
def test_what_phones_fold_is_open_on_wide_screens_and_in_print(name, report, show):
    folded = "folds => folds.map(fold => fold.lastElementChild.checkVisibility({contentVisibilityAuto: true}))"
    page, _ = show(report / name, NARROW)
    assert not any(page.locator("details.phone").evaluate_all(folded))
    page.emulate_media(media="print")
    outer = "[...document.querySelectorAll('details:not(details details)')]"
    page.wait_for_function(f"() => ({folded})({outer}).every(shown => shown)", timeout=10_000)
    page, _ = show(report / name)
    found = page.locator("details.phone:not(details:not(.phone) *)").evaluate_all(folded)
    assert found
    assert all(found)


def test_a_link_to_a_claim_opens_the_fold_that_it_is_in(report, show):
    page, _ = show(report / "outpost-table3.html", NARROW)
    claim = page.locator("article.claim").first
    assert not claim.is_visible()
    page.evaluate("location.hash = document.querySelector('article.claim').id")
    claim.wait_for(state="visible", timeout=5000)


def test_no_word_of_a_command_is_broken(report, show):
    """A command goes on in the next line after a space or a slash."""
    page, _ = show(report / "claims.html")
    broken = """codes => codes.filter(code => [...code.childNodes].some(node => node.nodeType === 3 &&
        node.data.split(" ").some((word, place, words) => {
            const range = document.createRange();
            const start = words.slice(0, place).join(" ").length + (place ? 1 : 0);
            range.setStart(node, start); range.setEnd(node, start + word.length);
            return range.getClientRects().length > 1;
        }))).map(code => code.textContent)"""
    for width in (1280, 1000, NARROW):
        page.set_viewport_size({"width": width, "height": 900})
        page.evaluate("document.querySelectorAll('details').forEach(fold => fold.open = true)")
        assert page.locator("td code").evaluate_all(broken) == []


def test_the_documentation_s_findings_end_on_a_phone(documentation, show):
    page, seen = show(documentation / "findings.html", NARROW)
    assert page.evaluate("document.documentElement.scrollWidth") <= NARROW
    assert page.evaluate("document.documentElement.scrollHeight") <= HIGHEST
    # in a folder the search has no index; whatever else is missing is named by its request
    missing = "Failed to load resource: net::ERR_FILE_NOT_FOUND"
    errors = [error for error in seen.errors if "/search/search_index.js" not in error and error != missing]
    assert errors == []
    first = page.locator("details.wide li").first
    assert not first.is_visible()
    page.emulate_media(media="print")
    assert first.is_visible()
