"""The dashboard in a real browser, over Chromium's DevTools protocol: numbers, one verdict, keyboard, tokens, hostile text.

Run: pytest tests/python/test_dashboard.py
     MUSACODER_SCREENSHOTS=/tmp pytest tests/python/test_dashboard.py   # also leaves pictures there

No candidate is judged: the verdicts come in over the worker's routes, so every text in them is the test's.
"""

import base64
import contextlib
import hashlib
import itertools
import json
import os
import pathlib
import re
import shutil
import subprocess
import time
import urllib.request

import pytest
from service_support import PROGRAM, Server, WebSocket

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGE = ROOT / "runtime" / "dashboard" / "index.html"
BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
needs_server = pytest.mark.skipif(not PROGRAM.exists(), reason=f"{PROGRAM} is not built")
needs_browser = pytest.mark.skipif(
    BROWSER is None, reason="no chromium is installed (apt-get install chromium)"
)
TOKENS = """
[[token]]
name = "trainer"
token = "trainer-trainer-trainer"
[[token]]
name = "root"
token = "root-root-root-root"
role = "admin"
"""
# Whatever of these is parsed as HTML or run leaves a mark.
HOSTILE = (
    "</script></pre><img src=x onerror=\"window.pwned='img'\"><script>window.pwned='script'</script>"
    '<svg onload="window.pwned=\'svg\'"><iframe srcdoc="<script>parent.pwned=1</script>"></iframe>'
    "<a href=\"javascript:window.pwned='a'\">x</a>{{7*7}}&lt;b&gt;\u202egnp.\u0007"
)
HOSTILE_TASK = "hostile/<img src=x onerror=\"window.pwned='task'\">\u202e"
SOURCE = (
    "import torch\n\ncuda = r'''\n__global__ void k(float* x) {\n  x[0] = thread.x\n}\n'''\n# last line\n"
)


def ledger():
    zero = "h2d_bytes d2h_bytes d2d_bytes memset_bytes h2d_after_d2h_bytes creation_bytes launch_seconds"
    return {
        "launches": [],
        "vendor_calls": [],
        "refused_ops": [],
        **dict.fromkeys(zero.split(), 0),
        "fault": None,
        "unread_launch_error": "",
        "printf_output": "",
        "unsupported": [],
        "protocol_error": "",
    }


def verdict(task, status="ok", cause="verified", **more):
    good = status == "ok"
    states = ["passed"] * 4 + ["not_run"] if good else ["failed"] + ["not_run"] * 4
    return {
        "version": 1,
        "task": task,
        "task_hash": "t" * 64,
        "candidate_hash": hashlib.sha256((task + status).encode()).hexdigest(),
        "backend": "vgpu",
        "gpu": "h200",
        "policy": "strict",
        "status": status,
        "cause": cause,
        "levels": [{"name": f"L{i}", "state": s, "detail": ""} for i, s in enumerate(states)],
        "trials": [],
        "q": float(good),
        "compiled": good,
        "correct": good,
        "legal": good,
        "reward": 1.0 if good else -1.0,
        "speedup_eager": None,
        "speedup_compile": None,
        "builds": [],
        "exception": None,
        "fault": None,
        "ledger": ledger(),
        "outside": ledger(),
        "refused_ops": [],
        "cpu_ops": [],
        "scaled": False,
        "scaling": [],
        "work": 0.0,
        "work_full": 0.0,
        "notes": [],
        "environment": {"torch": "2.11.0"},
        "sandbox": [],
        "seconds": {"build": 2.5, "run": 0.5, "total": 3.0},
        **more,
    }


def diagnostic(line, message, severity="error"):
    return {
        "severity": severity,
        "file": "cuda_sources[0]",
        "line": 2,
        "candidate_line": line,
        "message": message,
        "kind": "other",
    }


def build(*diagnostics, log=""):
    return {
        "ok": False,
        "status": "failed",
        "message": "",
        "diagnostics": list(diagnostics),
        "log": log,
        "artifact": "",
        "hash": "",
        "headers": "slim",
        "headers_reason": "",
        "cached": False,
        "seconds": 2.5,
        "sandbox": [],
    }


