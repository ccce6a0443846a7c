"""The page Requests in a browser: themes, a phone, picking, zoom, names that are no markup."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page

from tests.dashboard import test_browser as shared
from tests.dashboard.test_browser import NASTY, Theme, fed, opened, serving

folder = shared.folder
shots = shared.shots
browser = shared.browser
SLOWEST = ".sheet[aria-label='Slowest requests']"
PAUSES = ".sheet[aria-label='Longest pauses']"

pytestmark = [pytest.mark.tools("chromium"), pytest.mark.slow]


@pytest.fixture(scope="module")
def address(folder: Path) -> Iterator[str]:
    """Return the address of the page over a lake whose engines have taps, written meanwhile."""
    flags = ("--taps", "--nasty", "--seconds=240")
    with fed(folder / "tapped", folder, *flags) as lake, serving(lake, folder) as served:
        yield f"{served}/requests?range=5+min"


def ready(page: Page) -> None:
    page.wait_for_selector(f"{SLOWEST} .pick", timeout=60_000)
    page.wait_for_selector("[data-testid=stEChartsChart] canvas >> nth=2", timeout=60_000)


def fits(page: Page) -> bool:
    """Return whether nothing sticks out sideways, of the page or of a table."""
    return bool(
        page.evaluate(
            "document.scrollingElement.scrollWidth <= window.innerWidth && "
            "[...document.querySelectorAll('.sheet table')].every("
            "(table) => table.getBoundingClientRect().right <= window.innerWidth + 1)"
        )
    )


@pytest.mark.parametrize(
    ("theme", "size"), [("dark", "desktop"), ("light", "desktop"), ("dark", "phone")]
)
def test_lists_and_one_request_open(
    browser: Browser, address: str, shots: Path, theme: Theme, size: str
) -> None:
    name = "phone" if size == "phone" else theme
    with opened(browser, address, theme, size) as page:
        ready(page)
        page.wait_for_timeout(1_000)
        page.screenshot(path=shots / f"requests-{name}.png")
        assert fits(page)
        page.locator(f"{PAUSES} .pick").first.click()
        page.wait_for_url("**request=*", timeout=20_000)
        page.wait_for_selector(".board canvas >> nth=2", timeout=20_000)
        page.wait_for_timeout(1_500)
        page.screenshot(path=shots / f"request-{name}.png")
        assert fits(page)
        heading = page.get_by_role("heading", name="Request ").bounding_box()
        assert heading is not None
        assert 40 <= heading["y"] <= 400, "it scrolled to where the reader looks"


def test_a_permalink_shows_the_request_and_the_way_back(browser: Browser, address: str) -> None:
    with opened(browser, address) as page:
        ready(page)
        link = page.locator(f"{SLOWEST} .pick").first
        number = link.inner_text()
        target = link.get_attribute("href") or ""
        assert "range=5+min" in target
        assert f"request={number}" in target
        page.goto(f"{address.partition('/requests')[0]}{target}")
        page.get_by_role("heading", name=f"Request {number}").wait_for(timeout=60_000)
        page.wait_for_selector(".board canvas >> nth=2", timeout=20_000)
        page.get_by_text("All requests", exact=True).click()
        page.wait_for_function("!location.search.includes('request=')", timeout=20_000)
        ready(page)


def test_a_zoom_into_a_request_stays_while_the_page_refreshes(
    browser: Browser, address: str
) -> None:
    with opened(browser, f"{address}&refresh=every+1+s") as page:
        ready(page)
        page.locator(f"{SLOWEST} .pick").first.click()
        page.wait_for_selector(".board canvas >> nth=2", timeout=20_000)
        page.wait_for_timeout(1_000)
        box = page.locator(".u-over").first.bounding_box()
        assert box is not None
        page.mouse.move(box["x"] + 300, box["y"] + 30)
        page.mouse.down()
        page.mouse.move(box["x"] + 600, box["y"] + 30, steps=4)
        page.mouse.up()
        page.get_by_role("button", name="Whole range").wait_for(timeout=10_000)
        shown = page.locator(".board > .foot .note").inner_text()
        page.wait_for_timeout(3_500)
        assert page.locator(".board > .foot .note").inner_text() == shown


def test_a_stretch_of_a_long_range_opens_as_a_zoom(browser: Browser, address: str) -> None:
    with opened(browser, address.replace("5+min", "1+h")) as page:
        page.wait_for_selector(f"{PAUSES} .pick", timeout=60_000)
        page.locator(f"{PAUSES} .pick").first.click()
        page.wait_for_url("**since=*", timeout=20_000)
        page.get_by_role("columnheader", name="Meanwhile").wait_for(timeout=20_000)


def test_names_that_try_to_be_markup_stay_text(browser: Browser, address: str) -> None:
    with opened(browser, address) as page:
        ready(page)
        page.get_by_role("combobox", name="Route").click()
        page.get_by_role("option", name=NASTY).click()
        page.wait_for_timeout(2_500)
        page.locator(f"{SLOWEST} .pick").first.click()
        page.wait_for_selector(".board canvas >> nth=2", timeout=20_000)
        assert page.get_by_text(NASTY).first.is_visible()
        assert page.locator("img[src='x']").count() == 0
