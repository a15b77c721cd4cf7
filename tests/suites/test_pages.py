"""The pages, opened in headless Chromium: wide and narrow, light and dark, by keyboard."""

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, ConsoleMessage, Page, sync_playwright

from harness.campaigns.known import KnownFindings
from harness.campaigns.night_index import write_index
from harness.machine.install import install_packages, may_install
from tests.unit import report_fixture as fixture
from tests.unit.test_known import LOSS, OTHER, TODAY, nights_before
from tests.unit.test_night_index import ran
from verifiers.report import write_report

pytestmark = pytest.mark.nightly

WIDTHS = (1280, 390)
SCHEMES = ("light", "dark")


def report(build: Callable[[Path], Path]) -> Callable[[Path], Path]:
    def written(folder: Path) -> Path:
        write_report(build(folder))
        return folder / "report.html"

    return written


def index(folder: Path) -> Path:
    nights = [*nights_before(12, LOSS), ran("20261124-x", LOSS, OTHER)]
    return write_index(folder, nights, known=KnownFindings(today=TODAY))


PAGES: dict[str, Callable[[Path], Path]] = {
    "valid report": report(fixture.valid),
    "invalid report": report(fixture.invalid),
    "unknown report": report(fixture.unknown),
    "report of an aborted run": report(fixture.empty),
    "index of nights": index,
}


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Chromium of the machine; installed where that may be."""
    if shutil.which("chromium") is None and may_install():
        install_packages(["chromium"], say=print)
    program = shutil.which("chromium")
    assert program is not None, "The pages are to be seen in Chromium: apt-get install chromium."
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        yield chromium
        chromium.close()


Open = Callable[..., Page]


@pytest.fixture
def opened(browser: Browser) -> Iterator[Open]:
    """Open a page: `opened(path, width=1280, scheme="light")`; its script must not complain."""
    contexts: list[Any] = []
    complaints: list[str] = []

    def complain(message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            complaints.append(message.text)

    def show(path: Path, *, width: int = 1280, scheme: Any = "light") -> Page:
        context = browser.new_context(
            viewport={"width": width, "height": 900}, color_scheme=scheme, offline=True
        )
        contexts.append(context)
        page = context.new_page()
        page.on("console", complain)
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.goto(path.as_uri())
        return page

    yield show
    for context in contexts:
        context.close()
    assert complaints == []


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("name", PAGES)
def test_a_page_fits_its_window(
    name: str, width: int, scheme: str, opened: Open, tmp_path: Path
) -> None:
    page = opened(PAGES[name](tmp_path), width=width, scheme=scheme)
    page.evaluate("document.querySelectorAll('details').forEach(part => { part.open = true; })")

    # What is wider, as the lanes on a telephone, scrolls in a frame of its own.
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    heading = page.locator("h1")
    assert heading.is_visible()
    ink, paper = (
        page.evaluate(f"getComputedStyle(document.body).{name}")
        for name in ("color", "backgroundColor")
    )
    assert (lightness(ink) < lightness(paper)) == (scheme == "light")


def lightness(colour: str) -> int:
    """Return the sum of the three parts of `rgb(…)`."""
    return sum(int(part) for part in colour.strip("rgba()").split(",")[:3])


def test_keys_move_the_cursor_and_zoom(opened: Open, tmp_path: Path) -> None:
    page = opened(PAGES["invalid report"](tmp_path))
    readout = page.locator("#readout")
    ticks = page.locator("svg.scale").first.locator(".tick")
    assert not readout.is_visible()
    whole = ticks.all_inner_texts()

    page.locator("#lanes").focus()
    for _ in range(60):
        page.keyboard.press("ArrowRight")
    assert "broker_kill" in readout.inner_text() or "no fault" in readout.inner_text()
    for _ in range(4):
        page.keyboard.press("+")
    zoomed = ticks.all_inner_texts()
    page.keyboard.press("Escape")

    assert zoomed != whole
    assert ticks.all_inner_texts() == whole


def test_a_mark_of_an_anomaly_leads_to_its_card_also_in_a_folded_part(
    opened: Open, tmp_path: Path
) -> None:
    path = PAGES["invalid report"](tmp_path)
    page = opened(path)
    card = page.locator("#anomaly-duplicate")
    assert not card.is_visible()

    page.goto(f"{path.as_uri()}#anomaly-duplicate")

    card.wait_for(state="visible")


def test_every_fold_opens_by_keyboard(opened: Open, tmp_path: Path) -> None:
    page = opened(PAGES["invalid report"](tmp_path))
    folds = page.locator("summary")
    assert folds.count() > 5

    for fold in folds.all():
        if fold.is_visible():
            before = fold.evaluate("e => e.parentElement.open")
            fold.focus()
            page.keyboard.press("Enter")
            assert fold.evaluate("e => e.parentElement.open") != before
