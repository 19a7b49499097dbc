"""The published site as a real browser shows it: `make test-browser` brings Playwright; the browser is the system's.

Playwright and axe live in an environment of their own, as nothing else needs them; Chromium comes with the system's
packages (Debian: `apt-get install chromium`). Without them the tests are skipped, so nothing here imports them at once.
"""

import re
import shutil
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
BROWSERS = ("chromium", "google-chrome", "chromium-browser")
WIDE = 1280


@dataclass
class Seen:
    """What a browser reports of one page."""

    errors: list[str] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)


@pytest.fixture(scope="session")
def chromium():
    """The system's Chromium, without a window."""
    found = next((path for name in BROWSERS if (path := shutil.which(name))), None)
    if found is None:
        pytest.skip("no Chromium here: apt-get install chromium")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as running:
        browser = running.chromium.launch(executable_path=found, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture(scope="session")
def report():
    """The folder of the report of the published results."""
    done = subprocess.run(
        [sys.executable, "-m", "leaklab.cli", "report", "--scale", "small"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    (page,) = re.findall(r"^report: (.*)$", done.stdout, re.MULTILINE)
    return Path(page).parent


@pytest.fixture(scope="session")
def documentation(tmp_path_factory):
    """The folder of the documentation as a site."""
    place = tmp_path_factory.mktemp("site")
    subprocess.run([sys.executable, "-m", "mkdocs", "build", "--quiet", "-d", place], cwd=ROOT, check=True)
    return place


@pytest.fixture
def show(chromium):
    """A function that shows a page at a width and returns the page and what the browser reported of it."""
    contexts = []

    def shown(path, width=WIDE, **settings):
        for context in contexts:  # one page at a time: a hundred open ones are gigabytes
            context.close()
        contexts[:] = [chromium.new_context(viewport={"width": width, "height": 900}, **settings)]
        page, seen = contexts[0].new_page(), Seen()
        page.on("console", lambda said: seen.errors.append(said.text) if said.type in ("error", "warning") else None)
        page.on("pageerror", lambda error: seen.errors.append(str(error)))
        page.on("request", lambda request: seen.requests.append(request.url))
        page.on("requestfailed", lambda request: seen.errors.append(f"{request.url}: {request.failure}"))
        page.goto(path.as_uri(), wait_until="load")
        return page, seen

    yield shown
    for context in contexts:
        context.close()
