"""The page in a real browser; `make test-browser` runs it where there is a Chromium."""

import os
import shutil

import pytest
from hand_made_runs import alone, guided, pretrained

from actionless.reporting.report import report

pytestmark = [
    pytest.mark.browser,
    # Playwright's loop is closed by its own process.
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]


@pytest.fixture(scope="module")
def browser():
    found = os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")
    if found is None:
        pytest.fail("no Chromium here: install it (apt-get install chromium), or name the program in CHROMIUM")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=found, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def address(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs")
    long_name = "an_agent_with_a_name_that_is_longer_than_a_phone_is_wide_by_far"
    runs = [alone(folder / f"a{seed}", 1.0, 2.0 + seed, 3.0, seed=seed) for seed in (0, 1)]
    runs += [guided(folder / f"g{seed}", 2.0, 3.0 + seed, 5.0, seed=seed) for seed in (0, 1)]
    runs += [alone(folder / long_name, 1.0, 2.0, agent=long_name), pretrained(folder / "p", 0.5, 0.6)]
    return report(runs, folder / "page.html").as_uri()


@pytest.fixture
def opened(browser, address):
    contexts = []

    def open_page(**options):
        context = browser.new_context(offline=True, **options)
        contexts.append(context)
        page = context.new_page()
        page.messages = []
        page.on("console", lambda message: page.messages.append(message.text))
        page.on("pageerror", lambda error: page.messages.append(str(error)))
        page.goto(address)
        page.wait_for_selector("html[data-drawn]", timeout=120_000)
        return page

    yield open_page
    for context in contexts:
        context.close()


def test_it_loads_offline_without_messages_and_draws_every_chart(opened):
    page = opened()
    places = page.locator(".chart").count()
    assert places == 11
    assert page.locator(".chart .main-svg").count() >= places
    assert page.get_attribute("html", "data-drawn") == str(places)
    assert page.locator("#chart-0-realised-td3-guided image, #chart-0-realised-td3-guided .hm").count() > 0
    assert page.messages == []


def test_no_button_sends_anything_away(opened):
    titles = opened().eval_on_selector_all(".modebar-btn", "all => [...new Set(all.map(one => one.dataset.title))]")
    assert sorted(titles) == ["Download plot as a PNG", "Pan", "Reset axes", "Zoom", "Zoom in", "Zoom out"]


@pytest.mark.parametrize(("scheme", "other"), [("light", "dark"), ("dark", "light")])
def test_colours_follow_the_system_and_the_button(opened, scheme, other):
    page = opened(color_scheme=scheme)

    def look():
        return page.evaluate(
            """() => [document.documentElement.dataset.theme, getComputedStyle(document.body).backgroundColor,
                      document.getElementById("chart-0-return").layout.font.color]"""
        )

    first = look()
    page.click("#theme")
    second = look()
    assert (first[0], second[0]) == (scheme, other)
    assert first[1] != second[1]
    assert first[2] != second[2]
    page.click("#theme")
    assert look() == first
    assert page.messages == []


def test_an_entry_of_the_legend_toggles_its_band_seeds_and_mean(opened):
    page = opened()
    chart = page.locator("#chart-0-return")
    entries = chart.locator(".legend .traces")
    names = entries.all_text_contents()
    entries.nth(names.index("td3 alone (2 seeds)")).locator(".legendtoggle").click()
    hidden = "chart => chart.data.filter(trace => trace.visible === 'legendonly').map(trace => trace.legendgroup)"
    page.wait_for_function(f"({hidden})(document.getElementById('chart-0-return')).length > 0")
    assert chart.evaluate(hidden) == ["td3 alone"] * 5  # low, high, two seeds, mean
    assert page.messages == []


def test_a_drag_zooms(opened):
    page = opened()
    chart = page.locator("#chart-0-return")
    chart.scroll_into_view_if_needed()
    box = chart.locator(".nsewdrag").first.bounding_box()
    before = chart.evaluate("chart => chart.layout.xaxis.range")
    page.mouse.move(box["x"] + box["width"] * 0.3, box["y"] + 60)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] * 0.7, box["y"] + 62, steps=5)
    page.mouse.up()
    page.wait_for_timeout(300)
    after = chart.evaluate("chart => chart.layout.xaxis.range")
    assert after[1] - after[0] < 0.6 * (before[1] - before[0])


def test_a_phone_scrolls_down_only(opened):
    page = opened(viewport={"width": 390, "height": 844}, has_touch=True, is_mobile=True)
    assert page.evaluate("document.documentElement.scrollWidth") == 390
    assert page.evaluate("[...document.querySelectorAll('figure')].every(f => f.scrollWidth <= f.clientWidth)")
    assert page.messages == []
