"""The pages in a real browser: both themes, a phone, zoom and refresh, names that are no markup."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Browser, ConsoleMessage, Page, sync_playwright

REPO = Path(__file__).resolve().parents[2]
FEED = Path(__file__).with_name("lake_fixture.py")
NASTY = "<img src=x onerror=alert(1)>![x](http://192.0.2.1/x.png)"
HARMLESS = ("Infinite extent", "GL Driver Message")
"""Words of console warnings that Vega and Chromium's software rendering write on any page."""
PROBES = ("/_stcore/health", "/_stcore/host-config")
"""Streamlit looks for its server below the page's own path first, and gets a 404 there."""
Theme = Literal["dark", "light"]
Sizes = dict[str, tuple[int, int]]
SIZES: Sizes = {"desktop": (1440, 1000), "phone": (390, 844)}

pytestmark = [pytest.mark.tools("chromium"), pytest.mark.slow]


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


def own_environment(lake: Path) -> dict[str, str]:
    return os.environ | {
        "STALLSCOPE_LAKE_PATH": str(lake),
        "STALLSCOPE_HOST_NAME": "gpu-eu1-07",
        "PYTHONPATH": str(REPO),
    }


@contextmanager
def running(command: list[str], environment: dict[str, str], log: Path) -> Iterator[None]:
    """Run a process for as long as the block lasts."""
    with log.open("wb") as out:
        process = subprocess.Popen(
            command, env=environment, cwd=log.parent, stdout=out, stderr=subprocess.STDOUT
        )
        try:
            yield
        finally:
            process.terminate()
            process.wait(20)


@contextmanager
def serving(lake: Path, folder: Path) -> Iterator[str]:
    """Serve the pages over a lake and give their address."""
    port = free_port()
    command = [
        sys.executable, "-m", "streamlit", "run", str(REPO / "dashboard" / "app.py"),
        f"--server.port={port}",
    ]  # fmt: skip
    with running(command, own_environment(lake), folder / "server.log"):
        address = f"http://127.0.0.1:{port}"
        wait_for(lambda: _answers(f"{address}/_stcore/health"), "the server")
        yield address


def _answers(address: str) -> bool:
    try:
        with urllib.request.urlopen(address, timeout=2) as answer:  # noqa: S310 - loopback
            return bool(answer.status == 200)
    except OSError:
        return False


def wait_for(holds: Callable[[], bool], what: str, seconds: float = 60) -> None:
    until = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < until, f"{what} did not come up within {seconds} s"
        time.sleep(0.1)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("browser")


@pytest.fixture(scope="module")
def shots() -> Path:
    """Return where pictures go: STALLSCOPE_SHOTS of whoever runs this, else a folder in /tmp."""
    path = Path(os.environ.get("SCREENSHOTS") or "/tmp/stallscope-screenshots")  # noqa: S108
    path.mkdir(parents=True, exist_ok=True)
    return path


@contextmanager
def fed(lake: Path, folder: Path, *flags: str) -> Iterator[Path]:
    """Build a lake and feed it in real time for as long as the block lasts."""
    log = folder / f"{lake.name}.log"
    command = [sys.executable, str(FEED), str(lake), "--follow", *flags]
    with running(command, own_environment(lake), log):
        wait_for(lambda: "built" in log.read_text(encoding="utf-8"), "the lake")
        yield lake


@pytest.fixture(scope="module")
def address(folder: Path) -> Iterator[str]:
    """Return the address of the pages over a lake that is written meanwhile."""
    with (
        fed(folder / "lake", folder, "--nasty", "--gpus=3") as lake,
        serving(lake, folder) as served,
    ):
        yield served


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    # Chromium's sandbox refuses to run as root, as it is in a container.
    flags = ["--no-sandbox"] if os.geteuid() == 0 else []
    with sync_playwright() as driver:
        chromium = driver.chromium.launch(executable_path="/usr/bin/chromium", args=flags)
        yield chromium
        chromium.close()


