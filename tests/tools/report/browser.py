# SPDX-License-Identifier: Apache-2.0
"""One headless Chromium for many pages, driven over a pipe by the DevTools protocol: nothing but Python is
needed, and no port is opened."""
import base64
import json
import os
import select
import subprocess
import tempfile
import time

ANSWER_S = 120  # a browser that says nothing for so long hangs
OPTIONS = ["--remote-debugging-pipe", "--no-sandbox", "--disable-gpu", "--no-first-run", "--hide-scrollbars",
           "--disable-dev-shm-usage", "--disable-background-networking", "--allow-file-access-from-files"]


class Browser:
    """The process. What it reads is our `requests`, what it writes our `answers`."""

    def __init__(self, program):
        self.folder = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        theirs_in, self.requests = os.pipe()
        self.answers, theirs_out = os.pipe()
        command = ["sh", "-c", f'exec "$0" "$@" 3<&{theirs_in} 4>&{theirs_out}', program, *OPTIONS,
                   f"--user-data-dir={self.folder.name}"]
        self.process = subprocess.Popen(command, pass_fds=(theirs_in, theirs_out), stdout=subprocess.DEVNULL,
                                        stderr=subprocess.DEVNULL)
        os.close(theirs_in)
        os.close(theirs_out)
        self.rest, self.number, self.events = b"", 0, []

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.process.kill()
        self.process.wait()
        os.close(self.requests)
        os.close(self.answers)
        self.folder.cleanup()

    def read(self, end):
        """Returns the next message, or None once it is `end`."""
        while b"\0" not in self.rest:
            if not select.select([self.answers], [], [], max(end - time.monotonic(), 0))[0]:
                return None
            part = os.read(self.answers, 1 << 20)
            if not part:
                raise RuntimeError(f"the browser ended: exit code {self.process.wait()}")
            self.rest += part
        message, self.rest = self.rest.split(b"\0", 1)
        return json.loads(message)

    def call(self, method, session=None, **arguments):
        self.number += 1
        request = {"id": self.number, "method": method, "params": arguments}
        if session:
            request["sessionId"] = session
        data = json.dumps(request).encode() + b"\0"
        while data:
            data = data[os.write(self.requests, data):]
        end = time.monotonic() + ANSWER_S
        while True:
            message = self.read(end)
            if message is None:
                raise RuntimeError(f"{method}: no answer")
            if message.get("id") != self.number:
                self.events.append(message)
            elif "error" in message:
                raise RuntimeError(f"{method}: {message['error']}")
            else:
                return message["result"]

    def open(self, url, width=1400, height=1000, is_dark=False):
        return Page(self, url, width, height, is_dark)


class Page:
    """A tab. `requests` are the addresses it asked for, `complaints` what came to the console."""

    def __init__(self, browser, url, width, height, is_dark):
        self.browser = browser
        self.target = browser.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = browser.call("Target.attachToTarget", targetId=self.target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")
        self.colours(is_dark)
        self.resize(width, height)
        self.call("Page.navigate", url=url)

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.browser.call("Target.closeTarget", targetId=self.target)
        self.browser.events.clear()

    def call(self, method, **arguments):
        return self.browser.call(method, self.session, **arguments)

    def colours(self, is_dark):
        scheme = {"name": "prefers-color-scheme", "value": "dark" if is_dark else "light"}
        self.call("Emulation.setEmulatedMedia", features=[scheme])

    def resize(self, width, height):
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1,
                  mobile=False)

    def value(self, expression):
        """Returns what the expression of JavaScript comes to; a promise is waited for."""
        result = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in result:
            raise RuntimeError(f"{expression}: {result['exceptionDetails']}")
        return result["result"].get("value")

    def wait(self, expression):
        """Waits until the expression holds."""
        end = time.monotonic() + ANSWER_S
        while not self.value(expression):
            if time.monotonic() > end:
                raise RuntimeError(f"it never held: {expression}: {self.complaints()}")
            time.sleep(0.02)

    def drawn(self):
        """Waits until what was asked for is drawn."""
        self.value("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => done(1))))")

    def key(self, name):
        for kind in ("keyDown", "keyUp"):
            text = {"text": name} if len(name) == 1 and kind == "keyDown" else {}
            self.call("Input.dispatchKeyEvent", type=kind, key=name, code=name,
                      windowsVirtualKeyCode=9 if name == "Tab" else 0, **text)
        self.drawn()

    def picture(self, path):
        """The page from top to end."""
        size = self.call("Page.getLayoutMetrics")["cssContentSize"]
        clip = {"x": 0, "y": 0, "width": size["width"], "height": size["height"], "scale": 1}
        shot = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=True, clip=clip)
        with open(path, "wb") as file:
            file.write(base64.b64decode(shot["data"]))

    def of_events(self, *methods):
        return [event["params"] for event in self.browser.events
                if event.get("sessionId") == self.session and event.get("method") in methods]

    def requests(self):
        self.value("0")  # what came before has arrived with it
        return [event["request"]["url"] for event in self.of_events("Network.requestWillBeSent")]

    def complaints(self):
        self.value("0")
        return self.of_events("Runtime.exceptionThrown", "Runtime.consoleAPICalled", "Log.entryAdded")