def start(folder, *arguments):
    """The server, with the page of this checkout beside the built runtime's folders."""
    runtime = folder / "runtime"
    runtime.mkdir()
    for part in (PROGRAM.parent / "runtime").iterdir():
        if part.name != "dashboard":
            (runtime / part.name).symlink_to(part)
    (runtime / "dashboard").symlink_to(PAGE.parent)
    return Server(
        "--tasks", ROOT / "tasks", "--queue", f"sqlite:{folder}/q.db", "--no-lanes", *arguments,
        env={"MUSACODER_RUNTIME": str(runtime)},
    )  # fmt: skip


def job(candidate, task, **more):
    return {"candidate": candidate, "task": task, "reference": "class Model: pass", "reuse": False, **more}


def judged(server, task, value, worker="lane-1", feedback="Round 1 …", code=SOURCE, token=None, **more):
    view = server.post("/v1/jobs", job(code, task, **more), expect=202, token=token)
    lease = server.post("/v1/lease", {"worker": worker, "wait_s": 5, "visibility_s": 60}, token=token)[
        "lease"
    ]
    assert lease["job"]["id"] == view["id"]
    outcome = {"verdict": value, "feedback": feedback, "code": code}
    done = server.post("/v1/complete", {"lease": lease["id"], "outcome": outcome}, token=token)
    assert done == {"accepted": True}
    return view["id"]