class Watched:
    """A page whose console and requests are watched."""

    def __init__(self, browser: Browser, theme: Theme, size: str) -> None:
        width, height = SIZES[size]
        self.context = browser.new_context(
            viewport={"width": width, "height": height}, color_scheme=theme
        )
        self.page: Page = self.context.new_page()
        self.complaints: list[str] = []
        self.requests: list[str] = []
        self.page.on("console", self._console)
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.on("request", lambda request: self.requests.append(request.url))
        self.page.on("dialog", lambda dialog: self.complaints.append(f"dialog: {dialog.message}"))

    def _console(self, message: ConsoleMessage) -> None:
        known = any(words in message.text for words in HARMLESS)
        probe = any(message.location.get("url", "").endswith(path) for path in PROBES)
        if message.type in {"error", "warning"} and not known and not probe:
            self.complaints.append(f"{message.type}: {message.text} {message.location}")

    def close(self) -> None:
        """Close the page; it must have been quiet and must have stayed on loopback."""
        self.context.close()
        assert self.complaints == []
        away = [url for url in self.requests if not _is_ours(url)]
        assert away == []


def _is_ours(url: str) -> bool:
    parts = urlsplit(url)
    return parts.scheme in {"data", "blob"} or parts.hostname == "127.0.0.1"


@contextmanager
def opened(
    browser: Browser, address: str, theme: Theme = "dark", size: str = "desktop"
) -> Iterator[Page]:
    watched = Watched(browser, theme, size)
    try:
        watched.page.goto(address)
        yield watched.page
    finally:
        watched.close()


READY = {
    "": ".board canvas >> nth=7",
    "copy-path": "[data-testid=stEChartsChart] canvas >> nth=1",
    "sql": "[data-testid=stDataFrame] canvas >> nth=0",
    "data-health": ".health table tr >> nth=3",
}


@pytest.mark.parametrize("path", READY)
@pytest.mark.parametrize(
    ("theme", "size"), [("dark", "desktop"), ("light", "desktop"), ("dark", "phone")]
)
def test_every_page_opens(
    browser: Browser, address: str, shots: Path, path: str, theme: Theme, size: str
) -> None:
    with opened(browser, f"{address}/{path}", theme, size) as page:
        page.wait_for_selector(READY[path], timeout=60_000)
        page.wait_for_timeout(1_500)
        name = path or "now"
        page.screenshot(path=shots / f"{name}-{'phone' if size == 'phone' else theme}.png")
        wide = page.evaluate("document.scrollingElement.scrollWidth <= window.innerWidth")
        assert wide, "nothing sticks out sideways"
        assert not page.get_by_text("Traceback").count()


def test_names_that_try_to_be_markup_stay_text(browser: Browser, address: str) -> None:
    with opened(browser, address) as page:
        page.wait_for_selector(READY[""], timeout=60_000)
        assert page.get_by_text(NASTY).first.is_visible()
        page.locator("[data-testid=stSelectbox]").first.click()
        page.get_by_role("option", name=NASTY).click()
        page.wait_for_timeout(2_500)
        page.mouse.move(700, 500)
        page.get_by_text("Show as table").click()
        page.wait_for_timeout(500)
        assert page.locator("img[src='x']").count() == 0


def test_a_zoom_survives_refreshes_and_stands_in_the_url(
    browser: Browser, address: str, shots: Path
) -> None:
    with opened(browser, f"{address}/?refresh=every+1+s") as page:
        page.wait_for_selector(READY[""], timeout=60_000)
        page.wait_for_timeout(1_500)
        box = page.locator(".u-over").first.bounding_box()
        assert box is not None
        page.mouse.move(box["x"] + 300, box["y"] + 30)
        page.mouse.down()
        page.mouse.move(box["x"] + 500, box["y"] + 30, steps=4)
        page.mouse.up()
        page.wait_for_url("**since=*", timeout=10_000)
        note = page.locator(".board > .foot .note")
        note.get_by_text("windows of 1 s").wait_for(timeout=10_000)
        shown = note.inner_text()
        page.wait_for_timeout(3_500)
        assert note.inner_text() == shown, "the stretch stands still while data goes on"
        page.mouse.move(box["x"] + 400, box["y"] + 90)
        page.wait_for_timeout(300)
        assert page.locator(".board .time").is_visible(), "one cursor through all panels"
        page.screenshot(path=shots / "now-zoomed.png")
        page.reload()
        page.wait_for_selector(READY[""], timeout=60_000)
        page.wait_for_timeout(1_500)
        assert page.locator(".board > .foot .note").inner_text() == shown
        page.get_by_role("button", name="Whole range").click()
        page.wait_for_function("!location.search.includes('since')", timeout=10_000)


