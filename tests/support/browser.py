# SPDX-License-Identifier: Apache-2.0
"""A headless Chromium, driven over the DevTools protocol with nothing but the standard library; or a headless Firefox
(firefox.py), with SL_TEST_BROWSER=firefox.

    with launch() as browser:
        page = browser.page("http://127.0.0.1:9464/", width=1280, height=800)
        page.wait("document.querySelectorAll('.row').length > 0")
        page.screenshot("page.png")

WebSocket as in RFC 6455, as far as a client on the loopback needs it.
"""
import base64
import json
import os
import shutil
import signal
import socket
import struct
import subprocess
import tempfile
import time
import urllib.parse

from support.process import PATIENCE

CHANGED = "net::ERR_NETWORK_CHANGED"


class BrowserError(Exception):
    pass


class NoBrowser(Exception):
    """There is no browser, or it does not start: the test is skipped."""


class WebSocket:
    def __init__(self, url, timeout=PATIENCE):
        parts = urllib.parse.urlsplit(url)
        self.serial = 0
        self.socket = socket.create_connection((parts.hostname, parts.port), timeout)
        key = base64.b64encode(os.urandom(16)).decode()
        self.socket.sendall((f"GET {parts.path} HTTP/1.1\r\nHost: {parts.netloc}\r\n"
                             "Upgrade: websocket\r\nConnection: Upgrade\r\n"
                             f"Sec-WebSocket-Key: {key}\r\nSec-WebSocket-Version: 13\r\n\r\n").encode())
        self.pending = b""
        while b"\r\n\r\n" not in self.pending:
            self._more()
        head, self.pending = self.pending.split(b"\r\n\r\n", 1)
        if b" 101 " not in head.split(b"\r\n", 1)[0]:
            raise BrowserError("no WebSocket: %r" % head)

    def _more(self):
        data = self.socket.recv(1 << 16)
        if not data:
            raise BrowserError("the browser hung up")
        self.pending += data

    def _take(self, n):
        while len(self.pending) < n:
            self._more()
        data, self.pending = self.pending[:n], self.pending[n:]
        return data

    def _frame(self, opcode, payload):
        mask = os.urandom(4)
        head = bytes([0x80 | opcode])
        if len(payload) < 126:
            head += bytes([0x80 | len(payload)])
        elif len(payload) < 1 << 16:
            head += bytes([0x80 | 126]) + struct.pack("!H", len(payload))
        else:
            head += bytes([0x80 | 127]) + struct.pack("!Q", len(payload))
        repeated = mask * (len(payload) // 4 + 1)
        masked = bytes(a ^ b for a, b in zip(payload, repeated))
        self.socket.sendall(head + mask + masked)

    def send(self, text):
        self._frame(1, text.encode())

    def receive(self, timeout):
        """The next text message, or None when none has begun within the time."""
        message = b""
        self.socket.settimeout(timeout)
        while True:
            try:
                if len(self.pending) < 2:
                    self._more()
            except (TimeoutError, socket.timeout):
                return None
            self.socket.settimeout(PATIENCE)
            first, second = self._take(2)
            length = second & 0x7f
            if length == 126:
                length = struct.unpack("!H", self._take(2))[0]
            elif length == 127:
                length = struct.unpack("!Q", self._take(8))[0]
            payload = self._take(length)
            opcode = first & 0xf
            if opcode == 8:
                raise BrowserError("the browser closed the connection")
            if opcode == 9:
                self._frame(10, payload)
            if opcode in (0, 1):
                message += payload
                if first & 0x80:
                    return message.decode()

    def call(self, method, params, on_event):
        """The result of a command. Events that come before it are handed to on_event."""
        self.serial += 1
        self.send(json.dumps({"id": self.serial, "method": method, "params": params}))
        until = time.monotonic() + 90
        while time.monotonic() < until:
            text = self.receive(until - time.monotonic())
            message = json.loads(text) if text else {}
            if message.get("id") == self.serial:
                if "error" in message:
                    raise BrowserError(f"{method}: {message['error']} {message.get('message', '')}")
                return message["result"]
            if message:
                on_event(message)
        raise BrowserError(f"{method}: no answer")

    def close(self):
        self.socket.close()


class Page:
    """One tab. requests: every address that it requested; problems: complaints on its console, except about requests that the
    browser dropped because a network address came or went on this machine, as in other tests."""

    def __init__(self, url):
        self.ws = WebSocket(url)
        self.requests = []
        self.problems = []
        self.failed = []
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.call(domain + ".enable")

    def _event(self, message):
        method, params = message.get("method"), message.get("params", {})
        if method == "Network.requestWillBeSent":
            self.requests.append(params["request"]["url"])
        elif method == "Network.webSocketCreated":
            self.requests.append(params["url"])
        elif method == "Network.loadingFailed":
            self.failed.append(params.get("errorText", ""))
        elif method == "Runtime.exceptionThrown":
            details = params["exceptionDetails"]
            self.problems.append(details.get("exception", {}).get("description", details["text"]))
        elif method == "Runtime.consoleAPICalled" and params["type"] in ("error", "warning", "assert"):
            self.problems.append(" ".join(str(a.get("value", a.get("description")))
                                          for a in params["args"]))
        elif (method == "Log.entryAdded" and params["entry"]["level"] in ("error", "warning") and
              CHANGED not in params["entry"]["text"]):
            self.problems.append(params["entry"]["text"] + " " + params["entry"].get("url", ""))

    def call(self, method, **params):
        return self.ws.call(method, params, self._event)

    def run(self, expression):
        """The value of a JavaScript expression; a promise is waited for."""
        result = self.call("Runtime.evaluate", expression=expression, returnByValue=True,
                           awaitPromise=True, userGesture=True)
        if "exceptionDetails" in result:
            details = result["exceptionDetails"]
            raise BrowserError(details.get("exception", {}).get("description", details["text"]))
        return result["result"].get("value")

    def wait(self, expression, timeout=PATIENCE, what=None):
        """Waits until the expression is true, and returns its value."""
        until = time.monotonic() + timeout
        while True:
            error = ""
            try:
                value = self.run(expression)
            except BrowserError as e:  # it is being reloaded
                value, error = None, str(e)
            if value:
                return value
            if time.monotonic() > until:
                seen = self.run("[document.readyState, document.visibilityState, location.hash,"
                                " document.body?.innerText.slice(0, 600)].join(', ')")
                told = "; ".join([error, seen, *self.problems, *self.failed])
                raise BrowserError(f"not within {timeout} s: {what or expression} ({told[:2000]})")
            self.pump(0.05)

    def pump(self, seconds):
        """Takes events for a while."""
        until = time.monotonic() + seconds
        while True:
            left = until - time.monotonic()
            if left <= 0:
                return
            text = self.ws.receive(left)
            if text is not None:
                self._event(json.loads(text))

    def go(self, url):
        until = time.monotonic() + PATIENCE
        while True:
            self.failed.clear()
            error = self.call("Page.navigate", url=url).get("errorText", "")
            self.wait("document.readyState === 'complete'")
            if CHANGED not in (error, *self.failed):  # of the page itself, or of a part
                break
            if time.monotonic() > until:
                raise BrowserError(f"{url}: {CHANGED}, for {PATIENCE} s")
        if error:
            raise BrowserError(f"{url}: {error}")

    def before(self, source):
        """Runs it in each page that is loaded from now on, before the page's own scripts."""
        self.call("Page.addScriptToEvaluateOnNewDocument", source=source)

    def zone(self, name):
        """The zone of times, for example Asia/Kolkata; "": the machine's."""
        self.call("Emulation.setTimezoneOverride", timezoneId=name)

    def size(self, width, height, scale=1, mobile=False):
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height,
                  deviceScaleFactor=scale, mobile=mobile)

    def dark(self, on=True):
        self.call("Emulation.setEmulatedMedia", features=[
            {"name": "prefers-color-scheme", "value": "dark" if on else "light"}])

    def click(self, selector):
        """Once more if it had moved when the mouse got there: something came to be shown above it."""
        until = time.monotonic() + PATIENCE
        hit = False
        while not hit:
            if time.monotonic() > until:
                raise BrowserError(f"{selector} was not hit within {PATIENCE} s")
            x, y = self.run(
                f"(() => {{ window.hit = false; addEventListener('click', (e) => {{"
                f" window.hit = !!e.target.closest({json.dumps(selector)}); }},"
                "{capture: true, once: true});"
                f"const r = document.querySelector({json.dumps(selector)}).getBoundingClientRect();"
                "return [r.x + r.width / 2, r.y + r.height / 2]; })()")
            self._press(x, y)
            hit = self.run("window.hit")

    def _press(self, x, y):
        for kind in ("mousePressed", "mouseReleased"):
            self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)

    def key(self, key, code=None, text=None):
        codes = {"Enter": 13, "Escape": 27, "ArrowDown": 40, "ArrowUp": 38, "ArrowRight": 39,
                 "ArrowLeft": 37, "Tab": 9, "End": 35, "Home": 36, "PageDown": 34, " ": 32}
        params = {"key": key, "code": code or key,
                  "windowsVirtualKeyCode": codes.get(key, ord(key[0].upper()))}
        text = text or ("\r" if key == "Enter" else key if len(key) == 1 else None)
        down = dict(params, text=text) if text else params
        self.call("Input.dispatchKeyEvent", type="keyDown", **down)
        self.call("Input.dispatchKeyEvent", type="keyUp", **params)

    def type(self, selector, text):
        self.run(f"document.querySelector({json.dumps(selector)}).focus()")
        self.run(f"document.querySelector({json.dumps(selector)}).select()")
        if text:
            self._insert(text)
        else:
            self.key("Backspace")
            self.run(f"(() => {{ const e = document.querySelector({json.dumps(selector)});"
                     " e.value = ''; e.dispatchEvent(new Event('input', {bubbles: true})); })()")

    def _insert(self, text):
        self.call("Input.insertText", text=text)

    def _picture(self):
        return self.call("Page.captureScreenshot", format="png")["data"]

    def screenshot(self, path):
        with open(path, "wb") as f:
            f.write(base64.b64decode(self._picture()))

    def close(self):
        self.ws.close()


