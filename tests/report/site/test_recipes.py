from pathlib import Path

import pytest

from leaklab.items.items import load_items
from leaklab.planning.plan import build_plan
from leaklab.report.site.recipes import pages_about, recipe_of

ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="module")
def items():
    return load_items(ROOT / "config/items")


@pytest.mark.parametrize(
    ("parts", "pages"),
    [
        ({("attacks", "dlg"), ("attacks", "ggl")}, ("docs/attacks-matching.md", "docs/attacks-priors.md")),
        (
            {("attacks", "dlg"), ("attacks/adaptive", "profiled-scale")},
            ("docs/attacks-knowing.md", "docs/attacks-matching.md"),
        ),
        ({("attacks", "dlg"), ("attacks/adaptive", "none")}, ("docs/attacks-matching.md",)),
        ({("defenses", "lrp")}, ("docs/training.md",)),
    ],
)
def test_the_pages_about_what_ran(parts, pages, monkeypatch):
    monkeypatch.chdir(ROOT)
    assert pages_about(parts) == pages


def test_every_file_that_an_item_names_is_there(items, monkeypatch):
    monkeypatch.chdir(ROOT)
    item = items["lrp/table3"]
    recipe = recipe_of(item, "small", build_plan({item.key: item}, ("small",)).jobs_of("small", item))
    assert recipe.settings == "config/items/lrp/table3.yaml"
    assert {"src/leaklab/attacks/ggl.py", "src/leaklab/defenses/lrp.py"} <= set(recipe.code)
    assert all((ROOT / path).is_file() for path in (recipe.settings, *recipe.code, *recipe.pages))
