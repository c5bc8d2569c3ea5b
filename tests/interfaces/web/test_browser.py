"""The page in a real browser: Debian's chromium, driven by Playwright. Screenshots are in build/screens."""

import csv
import json
import os
import re
import shutil
import time
from pathlib import Path

import numpy as np
import pytest

from web_servers import image, png

SCREENS = Path(__file__).parents[3] / "build" / "screens"
CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
IS_REQUIRED = os.environ.get("PNCA_BROWSER_REQUIRED") == "1"
DESKTOP, PHONE = {"width": 1280, "height": 900}, {"width": 390, "height": 844}


def test_browser__is_there_where_it_is_required():
    assert CHROMIUM or not IS_REQUIRED, "PNCA_BROWSER_REQUIRED=1, but there is no chromium: install it"


pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning")
if CHROMIUM is None and not IS_REQUIRED:
    pytest.skip("there is no chromium on this machine: apt-get install chromium", allow_module_level=True)
if IS_REQUIRED:
    from playwright import sync_api
else:
    sync_api = pytest.importorskip("playwright.sync_api", reason="pip install 'pnca[test]'")


@pytest.fixture(scope="module")
def browser():
    assert CHROMIUM, "there is no chromium, but PNCA_BROWSER_REQUIRED=1"
    with sync_api.sync_playwright() as playwright:
        found = playwright.chromium.launch(
            executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"]
        )
        yield found
        found.close()


class Page:
    """A tab that remembers every request and everything that the browser complains of."""

    def __init__(self, browser, address, size=DESKTOP, scheme="light"):
        self.address, self.complaints, self.requested = address, [], []
        self.context = browser.new_context(viewport=size, color_scheme=scheme, accept_downloads=True)
        self.tab = self.context.new_page()
        self.tab.set_default_timeout(20_000)
        self.tab.on("console", lambda message: self.complaints.append(message.text))
        self.tab.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.tab.on("request", lambda request: self.requested.append(request.url))
        self.tab.goto(address)

    def upload(self, *files):
        payload = [{"name": name, "mimeType": "", "buffer": content} for name, content in files]
        self.tab.set_input_files("#files", payload)
        self.tab.wait_for_url(re.compile("/batches/"))

    def shot(self, name):
        SCREENS.mkdir(parents=True, exist_ok=True)
        self.tab.screenshot(path=SCREENS / f"{name}.png", full_page=True)

    def text(self, selector):
        return self.tab.inner_text(selector).replace("\u00a0", " ")

    def until(self, script, *, seconds=20):
        """Wait until a script is true, by polling: the page's policy forbids it to evaluate text."""
        end = time.monotonic() + seconds
        while not self.tab.evaluate(script):
            assert time.monotonic() < end, script
            self.tab.wait_for_timeout(30)

    def overflow(self):
        """By how many pixels the page is wider than the window."""
        return self.tab.evaluate("document.documentElement.scrollWidth - window.innerWidth")


@pytest.fixture
def opened(browser):
    pages = []

    def open_page(address, **options):
        pages.append(Page(browser, address, **options))
        return pages[-1]

    yield open_page
    for page in pages:
        page.context.close()
        assert page.complaints == []
        foreign = [url for url in page.requested if not url.startswith((page.address, "data:"))]
        assert foreign == []


@pytest.fixture(scope="module")
def pictures():
    rng = np.random.default_rng(9)
    found = [(f"{label}_{i}.png", png(image(label, rng))) for i in range(4) for label in ("up", "down")]
    return [*found, ("noise.png", png(rng.integers(0, 255, (8, 8)).astype(np.uint8)))]


def wait_for_status(page, text):
    page.until(f"document.getElementById('status').textContent.includes({json.dumps(text)})")


def test_one_row__is_answered_and_an_example_can_be_left_out(opened, table_server, csv_file):
    page = opened(table_server)
    page.shot("table-home-desktop-light")
    page.upload(("new.csv", b"".join(csv_file.splitlines(keepends=True)[:2])))
    title = page.text("h1")
    assert title.startswith(("well: answered", "ill: answered", "Not answered: "))
    assert "marker" in page.text(".itself")
    assert page.tab.locator("figure svg").count() == 2
    page.shot("table-case-desktop-light")
    wait_for_status(page, title[:20])  # a screen reader is told, and nothing is shown twice
    assert page.tab.evaluate("document.getElementById('status').offsetHeight") <= 1
    cards = page.tab.locator(".strip > li > a:first-child")
    assert cards.count() == 5
    assert "share" in cards.first.get_attribute("aria-label")
    cards.first.focus()
    page.tab.keyboard.press("Enter")
    page.tab.wait_for_selector(".what-if")
    assert "without=" in page.tab.url
    assert "before and" in page.text(".what-if strong")
    wait_for_status(page, "Without 1 training example")
    assert page.tab.evaluate("document.activeElement.id").startswith("without-")  # the focus stays
    page.tab.locator(".strip > li > a:first-child").nth(1).click()
    page.until("document.querySelector('.what-if').innerText.includes('2 training examples')")
    page.shot("table-what-if-desktop-light")
    page.tab.click("#with-all")
    page.tab.wait_for_selector(".what-if", state="detached")
    page.tab.go_back()
    page.tab.wait_for_selector(".what-if")
    assert page.text("h1") == title


