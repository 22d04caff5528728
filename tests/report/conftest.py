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
