"""Every page of the built book, in a real browser, wide and narrow, by day and by night.

A page must load from this machine alone, say nothing on the console, typeset all its mathematics, and show
all of itself: nothing wider than the window, nothing cut off. The second half of the file shows each check
fail on a page made for it.
"""

import functools
import http.server
import json
import os
import shutil
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http import HTTPStatus
from pathlib import Path
from urllib.parse import urlsplit

import pytest

os.environ["SE_OFFLINE"] = "true"  # Selenium looks for nothing to download
os.environ["SE_AVOID_STATS"] = "true"
webdriver = pytest.importorskip("selenium.webdriver", reason="selenium is not installed")

ROOT = Path(__file__).resolve().parent.parent
BUILT = ROOT / "_build" / "html"
MATHJAX = ROOT / "book" / "_static" / "mathjax" / "tex-svg-full.js"
BROWSERS = ("chromium", "chromium-browser", "google-chrome")
VIEWS = {
    f"{screen}-{theme}": (width, height, mobile, theme)
    for screen, width, height, mobile in (("desktop", 1280, 900, False), ("phone", 390, 844, True))
    for theme in ("light", "dark")
}
OPTIONS = [
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]

SETTLED = """
    const done = arguments[arguments.length - 1];
    const ready = () => window.MathJax && MathJax.startup ? MathJax.startup.promise : Promise.resolve();
    const frame = () => new Promise(next => requestAnimationFrame(() => requestAnimationFrame(next)));
    Promise.all([ready(), document.fonts.ready]).then(frame).then(() => done());
"""
INSPECT = """
    const root = document.documentElement, faults = [];
    const name = e => '<' + e.outerHTML.slice(1).split('>')[0] + '> ' + e.textContent.trim().slice(0, 60);
    if (root.scrollWidth > root.clientWidth) {
        const wide = [...document.body.querySelectorAll('*')].filter(e =>
            e.getBoundingClientRect().right > root.clientWidth && !inScroller(e));
        faults.push('the page is ' + root.scrollWidth + ' px wide in a window of ' + root.clientWidth +
            ': ' + (wide.length ? name(wide[wide.length - 1]) : 'cause unknown'));
    }
    function inScroller(e) {
        for (let up = e.parentElement; up && up !== document.body; up = up.parentElement)
            if (getComputedStyle(up).overflowX !== 'visible') return true;
        return false;
    }
    for (const e of document.querySelectorAll('article *')) {
        const cut = ['hidden', 'clip'].includes(getComputedStyle(e).overflowX);
        const forReaders = e.closest('mjx-assistive-mml');  // for screen readers, out of sight by design
        if (cut && !forReaders && e.clientWidth > 1 && e.scrollWidth > e.clientWidth + 1)
            faults.push('cut off at ' + e.clientWidth + ' of ' + e.scrollWidth + ' px: ' + name(e));
    }
    for (const e of document.querySelectorAll('.math')) {
        if (!e.querySelector('mjx-container')) faults.push('mathematics not typeset: ' + name(e));
    }
    for (const e of document.querySelectorAll('mjx-merror, [data-mjx-error], [data-mml-node="merror"]')) {
        const said = e.closest('[data-mjx-error]');
        faults.push('TeX error: ' + (said ? said.dataset.mjxError : e.textContent));
    }
    for (const e of document.querySelectorAll('mjx-container [data-mml-node="mtext"][fill="red"]'))
        faults.push('unknown TeX command: ' + e.closest('mjx-container').textContent);
    return faults;
"""


class Handler(http.server.SimpleHTTPRequestHandler):
    def do_GET(self):
        if self.path == "/favicon.ico":  # asked for unprompted; the book has none
            self.send_response(HTTPStatus.NO_CONTENT)
            self.end_headers()
        else:
            super().do_GET()

    def log_message(self, *args):
        pass


@contextmanager
def served(folder: Path) -> Iterator[str]:
    handler = functools.partial(Handler, directory=folder)
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    binary = next(filter(None, map(shutil.which, BROWSERS)), None)
    driver = shutil.which("chromedriver")
    if not (binary and driver):
        pytest.skip("no browser: install chromium and chromium-driver")
    options = webdriver.ChromeOptions()
    options.binary_location = binary
    for option in [*OPTIONS, f"--user-data-dir={tmp_path_factory.mktemp('browser')}"]:
        options.add_argument(option)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    chrome = webdriver.Chrome(options=options, service=webdriver.ChromeService(driver))
    yield chrome
    chrome.quit()


@pytest.fixture(scope="module")
def book():
    if not (BUILT / "index.html").exists():
        pytest.skip("no built book: run `jupyter-book build -n -W --keep-going .` first")
    with served(BUILT) as address:
        yield address


