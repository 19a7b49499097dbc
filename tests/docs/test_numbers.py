"""Numbers of results stand in documents where a program wrote them, and are those of the result tables."""

import re
from pathlib import Path

import pytest

from leaklab.report.site.documents import PART, documents, with_parts

ROOT = Path(__file__).parents[2]
GENERATED = [ROOT / f"docs/{name}.md" for name in ("artifact", "coverage", "findings", "items")]
GENERATED += sorted((ROOT / "docs/papers").glob("*.md"))
PAGES = [ROOT / "README.md", *(page for page in sorted((ROOT / "docs").glob("*.md")) if page not in GENERATED)]
RESULT = re.compile(r"\d+(?:\.\d+)? ?(?:dB\b|%)|\b(?:MSE|PSNR|SSIM|LPIPS)\b[^.\n|]{0,24}?\d\.\d+")
# numbers with such units that are settings, rules or arithmetic, and no results
DECLARED = {
    "README.md": set(),
    "docs/attacks.md": {"0 %", "100 %"},
    "docs/attacks-exact.md": {"70 dB", "80 dB"},  # what a proof asks for: src/leaklab/attacks/residual
    "docs/concepts.md": {"0 %", "100 %"},
    "docs/scales.md": {"95 %"},
    "docs/scoreboard.md": {"0 %", "100 %", "10 dB"},  # from there on all is read: metrics/gains.py
    "docs/verdicts.md": {"6 %", "2 dB", "5 %", "95 %"},
}


def by_hand(text):
    """Return a text without what a program wrote, and without examples of code."""
    return re.sub(r"^```.*?^```$", "", PART.sub("", text), flags=re.MULTILINE | re.DOTALL)


def test_documents_are_what_the_published_results_say(published, monkeypatch):
    """If this fails: ``leaklab findings`` writes them anew."""
    monkeypatch.chdir(ROOT)
    made = documents(published)
    pages = {path.relative_to(ROOT).as_posix() for path in GENERATED}
    drawn = {path.relative_to(ROOT).as_posix() for path in ROOT.glob("docs/strips/*.svg")}
    assert {"README.md", "docs/index.md", "results/small/README.md", *pages, *drawn} == {
        path.as_posix() for path in made
    }
    for path, text in made.items():
        # a scale's own page comes with its results, when they are published
        if path.is_file() or path.parts[0] != "results":
            assert path.read_text(encoding="utf-8") == text, path


def test_every_finding_can_be_written(published):
    """A sentence that the results contradict, or whose number is gone, has to be rewritten."""
    assert [one for paper in published.papers for page in paper.items for one in page.findings if not one.text] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_no_result_is_written_by_hand(page):
    found = RESULT.findall(by_hand(page.read_text(encoding="utf-8")))
    assert set(found) <= DECLARED.get(str(page.relative_to(ROOT)), set())


@pytest.mark.parametrize("text", ["a PSNR of 17.8 dB", "finds 74 % of them", "MSE at most 0.0011", "98.23% there"])
def test_a_result_in_a_text_is_seen(text):
    assert RESULT.search(by_hand(f"LRP has {text}."))
    assert not RESULT.search(by_hand(f"<!-- generated: strips -->\nLRP has {text}.\n<!-- end -->"))


def test_a_generated_part_is_made_anew_whatever_stood_there(published):
    old = "before\n<!-- generated: strips -->\n99.9 dB\n<!-- end -->\nafter\n"
    new = with_parts(old, published)
    assert new.startswith("before\n<!-- generated: strips -->\n![LRP: DLG on")
    assert new.endswith("[More](docs/papers/hyperfl.md)\n<!-- end -->\nafter\n")
    assert "sentences from TAG" in " ".join(new.split())
    assert "99.9" not in new
    assert with_parts(new, published) == new
