"""The documentation builds as a site, without a warning and without a network, and its pages fetch nothing."""

import re
import socket
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

import pytest
from mkdocs.commands.build import build
from mkdocs.config import load_config

ROOT = Path(__file__).parents[2]
FETCHED = re.compile(r"<(?:script|img|iframe|source)\b[^>]*\bsrc=\"([^\"]+)|<link\b[^>]*\bhref=\"([^\"]+)")


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The folder of the site; a warning is an error, and so is whoever connects to somewhere."""
    folder = tmp_path_factory.mktemp("site")

    def refused(*_):
        raise AssertionError("the documentation asks for a network")

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("NO_MKDOCS_2_WARNING", "1")
        patch.setattr(socket.socket, "connect", refused)
        patch.chdir(ROOT)
        config = load_config(str(ROOT / "mkdocs.yml"), site_dir=str(folder), strict=True)
        config.plugins.run_event("startup", command="build", dirty=False)
        build(config)
        config.plugins.run_event("shutdown")
    return folder


def test_what_an_environment_of_peers_brings_is_no_page(tmp_path, monkeypatch):
    place = spec_from_file_location("build_site", ROOT / "docs/build_site.py")
    build_site = module_from_spec(place)
    place.loader.exec_module(build_site)
    for name in ("docs/one.md", "benchmarks/two.md", "benchmarks/.venvs/peer/LICENSE.md"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    monkeypatch.setattr(build_site, "ROOT", tmp_path)
    assert set(build_site._pages()) == {"one.md", "benchmarks/two.md"}


def test_every_page_of_the_documentation_is_a_page_of_the_site(site):
    folders = {"docs": ".", "config": "config", "profiles": "profiles", "benchmarks": "benchmarks"}
    for source, target in folders.items():
        found = [page.relative_to(ROOT / source) for page in (ROOT / source).rglob("*.md")]
        for page in (page for page in found if not page.parts[0].startswith(".")):
            name = page.with_suffix(".html").as_posix().replace("README", "index")
            text = (site / target / name).read_text(encoding="utf-8")
            assert 'class="md-nav__link md-nav__link--active"' in text, f"{name} is not in the navigation"


def test_pages_fetch_only_what_is_there(site):
    pages = list(site.rglob("*.html"))
    assert len(pages) > 50
    for page in pages:
        for found in FETCHED.finditer(page.read_text(encoding="utf-8")):
            place = (found[1] or found[2]).partition("#")[0].partition("?")[0]
            if page.name != "404.html" and not place.startswith("data:"):
                assert (page.parent / place).exists(), (page.name, place)
    sheets = "".join(sheet.read_text(encoding="utf-8") for sheet in site.rglob("*.css"))
    assert not re.search(r"@import|url\(\s*[\"']?https?:", sheets)


def test_the_public_names_are_told_with_their_arguments(site):
    text = (site / "api.html").read_text(encoding="utf-8")
    offered = re.findall(r'"(\w+)"', (ROOT / "src/leaklab/__init__.py").read_text(encoding="utf-8"))
    assert {"Defense", "judge", "Client", "probe", "record_update", "flower"} <= set(offered)
    for name in offered:
        assert re.search(rf'id="leaklab\.[\w.]*\b{name}(?:\.record)?"', text), name
    assert all(word in text for word in ("budget", "arena", "Raises", "context"))