def look(chrome, view: str) -> None:
    """Give the browser a screen and a theme."""
    width, height, mobile, theme = VIEWS[view]
    screen = {"width": width, "height": height, "mobile": mobile, "deviceScaleFactor": 1}
    chrome.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", screen)
    media = {"features": [{"name": "prefers-color-scheme", "value": theme}]}
    chrome.execute_cdp_cmd("Emulation.setEmulatedMedia", media)


def faults(chrome, url: str) -> list[str]:
    """Open a page as on a first visit and say what is wrong with it."""
    chrome.get("about:blank")
    origin = "{0.scheme}://{0.netloc}".format(urlsplit(url))
    chrome.execute_cdp_cmd("Storage.clearDataForOrigin", {"origin": origin, "storageTypes": "all"})
    for log in ("browser", "performance"):
        chrome.get_log(log)  # what earlier pages left
    chrome.get(url)
    chrome.execute_async_script(SETTLED)
    found = chrome.execute_script(INSPECT)
    found += [
        f"console: {entry['message']}" for entry in chrome.get_log("browser") if entry["level"] == "SEVERE"
    ]
    for asked in requests(chrome.get_log("performance")):
        if urlsplit(asked).scheme not in ("data", "blob") and urlsplit(asked).netloc != urlsplit(url).netloc:
            found.append(f"request to elsewhere: {asked}")
    return found


def requests(log: list[dict]) -> Iterator[str]:
    for entry in log:
        message = json.loads(entry["message"])["message"]
        if message["method"] == "Network.requestWillBeSent":
            yield message["params"]["request"]["url"]


def pages() -> list[str]:
    """The pages of the built book, those that only lead to another left out."""
    found = [page for page in sorted(BUILT.rglob("*.html")) if "_static" not in page.relative_to(BUILT).parts]
    return [
        page.relative_to(BUILT).as_posix()
        for page in found
        if 'http-equiv="refresh"' not in page.read_text(encoding="utf-8").lower()
    ]


@pytest.mark.parametrize("view", VIEWS)
def test_book(browser, book, view):
    look(browser, view)
    complaints, typeset = [], 0
    for page in pages():
        complaints += [f"{page}: {fault}" for fault in faults(browser, f"{book}/{page}")]
        theme = browser.execute_script("return document.documentElement.dataset.theme")
        if theme != VIEWS[view][3]:
            complaints.append(f"{page}: shown in the theme {theme!r}")
        typeset += browser.execute_script("return document.querySelectorAll('.math mjx-container').length")
    assert not complaints, "\n".join(complaints)
    assert typeset > 0, "no page has any mathematics"


# --- the checks are shown to fail ---------------------------------------------------------------------------

SOUND = "<p>A line of words.</p><p class='math'>\\(1 + 1\\)</p>"
DOCTORED = {
    "overflow": ("<div style='width: 3000px; height: 9px'></div>", "the page is 3"),
    "cut": ("<p style='overflow: hidden; white-space: nowrap'>" + "word " * 500 + "</p>", "cut off at"),
    "request": (
        "<img src='http://example.invalid/a.png' alt=''>",
        "request to elsewhere: http://example.invalid/",
    ),
    "missing": ("<img src='no-such-file.png' alt=''>", "console: "),
    "console": ("<script>throw new Error('unwell')</script>", "unwell"),
    "tex": ("<p class='math'>\\(\\frac{1}\\)</p>", "TeX error: "),
    "command": ("<p class='math'>\\(\\nosuchcommand\\)</p>", "unknown TeX command: "),
    "untypeset": ("<p class='math'>1 + 1</p>", "mathematics not typeset"),
}


@pytest.fixture
def page(tmp_path):
    """A function that makes a page with a given body, and the address of its folder."""
    shutil.copy(MATHJAX, tmp_path / "mathjax.js")

    def make(body: str) -> str:
        html = f"""<!doctype html><html lang="en"><head><meta charset="utf-8"><title>A page</title>
            <meta name="viewport" content="width=device-width, initial-scale=1">
            <script>window.MathJax = {{"options": {{"enableMenu": false}}}}</script>
            <script defer src="mathjax.js"></script></head>
            <body><article>{SOUND}{body}</article></body></html>"""
        (tmp_path / "page.html").write_text(html, encoding="utf-8")
        return f"{address}/page.html"

    with served(tmp_path) as address:
        yield make


@pytest.mark.parametrize("view", VIEWS)
def test_sound_page_is_accepted(browser, page, view):
    look(browser, view)
    assert faults(browser, page("<table style='display: block; overflow-x: auto'></table>")) == []


@pytest.mark.parametrize(("body", "fault"), DOCTORED.values(), ids=DOCTORED)
def test_doctored_page_is_refused(browser, page, body, fault):
    look(browser, "phone-dark")
    found = faults(browser, page(body))
    assert any(fault in said for said in found), f"found only {found}"
