# SPDX-License-Identifier: Apache-2.0
"""A headless Firefox, driven over WebDriver BiDi, which it speaks itself. Its pages have the methods of browser.Page.

https://www.w3.org/TR/webdriver-bidi/
"""
import json
import os

from support.browser import Browser, BrowserError, Page

# Nothing leaves this machine, and no question is asked. A request is not dropped when an address comes or goes.
PREFERENCES = {
    "network.proxy.type": 1, "network.proxy.http": "127.0.0.1", "network.proxy.http_port": 9,
    "network.proxy.ssl": "127.0.0.1", "network.proxy.ssl_port": 9, "network.proxy.no_proxies_on": "127.0.0.1",
    "network.notify.changed": False, "network.manage-offline-status": False,
    "datareporting.policy.dataSubmissionEnabled": False, "toolkit.telemetry.server": "", "browser.shell.checkDefaultBrowser": False,
}
DARK = "layout.css.prefers-color-scheme.content-override"  # 0: dark, 1: light
KEYS = {"Enter": "\ue007", "Escape": "\ue00c", "Tab": "\ue004", "Backspace": "\ue003", "PageDown": "\ue00f", "End": "\ue010",
        "Home": "\ue011", "ArrowLeft": "\ue012", "ArrowUp": "\ue013", "ArrowRight": "\ue014", "ArrowDown": "\ue015"}
NUMBERS = {"NaN": float("nan"), "-0": -0.0, "Infinity": float("inf"), "-Infinity": float("-inf")}


def value_of(remote):
    """Converts a RemoteValue to Python."""
    value = remote.get("value")
    if remote["type"] == "array":
        return [value_of(v) for v in value]
    if remote["type"] == "object":
        return {k: value_of(v) for k, v in value}
    return NUMBERS.get(value, value) if remote["type"] == "number" else value


class FirefoxPage(Page):
    def __init__(self, browser, context):
        self.browser, self.ws, self.context = browser, browser.ws, context
        self.requests, self.problems, self.failed = [], [], []

    def _event(self, message):
        self.browser.event(message)

    def event(self, method, params):
        if method == "network.beforeRequestSent":
            self.requests.append(params["request"]["url"])
        elif method == "network.responseCompleted" and params["response"]["status"] >= 400:
            self.problems.append(f"{params['response']['status']} of {params['request']['url']}")
        elif method == "log.entryAdded" and params["level"] in ("error", "warn"):
            self.problems.append(str(params["text"]))

    def call(self, method, **params):
        return self.browser.call(method, **params)

    def run(self, expression):
        answer = self.call("script.evaluate", expression=expression, target={"context": self.context}, awaitPromise=True,
                           userActivation=True)
        if answer["type"] == "exception":
            raise BrowserError(answer["exceptionDetails"]["text"])
        return value_of(answer["result"])

    def go(self, url):
        self.call("browsingContext.navigate", context=self.context, url=url, wait="complete")

    def before(self, source):
        self.call("script.addPreloadScript", functionDeclaration="() => {" + source + "}", contexts=[self.context])

    def zone(self, name):
        self.call("emulation.setTimezoneOverride", timezone=name or None, contexts=[self.context])

    def size(self, width, height, scale=1, mobile=False):
        self.call("browsingContext.setViewport", context=self.context, viewport={"width": width, "height": height},
                  devicePixelRatio=scale)

    def dark(self, on=True):
        self.browser.set_preference(DARK, 0 if on else 1)
        self.wait(f"matchMedia('(prefers-color-scheme: dark)').matches === {json.dumps(bool(on))}")

    def _act(self, **source):
        self.call("input.performActions", context=self.context, actions=[{"id": source["type"], **source}])

    def _press(self, x, y):
        self._act(type="pointer", actions=[{"type": "pointerMove", "x": int(x), "y": int(y)},
                                           {"type": "pointerDown", "button": 0}, {"type": "pointerUp", "button": 0}])

    def key(self, key, code=None, text=None):
        self._insert([KEYS.get(key, key)])

    def _insert(self, text):
        self._act(type="key", actions=[{"type": kind, "value": c} for c in text for kind in ("keyDown", "keyUp")])

    def _picture(self):
        return self.call("browsingContext.captureScreenshot", context=self.context)["data"]

    def close(self):
        pass


class Firefox(Browser):
    NAME, PROGRAMS = "firefox", ("firefox-esr", "firefox")

    def _options(self):
        with open(os.path.join(self.profile, "user.js"), "w") as f:
            f.writelines(f"user_pref({json.dumps(k)}, {json.dumps(v)});\n" for k, v in PREFERENCES.items())
        # System access: only so can the preference for dark colours change while it runs.
        return ("--headless", "--no-remote", "--profile", self.profile, "--remote-debugging-port=0",
                "--remote-allow-system-access", "about:blank")

    def _environment(self):
        return {"TMPDIR": self.folder, "HOME": self.folder, "MOZ_CRASHREPORTER_DISABLE": "1"}

    def _url(self):
        with open(os.path.join(self.profile, "WebDriverBiDiServer.json")) as f:
            return f"ws://127.0.0.1:{json.load(f)['ws_port']}/session"

    def _begin(self):
        self.call("session.new", capabilities={})
        self.call("session.subscribe", events=["log.entryAdded", "network.beforeRequestSent", "network.responseCompleted"])

    def call(self, method, **params):
        return self.ws.call(method, params, self.event)

    def event(self, message):
        params = message.get("params", {})
        context = params.get("context") or params.get("source", {}).get("context")
        for page in self.pages:
            if page.context == context:
                page.event(message["method"], params)

    def set_preference(self, name, number):
        window = self.call("browsingContext.getTree", **{"moz:scope": "chrome"})["contexts"][0]["context"]
        self.call("script.evaluate", expression=f"Services.prefs.setIntPref({json.dumps(name)}, {number})",
                  target={"context": window}, awaitPromise=False)

    def page(self, url, width=1280, height=800, scale=1, mobile=False, dark=False):
        page = FirefoxPage(self, self.call("browsingContext.create", type="tab")["context"])
        self.pages.append(page)
        page.size(width, height, scale)
        page.dark(dark)
        page.go(url)
        return page

    def end(self, page):
        self.call("browsingContext.close", context=page.context)
        self.pages.remove(page)