class Browser:
    """One headless page. `text`, `value` and `until` look at it, `press` and `type` use its keyboard."""

    KEYS = {
        "Enter": (13, "\r"), "Escape": (27, ""), "ArrowDown": (40, ""), "ArrowUp": (38, ""),
        "ArrowLeft": (37, ""), "ArrowRight": (39, ""), "Tab": (9, ""), "/": (191, "/"),
    }  # fmt: skip

    def __init__(self, profile):
        self.child = subprocess.Popen(
            [
                BROWSER, "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--no-first-run",
                "--disable-background-networking", "--remote-debugging-port=0", f"--user-data-dir={profile}",
                "--window-size=1280,1000", "about:blank",
            ],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        self.ids = itertools.count(1)
        self.console = []
        try:
            port_file = profile / "DevToolsActivePort"
            self._poll(
                lambda: port_file.exists() and port_file.read_text().count("\n"), "the browser to start", 60
            )
            port = int(port_file.read_text().split("\n")[0])
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/json/list", timeout=30) as reply:
                target = next(t for t in json.load(reply) if t["type"] == "page")
            self.socket = WebSocket(port, "/devtools/page/" + target["id"])
            assert self.socket.status == 101, self.socket.head
            for domain in ("Page", "Runtime", "Log"):
                self.call(domain + ".enable")
        except BaseException:
            self.close()
            raise

    @staticmethod
    def _poll(check, what, seconds):
        end = time.monotonic() + seconds
        while not (found := check()):
            assert time.monotonic() < end, f"waited {seconds} s for {what}"
            time.sleep(0.05)
        return found

    def call(self, method, **parameters):
        number = next(self.ids)
        self.socket.send({"id": number, "method": method, "params": parameters})
        while (message := self.socket.json()).get("id") != number:
            if message["method"] in (
                "Runtime.exceptionThrown",
                "Log.entryAdded",
                "Page.javascriptDialogOpening",
            ):
                self.console.append(message)
        assert "error" not in message, message
        return message["result"]

    def value(self, script):
        reply = self.call("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in reply, reply
        return reply["result"].get("value")

    def until(self, script, seconds=20):
        script = f"(() => {{ try {{ return Boolean({script}) }} catch (e) {{ return false }} }})()"  # a page may be half loaded
        try:
            return self._poll(lambda: self.value(script), script, seconds)
        except AssertionError as e:
            raise AssertionError(f"{e}\n{self.text()[:3000]}\n{self.console}") from None

    def text(self, selector="body"):
        return self.value(f"(document.querySelector({json.dumps(selector)}) || {{}}).innerText || ''")

    def open(self, url):
        self.call("Page.navigate", url="about:blank")
        self.console.clear()
        self.call("Page.navigate", url=url)

    def press(self, key):
        code, text = self.KEYS[key]
        event = {"key": key, "windowsVirtualKeyCode": code, "code": "Slash" if key == "/" else key}
        self.call("Input.dispatchKeyEvent", type="keyDown", **event, **({"text": text} if text else {}))
        self.call("Input.dispatchKeyEvent", type="keyUp", **event)

    def type(self, text):
        self.call("Input.insertText", text=text)

    def look(self, width=1280, height=1000, scheme="light"):
        self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=width < 600,
        )
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])

    def picture(self, name):
        folder = os.environ.get("MUSACODER_SCREENSHOTS")
        if folder:
            data = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=True)["data"]
            (pathlib.Path(folder) / f"dashboard_{name}.png").write_bytes(base64.b64decode(data))

    def faults(self):
        """What went wrong on the page. A refused request (401, 403, 404) is logged by the browser itself."""
        entries = [(m, m["params"].get("entry", {"level": "error"})) for m in self.console]
        return [m for m, entry in entries if entry["level"] == "error" and entry.get("source") != "network"]

    def close(self):
        self.child.kill()
        self.child.wait()


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    profile = tmp_path_factory.mktemp("browser")
    page = Browser(profile)
    yield page
    page.close()
    shutil.rmtree(profile, ignore_errors=True)


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    folder = tmp_path_factory.mktemp("dashboard")
    running = start(folder, "--store", folder / "v.db")
    running.jobs = {}
    for i in range(6):
        judged(running, f"plain/{i}", verdict(f"plain/{i}", seconds={"build": 1.0 + i, "total": 2.0 + i}))
    failed = verdict(
        "special/needle", "compile_error:nvcc", "identifier thread is undefined",
        builds=[build(diagnostic(5, 'identifier "thread" is undefined'), diagnostic(6, "expected a ;", "warning"), log="nvcc: 1 error")],
    )  # fmt: skip
    running.jobs["needle"] = judged(
        running, "special/needle", failed, feedback="=== Feedback ===\nRepair line 5."
    )
    hostile = verdict(
        HOSTILE_TASK, "compile_error:nvcc", HOSTILE,
        builds=[build(diagnostic(5, HOSTILE), log=HOSTILE)], notes=[HOSTILE], environment={HOSTILE: HOSTILE},
        exception={"type": HOSTILE, "message": HOSTILE, "traceback": HOSTILE, "line": 3},
        seconds={HOSTILE: 1.0, "__proto__": 2.0, "total": 1.0},
        levels=[{"name": HOSTILE, "state": "failed", "detail": HOSTILE}],
    )  # fmt: skip
    running.jobs["hostile"] = judged(
        running, HOSTILE_TASK, hostile, worker="<b onmouseover=alert(1)>w", feedback=HOSTILE,
        code=HOSTILE + "\n" + SOURCE, labels={HOSTILE: HOSTILE},
    )  # fmt: skip
    unwanted = running.post("/v1/jobs", job("unwanted", "plain/0"), expect=202)
    running.call("DELETE", f"/v1/jobs/{unwanted['id']}")
    running.post("/v1/jobs", job("waits", "plain/0"), expect=202)
    running.url = f"http://127.0.0.1:{running.port}/"
    yield running
    running.close()


@pytest.fixture
def page(browser, server):
    browser.look()
    browser.open(server.url)
    browser.until("document.querySelectorAll('#list tbody tr').length >= 8")
    return browser


def test_the_policy_names_the_script():
    text = PAGE.read_text(encoding="utf-8")
    scripts = re.findall(r"<script>(.*?)</script>", text, re.S)
    assert len(scripts) == 1 and text.count("<script") == 1
    digest = base64.b64encode(hashlib.sha256(scripts[0].encode()).digest()).decode()
    assert f"script-src 'sha256-{digest}'" in text, f"put sha256-{digest} into the page's policy"


def test_the_page_needs_no_other_file_and_parses_no_html():
    text = PAGE.read_text(encoding="utf-8")
    assert not re.search(r"(src|href)\s*=\s*[\"']?(https?:)?//", text)
    addresses = set(re.findall(r"https?://[^\s\"'`]+", text))
    assert addresses == {"http://www.w3.org/2000/svg"}  # a name, nothing is fetched
    assert not re.search(
        r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function|@import|\bon\w+=\"",
        text,
    )