def test_many_rows__are_sorted_filtered_decided_anew_and_downloaded(opened, table_server, csv_file, rows):
    page = opened(table_server)
    page.upload(("new.csv", csv_file))
    assert page.text("h1") == "12 inputs"
    names = page.tab.locator("tbody th")
    assert names.all_inner_texts() == [row["sample"] for row in rows]
    page.shot("table-batch-desktop-light")
    page.tab.click("text=Familiarity")
    page.tab.wait_for_selector("th[aria-sort=ascending]")
    shown = [number(text) for text in page.tab.locator("tbody tr td:nth-of-type(4)").all_inner_texts()]
    assert shown == sorted(shown)
    assert page.tab.evaluate("document.activeElement.id") == "sort-5"
    page.tab.keyboard.press("Enter")
    page.tab.wait_for_selector("th[aria-sort=descending]")
    shown = [number(text) for text in page.tab.locator("tbody tr td:nth-of-type(4)").all_inner_texts()]
    assert shown == sorted(shown, reverse=True)
    sets = page.tab.locator("tbody tr td:nth-of-type(5)").all_inner_texts()
    reasons = page.tab.locator("tbody .chip").all_inner_texts()
    assert page.text("thead th:last-child") == "90 % set"
    assert [text == "—" for text in sets] == [reason == "unfamiliar" for reason in reasons]
    before = page.text(".summary")
    page.tab.focus("#max-error")
    for _ in range(25):
        page.tab.keyboard.press("ArrowRight")
    page.until("!document.documentElement.hasAttribute('aria-busy') && location.search.includes('0.3')")
    assert page.text("#max-error-value") == "30 %"
    after = page.text(".summary")
    assert "30 %" in after
    assert after != before
    assert page.tab.locator("th[aria-sort=descending]").count() == 1  # the order stays
    with page.tab.expect_download() as waiting:
        page.tab.click("#download")
    saved = waiting.value
    assert saved.suggested_filename == "predictions.csv"
    written = list(csv.DictReader(Path(saved.path()).read_text().splitlines()))
    assert [row["sample"] for row in written] == [row["sample"] for row in rows]
    reasons = [row["reason"] for row in written]
    assert f"answers {reasons.count('answered')} of 12" in after
    reason = reasons[0]
    page.tab.click(f"nav.filters a:has-text('{reason}')")
    page.tab.wait_for_selector(f"nav.filters a[aria-current]:has-text('{reason}')")
    assert page.tab.locator("tbody tr").count() == reasons.count(reason)
    assert set(page.tab.locator("tbody .chip").all_inner_texts()) == {reason}
    page.tab.click("tbody th a >> nth=0")
    page.tab.wait_for_selector("#verdict")
    assert "max_error=0.3" in page.tab.url


def number(text):
    return float(re.sub("[<>]", "", text))


@pytest.mark.parametrize(("size", "scheme"), [(DESKTOP, "light"), (PHONE, "dark")])
def test_images__are_shown_with_their_verdict_and_examples(opened, image_server, pictures, size, scheme):
    name = f"{'desktop' if size is DESKTOP else 'phone'}-{scheme}"
    page = opened(image_server, size=size, scheme=scheme)
    page.shot(f"images-home-{name}")
    page.upload(*pictures)
    assert page.tab.locator("tbody tr").count() == len(pictures)
    page.tab.wait_for_load_state("networkidle")
    page.shot(f"images-batch-{name}")
    assert page.overflow() <= 0
    page.tab.click("text=up_0.png")
    page.tab.wait_for_selector("#verdict")
    assert page.tab.locator("img").count() >= 6
    page.until("[...document.images].every(image => image.complete && image.naturalWidth > 0)")
    page.tab.locator(".strip > li > a:first-child").first.click()
    page.tab.wait_for_selector(".what-if")
    page.shot(f"images-case-{name}")
    assert page.overflow() <= 0
    background = page.tab.evaluate("getComputedStyle(document.body).backgroundColor")
    dark = sum(map(int, re.findall(r"\d+", background)[:3])) < 200
    assert dark == (scheme == "dark")
    # The figures' colours follow, although no inline style is allowed.
    fill = page.tab.evaluate("getComputedStyle(document.querySelector('figure svg text')).fill")
    assert (sum(map(int, re.findall(r"\d+", fill)[:3])) > 300) == (scheme == "dark")