def test_the_board_can_be_used_from_the_keyboard(browser: Browser, address: str) -> None:
    with opened(browser, address) as page:
        page.wait_for_selector(READY[""], timeout=60_000)
        page.wait_for_timeout(1_000)
        page.locator(".board").focus()
        page.keyboard.press("ArrowLeft")
        page.wait_for_timeout(300)
        first = page.locator(".board .time").inner_text()
        page.keyboard.press("Shift+ArrowLeft")
        page.wait_for_timeout(300)
        assert page.locator(".board .time").inner_text() < first
        page.keyboard.press("+")
        page.wait_for_url("**since=*", timeout=10_000)
        page.keyboard.press("0")
        page.wait_for_function("!location.search.includes('since')", timeout=10_000)
        page.keyboard.press("?")
        page.wait_for_selector(".keys")


def test_new_data_arrives_by_itself(browser: Browser, address: str) -> None:
    with opened(browser, f"{address}/?refresh=every+1+s") as page:
        page.wait_for_selector(READY[""], timeout=60_000)
        page.wait_for_selector(".chip.live", timeout=20_000)
        first = page.locator(".clock").inner_text()
        page.wait_for_timeout(3_000)
        assert page.locator(".clock").inner_text() > first
        assert page.locator(".chip.live").is_visible()
        assert page.get_by_role("status").first.inner_text()


def test_sql_runs_and_gives_files(browser: Browser, address: str, shots: Path) -> None:
    sql = "SELECT name, kind FROM device WHERE kind = 'disk' ORDER BY name"
    with opened(browser, f"{address}/sql?q={sql.replace(' ', '+')}") as page:
        page.wait_for_selector("textarea", timeout=60_000)
        assert page.locator("textarea").first.input_value() == sql
        page.get_by_role("button", name="Run", exact=True).click()
        page.get_by_text("4 rows").wait_for(timeout=30_000)
        with page.expect_download() as download:
            page.get_by_role("button", name="Export csv").click()
        lines = Path(download.value.path()).read_text(encoding="utf-8").splitlines()
        assert lines[:2] == ['"name","kind"', '"nvme0n1","disk"']
        page.screenshot(path=shots / "sql-result.png")


def test_the_copy_path_leads_to_its_rows(browser: Browser, address: str, shots: Path) -> None:
    """Dots say what they are, a link of the reader's choice stands in the URL, SQL is one click."""
    with opened(browser, f"{address}/copy-path?engine=rag-long") as page:
        page.wait_for_selector(READY["copy-path"], timeout=60_000)
        page.wait_for_timeout(1_500)
        assert page.get_by_text("ITL spikes against copy-queue contention").is_visible()
        assert page.get_by_text("Rise together").is_visible()
        assert page.get_by_text(NASTY).count(), "a GPU's model is shown as it is"
        assert page.locator("img[src='x']").count() == 0
        page.locator(".board").get_by_text("limit").first.wait_for(timeout=10_000)
        page.locator("[data-testid=stSelectbox]").last.click()
        page.get_by_role("option", name="GPU 2 D2H").click()
        page.wait_for_url("**link=GPU+2+D2H*", timeout=10_000)
        page.get_by_text("GPU 2 D2H, link saturation").wait_for(timeout=20_000)
        page.get_by_text("nodes as a list").click()
        page.get_by_text("rag-long engine core").last.wait_for(timeout=10_000)
        page.screenshot(path=shots / "copy-path.png", full_page=True)
        page.get_by_role("link", name="Open as SQL").first.click()
        page.wait_for_selector("textarea", timeout=60_000)
        filled = page.locator("textarea").first.input_value()
        assert "FROM copy_contention(" in filled
        assert "WHERE device = 12 AND direction = 'tx'" in filled
        assert not page.get_by_text("rows in").count(), "it fills the editor and does not run"
        page.get_by_role("button", name="Run", exact=True).click()
        page.get_by_text("Export csv").wait_for(timeout=30_000)


def test_without_an_engine_and_after_the_collector_stopped(
    browser: Browser, folder: Path, shots: Path
) -> None:
    with fed(folder / "bare", folder, "--no-engine", "--seconds=60") as lake:
        pass
    with serving(lake, folder) as served, opened(browser, served) as page:
        page.wait_for_selector(".board canvas >> nth=2", timeout=60_000)
        page.get_by_text("The collector stopped sending at").wait_for(timeout=20_000)
        assert page.get_by_text("No engine answers on this host.").is_visible()
        page.screenshot(path=shots / "now-stale.png")
        page.locator(".banner .btn").first.click()
        page.get_by_text("Find the engine").wait_for(timeout=30_000)
        page.screenshot(path=shots / "data-health-no-engine.png")