@needs_server
def test_the_server_gives_the_page_without_a_token(tmp_path):
    (tmp_path / "tokens.toml").write_text(TOKENS)
    with contextlib.closing(start(tmp_path, "--token-file", tmp_path / "tokens.toml")) as running:
        status, body, headers = running.call("GET", "/")
    assert status == 200 and body == PAGE.read_bytes()
    assert (
        headers["Content-Type"].startswith("text/html")
        and "frame-ancestors 'none'" in headers["Content-Security-Policy"]
    )


@needs_server
@needs_browser
def test_numbers(page, server):
    stats = server.get("/v1/stats")
    tiles = page.text("#tiles")
    assert re.search(r"^1\s+waiting", tiles) and re.search(rf"\b{stats['queue']['ended'] - 1}\b", tiles), (
        tiles
    )
    assert "6 of 8 decided" in tiles and "75.0 %" in tiles
    legend = page.text("#legend")
    assert (
        re.search(r"ok\s+6", legend)
        and re.search(r"compile_error\s+2", legend)
        and re.search(r"cancelled\s+1", legend)
    )
    assert page.value("document.querySelectorAll('#mix svg rect').length") >= 3
    assert "build" in page.text("#stages") and "p99" in page.text("#stages")
    assert "lane-1" in page.text("#workers") and "never: no lane" not in page.text("#queue")
    rows = page.text("#list")
    assert "special/needle" in rows and "compile_error:nvcc" in rows and "+1.00" in rows and "-1.00" in rows
    page.picture("wide_light")
    page.look(scheme="dark")
    page.picture("wide_dark")
    assert not page.faults(), page.faults()


@needs_server
@needs_browser
def test_refresh_follows_without_touching_what_stayed(page, server):
    page.value(
        "document.querySelector('#list tbody tr:last-child').marked = true; document.querySelector('#list tbody tr:last-child').focus()"
    )
    waiting = server.post("/v1/lease", {"worker": "lane-1", "wait_s": 5, "visibility_s": 60})["lease"]
    server.post("/v1/heartbeat", {"lease": waiting["id"], "visibility_s": 60, "stage": "run 3/7"})
    page.until("/run 3\\/7/.test(document.querySelector('#workers').innerText)")
    server.post("/v1/release", {"lease": waiting["id"], "fault": ""})
    page.until("/idle/.test(document.querySelector('#workers').innerText)")
    assert page.value(
        "document.activeElement.marked === true && document.querySelector('#list tbody tr:last-child').marked === true"
    )
    assert not page.faults(), page.faults()


@needs_server
@needs_browser
def test_keyboard(page, server):
    page.press("/")
    assert page.value("document.activeElement.id") == "search"
    page.type("needle")
    page.until("document.querySelectorAll('#list tbody tr').length === 1")
    page.press("ArrowDown")
    assert "special/needle" in page.value("document.activeElement.innerText")
    assert page.value("getComputedStyle(document.activeElement).outlineStyle") == "solid"
    page.press("Enter")
    page.until(
        "document.querySelector('#one h1') && document.querySelector('#one h1').innerText.includes('special/needle')"
    )
    assert page.value("document.activeElement.tagName") == "H1"
    page.press("Escape")
    page.until("!document.querySelector('#overview').hidden")
    assert "special/needle" in page.value("document.activeElement.innerText")
    page.press("Escape")
    assert page.value("document.activeElement.id") == "search"
    page.press("Escape")
    page.until("document.querySelectorAll('#list tbody tr').length >= 8")
    assert page.value("document.querySelector('#search').value") == ""
    page.type("no such thing anywhere")
    page.until("/Nothing matches/.test(document.querySelector('#list-empty').innerText)")
    page.press("Escape")
    page.until("document.querySelectorAll('#list tbody tr').length >= 8")
    page.press("ArrowDown")
    page.press("ArrowDown")
    second = page.value("[...document.querySelectorAll('#list tbody tr')].indexOf(document.activeElement)")
    assert second == 1
    page.press("Enter")
    # Not the heading of the verdict that was open before, which is still there while it is hidden.
    page.until("!document.querySelector('#one').hidden && document.querySelector('#one h1')")
    first = page.value("location.hash")
    page.press("ArrowRight")
    page.until(f"location.hash !== {json.dumps(first)} && document.querySelector('#one h1')")
    page.press("ArrowLeft")
    page.until(f"location.hash === {json.dumps(first)}")
    page.press("/")
    page.until("document.activeElement.id === 'search' && document.querySelector('#one').hidden")
    assert not page.faults(), page.faults()


