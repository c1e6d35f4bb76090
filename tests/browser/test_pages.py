"""The HTML pages in a real browser: phone and desk, light and dark, nothing loaded, nothing moving, readable by all."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

import pytest
import pytest_asyncio
from PIL import Image
from support import browser
from support.runs import whole_run
from support.sides import measured, with_floors

from specdeck.gates.evaluate import evaluate
from specdeck.gates.models import load_gates
from specdeck.report import html
from specdeck.report.compare import html as comparison
from specdeck.stats.summary import summarize

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from support.browser import Tab

BINARY = browser.find()
pytestmark = [
    pytest.mark.skipif(BINARY is None, reason="no Chromium on PATH (Debian and Ubuntu: apt-get install chromium)"),
    pytest.mark.asyncio(loop_scope="module"),
]
DESK, PHONE = 1100, 360
VIEWS = [(page, width, dark) for page in ("run", "comparison") for width in (DESK, PHONE) for dark in (False, True)]
every_view = pytest.mark.parametrize(("page", "width", "dark"), VIEWS)

SHIFTS = """
window.shifts = 0;
new PerformanceObserver(list => { for (const e of list.getEntries()) window.shifts += e.value; })
  .observe({type: 'layout-shift', buffered: true});
"""
# Relative luminance and contrast as WCAG 2 defines them; the background is the nearest opaque one.
CONTRAST = """
(() => {
  const parse = c => (c.match(/[\\d.]+/g) || []).map(Number);
  const light = c => { const [r, g, b] = c.slice(0, 3).map(v => { v /= 255;
    return v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4; }); return .2126 * r + .7152 * g + .0722 * b; };
  const paper = e => { for (; e; e = e.parentElement) { const c = parse(getComputedStyle(e).backgroundColor);
    if (c.length === 3 || c[3] === 1) return c; } return [255, 255, 255]; };
  const low = [];
  for (const e of document.querySelectorAll('main *')) {
    if (e.tagName === 'title' || ![...e.childNodes].some(n => n.nodeType === 3 && n.data.trim())) continue;
    const style = getComputedStyle(e);
    const ink = light(parse(e instanceof SVGElement ? style.fill : style.color)), back = light(paper(e));
    const ratio = (Math.max(ink, back) + .05) / (Math.min(ink, back) + .05);
    if (!(ratio >= 4.5)) low.push([e.tagName, e.className, e.textContent.slice(0, 30), ratio]);
  }
  return low;
})()
"""
SMALL = """
[...document.querySelectorAll('main *')]
  .filter(e => e.tagName !== 'title' && [...e.childNodes].some(n => n.nodeType === 3 && n.data.trim()))
  .filter(e => parseFloat(getComputedStyle(e).fontSize) < 11.5).map(e => [e.tagName, e.textContent.slice(0, 30)])
"""
# Text of a plot that reaches over the edge of the window.
OUTSIDE = """
[...document.querySelectorAll('svg.plot text')].map(e => [e.textContent, e.getBoundingClientRect()])
  .filter(([, box]) => box.left < 0 || box.right > innerWidth).map(([text]) => text)
"""


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("pages")
    made, cells = whole_run()
    outcome = evaluate(with_floors(measured("base")), measured("slow", slower=1.2, accepted=1), load_gates("default"))
    texts = {"run": html.render(made, summarize(made, cells)), "comparison": comparison.render(outcome)}
    for name, text in texts.items():
        (folder / f"{name}.html").write_text(text, encoding="utf-8")
    return {name: folder / f"{name}.html" for name in texts}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def tab(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Tab]:
    assert BINARY is not None
    async with browser.tab(BINARY, tmp_path_factory.mktemp("profile")) as made:
        await made.call("Page.addScriptToEvaluateOnNewDocument", source=SHIFTS)
        yield made


@every_view
async def test_the_page_is_no_wider_than_the_window_and_no_label_is_cut(
    tab: Tab, pages: dict[str, Path], page: str, width: int, dark: bool
) -> None:
    await tab.open(pages[page], width=width, dark=dark)
    assert await tab.evaluate("document.scrollingElement.scrollWidth") <= width
    assert await tab.evaluate("document.querySelectorAll('svg.plot text').length") > 5
    assert await tab.evaluate(OUTSIDE) == []


@every_view
async def test_text_has_contrast_and_size_enough_to_read(
    tab: Tab, pages: dict[str, Path], page: str, width: int, dark: bool
) -> None:
    await tab.open(pages[page], width=width, dark=dark)
    assert await tab.evaluate(CONTRAST) == []
    assert await tab.evaluate(SMALL) == []


@every_view
async def test_nothing_but_the_page_is_requested_and_nothing_moves(
    tab: Tab, pages: dict[str, Path], page: str, width: int, dark: bool
) -> None:
    await tab.open(pages[page], width=width, dark=dark)
    await tab.evaluate("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")
    assert await tab.evaluate("window.shifts") == 0
    asked = [e["params"]["request"]["url"] for e in tab.events if e.get("method") == "Network.requestWillBeSent"]
    assert asked == [pages[page].as_uri()]


@pytest.mark.parametrize("page", ["run", "comparison"])
async def test_every_picture_has_a_name_for_those_who_do_not_see_it(
    tab: Tab, pages: dict[str, Path], page: str
) -> None:
    await tab.open(pages[page], width=DESK, dark=False)
    nodes = (await tab.call("Accessibility.getFullAXTree"))["nodes"]
    pictures = [n for n in nodes if not n.get("ignored") and n["role"]["value"] in ("image", "img")]
    plots = await tab.evaluate("document.querySelectorAll('svg.plot').length")
    assert len(pictures) >= plots >= 1
    assert all(len(n.get("name", {}).get("value", "")) > 20 for n in pictures if n["role"]["value"] == "image")


@pytest.mark.parametrize("page", ["run", "comparison"])
async def test_light_and_dark_are_drawn_and_differ(tab: Tab, pages: dict[str, Path], page: str) -> None:
    papers = []
    for dark in (False, True):
        await tab.open(pages[page], width=DESK, dark=dark)
        image = Image.open(io.BytesIO(await tab.screenshot())).convert("RGB")
        assert len(image.getcolors(maxcolors=16_000_000) or []) > 20
        papers.append(image.getpixel((2, 2)))
    assert papers == [(255, 255, 255), (20, 23, 28)]
