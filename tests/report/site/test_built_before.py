"""A report is not built again of files that are as they were, and is built after any change of one."""

import os
from pathlib import Path

import pytest

from leaklab.report.site import built_before as module
from leaklab.report.site.built_before import Found, built_before, remember

READ = (
    "code/a.py", "config/items/lrp/a.yaml", "docs/glossary.md", "results/small/lrp/a.csv", "figures/small/lrp/a.png",
    "results/scoreboard/one.json", "results/runs/attack/x/run.json",
)  # fmt: skip
PAGE = Path("results/small/report/index.html")


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(module, "PACKAGE_FOLDER", Path("code"))
    for name in (*READ, str(PAGE), str(PAGE.with_name("lrp.html"))):
        Path(name).parent.mkdir(parents=True, exist_ok=True)
        Path(name).write_text("as it was")
    return tmp_path


def test_what_is_as_it_was_is_not_built_again(checkout: Path) -> None:
    assert built_before("small") is None
    remember("small", Found(PAGE, 7))
    assert built_before("small") == Found(PAGE, 7)
    assert built_before("demo") is None


@pytest.mark.parametrize("name", READ)
@pytest.mark.parametrize("change", ["written again", "gone", "a new one beside it"])
def test_any_change_of_what_is_read_builds_it_again(checkout: Path, name: str, change: str) -> None:
    remember("small", Found(PAGE))
    path = Path(name)
    if change == "gone":
        path.unlink()
    elif change == "written again":
        os.utime(path, ns=(1, 1))
    else:
        (path.parent / "new" / path.name).parent.mkdir()
        (path.parent / "new" / path.name).write_text("new")
    assert built_before("small") is None


def test_a_page_that_is_gone_is_built_again(checkout: Path) -> None:
    remember("small", Found(PAGE))
    PAGE.with_name("lrp.html").unlink()
    assert built_before("small") is None


def test_where_nothing_can_be_kept_it_is_built_again(checkout: Path) -> None:
    Path(".snakemake").write_text("a file where a folder should be")
    remember("small", Found(PAGE))
    assert built_before("small") is None