@needs_server
@needs_browser
def test_filters(page):
    page.value("document.querySelector('[data-class=compile_error]').click()")
    page.until("document.querySelectorAll('#list tbody tr').length === 2")
    page.value("document.querySelector('[data-class=compile_error]').click()")
    page.until("document.querySelectorAll('#list tbody tr').length === 8")
    page.value(
        "const s = document.querySelector('#source'); s.value = 'jobs'; s.dispatchEvent(new Event('change'))"
    )
    page.until(
        "/cancelled/.test(document.querySelector('#list').innerText) && /queued/.test(document.querySelector('#list').innerText)"
    )
    page.value(
        "{const s = document.querySelector('#state'); s.value = 'queued'; s.dispatchEvent(new Event('change'))}"
    )
    page.until("document.querySelectorAll('#list tbody tr').length === 1")
    assert not page.faults(), page.faults()


@needs_server
@needs_browser
def test_one_verdict_in_full(browser, server):
    browser.look()
    browser.open(server.url + "#/job/" + server.jobs["needle"])
    browser.until("document.querySelector('#one .ln')")
    lines = browser.value(
        "[...document.querySelector('#one .code').querySelectorAll('.ln')].map(e => [e.dataset.n, e.innerText.trim(), e.classList.contains('hit')])"
    )
    assert [n for n, _, _ in lines] == [str(i + 1) for i in range(8)]
    assert lines[4] == ["5", "x[0] = thread.x", True] and lines[5][2] and not lines[0][2]
    below = "document.querySelector('#line-5').nextSibling"
    assert browser.value(below + ".className") == "diag" and 'error identifier "thread"' in browser.value(
        below + ".innerText"
    )
    text = browser.text("#one")
    for expected in (
        "compile_error:nvcc",
        "reward -1.00",
        "L0 build",
        "Repair line 5.",
        "line 5",
        "Stages".upper(),
    ):
        assert expected in text, (expected, text)
    browser.picture("one_light")
    browser.look(scheme="dark")
    browser.picture("one_dark")
    assert not browser.faults(), browser.faults()


@needs_server
@needs_browser
@pytest.mark.parametrize("where", ["list", "jobs", "one", "stored"])
def test_hostile_text_stays_text(browser, server, where):
    browser.look()
    rows = server.get("/v1/verdicts")["verdicts"]
    key = next(r["key"] for r in rows if r["verdict"]["task"].startswith("hostile/"))
    address = {"one": "#/job/" + server.jobs["hostile"], "stored": "#/verdict/" + key}.get(where, "")
    browser.open(server.url + address)
    if where in ("list", "jobs"):
        browser.until("document.querySelectorAll('#list tbody tr').length >= 8")
        if where == "jobs":
            browser.value(
                "{const s = document.querySelector('#source'); s.value = 'jobs'; s.dispatchEvent(new Event('change'))}"
            )
            browser.until("/cancelled/.test(document.querySelector('#list').innerText)")
        shown = browser.text("#overview")
    else:
        browser.until("document.querySelector('#one .ln')")
        browser.value("for (const d of document.querySelectorAll('details')) d.open = true")
        shown = browser.text("#one")
        browser.picture("hostile")
    assert browser.value("document.documentElement.scrollWidth") <= 1280
    assert "<img src=x onerror=" in shown and "⟨U+202E⟩" in shown, shown
    assert where == "jobs" or "{{7*7}}&lt;b&gt;⟨U+202E⟩" in shown, shown
    time.sleep(0.3)
    assert browser.value(
        "window.pwned === undefined && !document.querySelector('main img, main iframe, main script, a[href^=javascript]')"
    )
    assert browser.value("document.querySelectorAll('script').length") == 1
    assert not browser.faults(), browser.faults()
    # The second wall: even a handler that was put on the page is refused by the policy.
    browser.value("document.body.insertAdjacentHTML('beforeend', '<img src=x onerror=\"window.pwned=1\">')")
    time.sleep(0.3)
    assert browser.value("window.pwned === undefined")