@pytest.mark.parametrize(("size", "scheme"), [(DESKTOP, "dark"), (PHONE, "light")])
def test_model__is_described_and_its_slider_moves_the_operating_point(opened, table_server, size, scheme):
    page = opened(f"{table_server}/model", size=size, scheme=scheme)
    page.address = table_server
    assert "60" in page.text("main")
    assert page.overflow() <= 0
    before, by_class = page.text("#results"), page.text("#by-class")
    page.shot(f"table-model-{'desktop' if size is DESKTOP else 'phone'}-{scheme}")
    page.tab.locator("#max-error").fill("0.2")
    page.until("!document.documentElement.hasAttribute('aria-busy') && location.search.includes('0.2')")
    after = page.text("#results")
    assert before != after
    assert "20" in after
    moved = page.text("#by-class")
    page.tab.reload()
    assert page.text("#by-class") == moved != by_class


@pytest.mark.parametrize(("size", "scheme"), [(DESKTOP, "dark"), (PHONE, "light")])
def test_samples__are_shown_as_what_they_are(opened, table_server, size, scheme):
    page = opened(table_server, size=size, scheme=scheme)
    page.tab.locator(".buttons a").first.click()
    page.tab.wait_for_selector("#verdict")
    assert "This is a training example" in page.text("#verdict")
    assert "out of fold" in page.text("#verdict")
    page.shot(f"table-sample-{'desktop' if size is DESKTOP else 'phone'}-{scheme}")
    assert page.overflow() <= 0


def test_interface__is_documented_offline(opened, table_server):
    page = opened(table_server)
    page.tab.click("text=Interface")
    page.tab.wait_for_selector("h1:has-text('REST')")
    assert "POST /api/predict" in page.text("main")
    page.shot("table-interface-desktop-light")


def test_a_wrong_file__gets_a_sentence(opened, table_server):
    page = opened(table_server)
    payload = {"name": "new.csv", "mimeType": "text/csv", "buffer": b"marker,age\n1,2\n"}
    page.tab.set_input_files("#files", payload)
    wait_for_status(page, "Not possible")
    assert "column 'site'" in page.text("main")
    page.shot("table-refused-desktop-light")
    page.complaints = [text for text in page.complaints if "422" not in text]  # the browser says it, too


def test_files__can_be_dropped(opened, table_server, csv_file):
    page = opened(table_server)
    page.tab.evaluate(
        """text => {
            const data = new DataTransfer();
            data.items.add(new File([text], "new.csv"));
            document.dispatchEvent(new DragEvent("drop", { dataTransfer: data, bubbles: true }));
        }""",
        csv_file.decode(),
    )
    page.tab.wait_for_url(re.compile("/batches/"))
    assert page.text("h1") == "12 inputs"


def test_without_script__everything_is_a_link_or_a_form(browser, table_server, csv_file):
    context = browser.new_context(java_script_enabled=False)
    tab = context.new_page()
    tab.goto(table_server)
    tab.set_input_files("#files", {"name": "new.csv", "mimeType": "text/csv", "buffer": csv_file})
    tab.click("text=Read")
    tab.wait_for_url(re.compile("/batches/"))
    tab.click("tbody th a >> nth=0")
    tab.locator(".strip > li > a:first-child").first.click()
    assert tab.locator(".what-if").count() == 1
    context.close()


def test_keyboard__reaches_everything_and_every_control_has_a_name(opened, table_server, csv_file):
    page = opened(table_server)
    page.upload(("new.csv", csv_file))
    page.tab.reload()
    reached = set()
    for _ in range(60):
        page.tab.keyboard.press("Tab")
        reached.add(
            page.tab.evaluate(
                """() => {
                    const own = document.activeElement;
                    return own.id || own.getAttribute("href") || own.tagName;
                }"""
            )
        )
    assert {"#main", "max-error", "download", "sort-1", "filter-all"} <= reached
    nameless = page.tab.evaluate(
        """() => [...document.querySelectorAll("a, button, input:not([type=hidden])")].filter(one =>
            !(one.innerText || one.getAttribute("aria-label") || one.labels?.length)).length"""
    )
    assert nameless == 0
