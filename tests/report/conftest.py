import shutil
from pathlib import Path

import pytest

CHROMIUM = Path(shutil.which("chromium") or "chromium")
CHROMIUM_ARGS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--no-first-run", "--disable-sync"]


@pytest.fixture(scope="module")
def browser():
    if not CHROMIUM.exists():
        pytest.skip(f"no {CHROMIUM}: the page is not opened in a browser")
    playwright = pytest.importorskip("playwright.sync_api", reason="no playwright: the page is not opened in a browser")
    with playwright.sync_playwright() as engine:
        chromium = engine.chromium.launch(executable_path=str(CHROMIUM), args=CHROMIUM_ARGS)
        yield chromium
        chromium.close()


@pytest.fixture
def opened(browser):
    """Open a file; at the end of the test nothing was complained of and nothing else was fetched."""
    pages, complaints, requests = [], [], []

    def show(path):
        page = browser.new_page(viewport={"width": 1280, "height": 800})
        page.on("console", lambda message: complaints.append(message.text))
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("dialog", lambda dialog: (complaints.append(dialog.message), dialog.dismiss()))
        page.on("request", lambda request: requests.append(request.url))
        page.goto(path.as_uri())
        pages.append(page)
        return page

    yield show
    for page in pages:
        page.close()
    assert complaints == []
    assert [url for url in requests if not url.startswith(("file:", "data:"))] == []
    assert len([url for url in requests if url.startswith("file:")]) == len(pages)
