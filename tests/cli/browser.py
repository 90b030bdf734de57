"""Headless Chromium, controlled through a pipe by the DevTools protocol, for tests of pages, and a server of files."""
import atexit
import base64
import functools
import http.server
import json
import os
import shutil
import subprocess
import threading
import time

PROGRAM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("chromium-headless-shell")
FLAGS = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
         "--disable-component-update", "--disable-sync", "--disable-dev-shm-usage", "--remote-debugging-pipe"]
KEYS = {"Enter": 13, "Escape": 27, "Tab": 9, "End": 35, "Home": 36, "ArrowLeft": 37, "ArrowRight": 39, "Backspace": 8,
        "ArrowDown": 40, "ArrowUp": 38, " ": 32}
CONTROL, SHIFT = 2, 8


class Files(http.server.SimpleHTTPRequestHandler):
    """A server of static files; an isolated one sends the two headers that let a page have threads."""
    isolated = False

    def end_headers(self):
        if self.isolated:
            self.send_header("Cross-Origin-Opener-Policy", "same-origin")
            self.send_header("Cross-Origin-Embedder-Policy", "require-corp")
        super().end_headers()

    def log_message(self, *_):
        pass


class Isolated(Files):
    isolated = True


def serve(folder, handler=Files):
    """Serves a folder until the program ends. Returns the address of its index.html."""
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(handler, directory=folder))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return f"http://127.0.0.1:{server.server_port}/index.html"


class Browser:
    def __init__(self, folder):
        read_commands, self.commands = os.pipe()
        self.events, write_events = os.pipe()
        line = f'exec "$@" 3<&{read_commands} 4>&{write_events}'
        self.process = subprocess.Popen(["sh", "-c", line, "sh", PROGRAM, *FLAGS, f"--user-data-dir={folder}/profile"],
                                        pass_fds=(read_commands, write_events), stderr=subprocess.DEVNULL)
        atexit.register(self.end)
        os.close(read_commands)
        os.close(write_events)
        self.number, self.rest, self.listeners = 0, b"", []

    def call(self, method, session=None, **params):
        self.number += 1
        message = {"id": self.number, "method": method, "params": params, **({"sessionId": session} if session else {})}
        os.write(self.commands, json.dumps(message).encode() + b"\0")
        while (answer := self.receive()).get("id") != self.number:
            for listener in self.listeners:
                listener(answer)
        if "error" in answer:
            raise RuntimeError(f"{method}: {answer['error']}")
        return answer["result"]

    def end(self):
        """Closes the browser and waits, so that none of its processes writes to its folder any more."""
        try:
            self.call("Browser.close")
            self.process.wait(10)
        except (OSError, RuntimeError, subprocess.TimeoutExpired):
            pass
        self.process.kill()
        self.process.wait()

    def receive(self):
        while b"\0" not in self.rest:
            part = os.read(self.events, 1 << 20)
            if not part:
                raise RuntimeError("chromium has ended")
            self.rest += part
        message, self.rest = self.rest.split(b"\0", 1)
        return json.loads(message)


class Page:
    """One tab. `trouble` has the errors of its console, with those of its content policy."""

    def __init__(self, browser, width=1200, height=900, dark=False, phone=False):
        self.browser, self.trouble = browser, []
        self.target = browser.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = browser.call("Target.attachToTarget", targetId=self.target, flatten=True)["sessionId"]
        browser.listeners.append(self.listen)
        for domain in ("Page", "Runtime", "Log", "Accessibility"):
            self.call(domain + ".enable")
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=phone)
        self.call("Emulation.setTouchEmulationEnabled", enabled=phone)
        self.scheme(dark)

    def call(self, method, **params):
        return self.browser.call(method, self.session, **params)

    def listen(self, event):
        if event.get("sessionId") != self.session:
            return
        if event["method"] == "Log.entryAdded":
            self.trouble.append(event["params"]["entry"]["text"])
        elif event["method"] == "Runtime.exceptionThrown":
            self.trouble.append(str(event["params"]["exceptionDetails"]))

    def scheme(self, dark):
        """Sets the light or dark scheme, without animations, so that colours have their final values."""
        wishes = {"prefers-color-scheme": "dark" if dark else "light", "prefers-reduced-motion": "reduce"}
        self.call("Emulation.setEmulatedMedia", features=[{"name": n, "value": v} for n, v in wishes.items()])

    def open(self, address):
        self.call("Page.navigate", url=address)
        return self.wait("document.readyState === 'complete' && location.href !== 'about:blank'")

    def js(self, code):
        answer = self.call("Runtime.evaluate", expression=code, awaitPromise=True, returnByValue=True)
        if "exceptionDetails" in answer:
            raise RuntimeError(f"{code}: {answer['exceptionDetails']}")
        return answer["result"].get("value")

    def wait(self, code, seconds=30):
        """Waits until the code is true. Returns its value, or None."""
        end = time.monotonic() + seconds
        while not (value := self.js(code)) and time.monotonic() < end:
            time.sleep(0.02)
        return value

    def key(self, name, modifiers=0, times=1):
        text = {"Enter": "\r", " ": " "}.get(name, "") if not modifiers else ""
        for _ in range(times):
            self.call("Input.dispatchKeyEvent", type="keyDown", key=name, code=name, windowsVirtualKeyCode=KEYS[name],
                      modifiers=modifiers, **({"text": text} if text else {}))
            self.call("Input.dispatchKeyEvent", type="keyUp", key=name, code=name, windowsVirtualKeyCode=KEYS[name],
                      modifiers=modifiers)

    def type(self, text):
        self.call("Input.insertText", text=text)

    def tab_to(self, element):
        """Reaches an element with the Tab key. False if it cannot be reached."""
        for _ in range(60):
            if self.js("document.activeElement.id || document.activeElement.name || document.activeElement.textContent") == element:
                return True
            self.key("Tab")
        return False

    def press(self, element):
        return self.tab_to(element) and (self.key("Enter"), True)[1]

    def text(self, element):
        return self.js(f"document.getElementById('{element}').textContent")

    def picture(self, path):
        size = self.call("Page.getLayoutMetrics")["cssContentSize"]
        clip = {"x": 0, "y": 0, "width": size["width"], "height": size["height"], "scale": 1}
        data = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=True, clip=clip)["data"]
        with open(path, "wb") as f:
            f.write(base64.b64decode(data))