@needs_server
@needs_browser
def test_narrow(browser, server):
    browser.look(390, 844)
    browser.open(server.url)
    browser.until("document.querySelectorAll('#list tbody tr').length >= 8")
    assert browser.value("document.documentElement.scrollWidth") <= 390
    browser.picture("narrow_light")
    browser.open(server.url + "#/job/" + server.jobs["needle"])
    browser.until("document.querySelector('#one .ln')")
    assert browser.value("document.documentElement.scrollWidth") <= 390
    browser.look(390, 844, "dark")
    browser.picture("narrow_one_dark")


@needs_server
@needs_browser
def test_theme(page):
    background = "getComputedStyle(document.body).backgroundColor"
    light = page.value(background)
    page.look(scheme="dark")
    dark = page.value(background)
    assert light != dark
    page.value("document.querySelector('#theme').click()")
    assert page.text("#theme") == "Theme: light" and page.value(background) == light
    page.value("document.querySelector('#theme').click()")
    page.look(scheme="light")
    assert page.text("#theme") == "Theme: dark" and page.value(background) == dark
    page.call("Page.reload")
    page.until(
        "document.querySelector('#theme') && document.querySelector('#theme').innerText === 'Theme: dark'"
    )
    page.value("document.querySelector('#theme').click()")
    assert page.value(background) == light


@needs_server
@needs_browser
def test_token_empty_and_lost_connection(browser, tmp_path):
    (tmp_path / "tokens.toml").write_text(TOKENS)
    running = start(tmp_path, "--token-file", tmp_path / "tokens.toml", "--store", tmp_path / "v.db")
    try:
        browser.look()
        browser.open(f"http://127.0.0.1:{running.port}/")
        browser.until("!document.querySelector('#token').hidden")
        assert browser.value("document.activeElement.id") == "token-input"
        assert browser.value("document.querySelector('#overview').hidden")
        browser.picture("token")
        browser.type("wrong-wrong-wrong")
        browser.press("Enter")
        browser.until("/does not know this token/.test(document.querySelector('#token-why').innerText)")
        browser.type("trainer-trainer-trainer")
        browser.press("Enter")
        browser.until("/wants an admin/.test(document.querySelector('#count').innerText)")
        assert "There are no jobs yet" in browser.text("#list-empty")
        assert "No worker is connected" in browser.text(
            "#overview"
        ) and "No verdict in this time" in browser.text("#mix")
        assert browser.value("sessionStorage.getItem('musacoder.token')") == "trainer-trainer-trainer"
        assert browser.value(
            "localStorage.length === 0 && !location.href.includes('trainer') && !document.cookie"
        )
        browser.picture("empty")
        browser.value("document.querySelector('#forget').click()")
        browser.until("!document.querySelector('#token').hidden")
        assert browser.value("sessionStorage.getItem('musacoder.token')") is None
        browser.type("root-root-root-root")
        browser.press("Enter")
        browser.until(
            "/No verdict has been stored yet/.test(document.querySelector('#list-empty').innerText)"
        )
        assert not browser.faults(), browser.faults()
    finally:
        running.close()
    browser.until("/does not answer/.test(document.querySelector('#trouble').innerText)")
    assert browser.text("#live").startswith("Not live since")
    browser.picture("lost")


@needs_server
@needs_browser
def test_an_unknown_verdict_is_said_so(browser, server):
    browser.open(server.url + "#/job/j-nothing")
    browser.until("/There is no such verdict/.test(document.querySelector('#one').innerText)")
    browser.press("Escape")
    browser.until("!document.querySelector('#overview').hidden")