class Browser:
    """Chromium with an empty profile of its own, which goes away with it."""

    NAME, PROGRAMS = "chromium", ("chromium", "chromium-browser", "google-chrome", "chrome")

    def __init__(self, start_timeout=PATIENCE):
        program = next((p for p in map(shutil.which, self.PROGRAMS) if p), None)
        if not program:
            raise NoBrowser(f"no {self.NAME} in PATH (package {self.PROGRAMS[0]})")
        self.folder = tempfile.mkdtemp(prefix="sl-browser-")
        self.log = open(os.path.join(self.folder, "log"), "wb")
        self.pages = []
        self.profile = os.path.join(self.folder, "profile")
        os.mkdir(self.profile)
        self.process = subprocess.Popen(
            [program, *self._options()], stdin=subprocess.DEVNULL, stdout=self.log, stderr=self.log,
            start_new_session=True, env={**os.environ, **self._environment()})
        try:
            self.ws = WebSocket(self._wait_for_url(start_timeout))
            self._begin()
        except BaseException:
            self.close()
            raise

    def _options(self):
        return ("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic",
                "--no-first-run", "--no-default-browser-check", "--disable-background-networking",
                "--disable-component-update", "--disable-sync", "--disable-default-apps",
                "--disable-extensions", "--disable-domain-reliability", "--metrics-recording-only",
                "--disable-dev-shm-usage", "--disable-features=Translate,OptimizationHints,MediaRouter",
                "--host-resolver-rules=MAP * ~NOTFOUND , EXCLUDE 127.0.0.1",
                "--force-color-profile=srgb", "--hide-scrollbars", "--user-data-dir=" + self.profile,
                "--remote-debugging-address=127.0.0.1", "--remote-debugging-port=0", "about:blank")

    def _environment(self):
        return {"TMPDIR": self.folder}  # the browser leaves some files there

    def _url(self):
        """Returns the address of its WebSocket; fails if there is none yet."""
        with open(os.path.join(self.profile, "DevToolsActivePort")) as f:
            self.port, path = f.read().split("\n")[:2]
        return f"ws://127.0.0.1:{int(self.port)}{path}"

    def _wait_for_url(self, timeout):
        until = time.monotonic() + timeout
        while True:
            try:
                return self._url()
            except (OSError, ValueError, KeyError):  # not there, or not whole
                pass
            if self.process.poll() is not None or time.monotonic() > until:
                self.log.flush()
                with open(self.log.name, errors="replace") as f:
                    last = f.read().strip().split("\n")[-1]
                raise NoBrowser(f"{self.NAME} does not start: {last}")
            time.sleep(0.05)

    def _begin(self):
        """Sends the commands that are needed once, at the start."""

    def _call(self, method, **params):
        return self.ws.call(method, params, lambda message: None)

    def page(self, url, width=1280, height=800, scale=1, mobile=False, dark=False):
        target = self._call("Target.createTarget", url="about:blank")["targetId"]
        page = Page(f"ws://127.0.0.1:{self.port}/devtools/page/{target}")
        page.size(width, height, scale, mobile)
        page.dark(dark)
        # Makes the page visible for the browser, because a hidden page sends no requests.
        page.call("Emulation.setFocusEmulationEnabled", enabled=True)
        page.target = target
        self.pages.append(page)
        page.go(url)
        return page

    def end(self, page):
        """Closes one tab."""
        self._call("Target.closeTarget", targetId=page.target)
        self.pages.remove(page)
        page.close()

    def close(self):
        for page in self.pages:
            page.close()
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGTERM)
            try:
                self.process.wait(5)
            except subprocess.TimeoutExpired:
                pass
        # Its zygotes and renderers are of the same session.
        try:
            os.killpg(self.process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self.process.wait()
        self.log.close()
        # The process that writes crash reports has no parent, and ends by itself. Remove the folder after that.
        until = time.monotonic() + PATIENCE
        while self._users() and time.monotonic() < until:
            time.sleep(0.01)
        shutil.rmtree(self.folder)

    def _users(self):
        """Processes of the browser, including dead ones that were not waited for."""
        found = []
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                with open(f"/proc/{pid}/cmdline") as f:
                    if self.folder in f.read():
                        found.append(pid)
            except OSError:
                pass
        return found

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


def launch():
    """The browser that SL_TEST_BROWSER names: chromium, or firefox."""
    if os.environ.get("SL_TEST_BROWSER") == "firefox":
        from support.firefox import Firefox
        return Firefox()
    return Browser()
