"""Debian's Chromium over a pipe: the DevTools protocol without any library. A page is opened from a file, as a person would."""
import base64
import fcntl
import json
import os
import pathlib
import select
import shutil
import subprocess
import tempfile
import time

# Without its sandbox, which neither root nor a container has: the pages are our own.
FLAGS = ["--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync",
         "--disable-default-apps", "--disable-extensions", "--no-default-browser-check", "--mute-audio",
         "--force-color-profile=srgb", "--disable-dev-shm-usage", "--remote-debugging-pipe"]


def find_chromium():
    """The path of a Chromium, or None."""
    return shutil.which(os.environ.get("CHROMIUM", "chromium")) or shutil.which("chromium-browser")


def pipe():
    """Both ends above the descriptors that Chromium wants for itself."""
    ends = os.pipe()
    high = [fcntl.fcntl(end, fcntl.F_DUPFD_CLOEXEC, 20) for end in ends]
    for end in ends:
        os.close(end)
    return high


class Browser:
    """One process with one page. Everything the page complains of is in `complaints`, every address it asked for in `requests`."""

    def __init__(self):
        self.profile = tempfile.mkdtemp(prefix="chromium-")
        to_read, self.to = pipe()
        self.back, from_write = pipe()
        # The browser reads commands from descriptor 3 and answers on 4.
        script = f'exec "$0" "$@" 3<&{to_read} 4>&{from_write} {to_read}<&- {from_write}>&-'
        self.process = subprocess.Popen(["bash", "-c", script, find_chromium(), *FLAGS, f"--user-data-dir={self.profile}", "about:blank"],
                                        pass_fds=(to_read, from_write), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                                        env={**os.environ, "TZ": "Europe/Berlin"})
        os.close(to_read)
        os.close(from_write)
        self.buffer, self.last_id, self.session = b"", 0, None
        self.complaints, self.requests, self.events, self.dialogs = [], [], [], []
        page = next(t for t in self.call("Target.getTargets")["targetInfos"] if t["type"] == "page")
        self.session = self.call("Target.attachToTarget", targetId=page["targetId"], flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network", "Audits"):
            self.call(f"{domain}.enable")
        # Else the page has the focus only after its first input, and what a test focused gets its event in the midst of another step.
        self.call("Emulation.setFocusEmulationEnabled", enabled=True)

    def close(self):
        try:
            session, self.session = self.session, None
            self.call("Browser.close", timeout=10)
        except (OSError, TimeoutError):
            self.process.kill()
        self.process.wait(timeout=20)
        os.close(self.to)
        os.close(self.back)
        shutil.rmtree(self.profile, ignore_errors=True)

    def receive(self, deadline):
        while b"\0" not in self.buffer:
            if not select.select([self.back], [], [], max(0, deadline - time.monotonic()))[0]:
                raise TimeoutError("Chromium does not answer")
            more = os.read(self.back, 1 << 20)
            if not more:
                raise OSError("Chromium has ended")
            self.buffer += more
        message, self.buffer = self.buffer.split(b"\0", 1)
        return json.loads(message)

    def note(self, message):
        name, given = message["method"], message.get("params", {})
        self.events.append(name)
        if name == "Runtime.exceptionThrown":
            self.complaints.append(json.dumps(given["exceptionDetails"])[:2000])
        elif name == "Runtime.consoleAPICalled" and given["type"] in ("error", "warning", "assert"):
            self.complaints.append(str([argument.get("value") for argument in given["args"]]))
        elif name == "Log.entryAdded" and given["entry"]["level"] in ("error", "warning"):
            self.complaints.append(given["entry"]["text"])
        elif name == "Audits.issueAdded" and "ContentSecurityPolicy" in given["issue"]["code"]:
            self.complaints.append(json.dumps(given["issue"]))
        elif name == "Network.requestWillBeSent":
            self.requests.append(given["request"]["url"])
        elif name == "Page.javascriptDialogOpening":
            self.dialogs.append(given["message"])
            self.send("Page.handleJavaScriptDialog", accept=True)

    def send(self, method, **arguments):
        self.last_id += 1
        message = {"id": self.last_id, "method": method, "params": arguments}
        if self.session:
            message["sessionId"] = self.session
        data = json.dumps(message).encode() + b"\0"
        while data:
            data = data[os.write(self.to, data):]
        return self.last_id

    def call(self, method, timeout=60, **arguments):
        number = self.send(method, **arguments)
        deadline = time.monotonic() + timeout
        while True:
            message = self.receive(deadline)
            if message.get("id") == number:
                if "error" in message:
                    raise RuntimeError(f"{method}: {message['error']['message']}")
                return message["result"]
            if "method" in message:
                self.note(message)

    def wait_event(self, name, timeout=60):
        deadline = time.monotonic() + timeout
        while name not in self.events:
            message = self.receive(deadline)
            if "method" in message:
                self.note(message)

    def open(self, path, width=1400, height=900, scheme="light", fragment="", mobile=False):
        """Loads a file anew; returns when it was loaded and two frames were drawn."""
        self.resize(width, height, mobile)
        self.scheme(scheme)
        for url in ("about:blank", pathlib.Path(path).resolve().as_uri() + fragment):
            self.complaints, self.requests, self.events, self.dialogs = [], [], [], []
            self.call("Page.navigate", url=url)
            self.wait_event("Page.loadEventFired")
        self.frames()

    def resize(self, width, height, mobile=False):
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=mobile)

    def scheme(self, name, reduced_motion=True):
        self.call("Emulation.setEmulatedMedia", features=[
            {"name": "prefers-color-scheme", "value": name},
            {"name": "prefers-reduced-motion", "value": "reduce" if reduced_motion else "no-preference"}])

    def frames(self, n=2):
        """Until so many frames were drawn; what was asked for by then is on the page."""
        self.evaluate("new Promise(done => { let n = %d; const next = () => n-- ? requestAnimationFrame(next) : done(); next(); })" % n)

    def evaluate(self, text):
        found = self.call("Runtime.evaluate", expression=text, awaitPromise=True, returnByValue=True, userGesture=True)
        if "exceptionDetails" in found:
            raise RuntimeError(json.dumps(found["exceptionDetails"])[:1500])
        return found["result"].get("value")

    def mouse(self, kind, x, y, **more):
        self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, **more)

    def drag(self, x0, y0, x1, y1, modifiers=0):
        self.mouse("mouseMoved", x0, y0)
        self.mouse("mousePressed", x0, y0, button="left", buttons=1, clickCount=1, modifiers=modifiers)
        for i in range(1, 6):
            self.mouse("mouseMoved", x0 + (x1 - x0) * i / 5, y0 + (y1 - y0) * i / 5, button="left", buttons=1, modifiers=modifiers)
        self.mouse("mouseReleased", x1, y1, button="left", clickCount=1, modifiers=modifiers)
        self.frames()

    def click(self, x, y, count=1):
        self.mouse("mouseMoved", x, y)
        for i in range(1, count + 1):
            self.mouse("mousePressed", x, y, button="left", buttons=1, clickCount=i)
            self.mouse("mouseReleased", x, y, button="left", clickCount=i)
        self.frames()

    def key(self, key, modifiers=0):
        code = {"Enter": 13, "Escape": 27, "Tab": 9, "ArrowLeft": 37, "ArrowUp": 38, "ArrowRight": 39, "ArrowDown": 40, " ": 32}.get(key)
        more = {"text": "\r" if key == "Enter" else key} if len(key) == 1 or key == "Enter" else {}
        if code:
            more["windowsVirtualKeyCode"] = code
        self.call("Input.dispatchKeyEvent", type="keyDown", key=key, modifiers=modifiers, **more)
        self.call("Input.dispatchKeyEvent", type="keyUp", key=key, modifiers=modifiers)
        self.frames()

    def place(self, selector):
        """{x, y, width, height} of an element in the window, after it was scrolled into sight."""
        name = json.dumps(selector)
        self.evaluate(f"document.querySelector({name}).scrollIntoView({{ block: 'center' }})")
        self.frames()
        return self.evaluate(f"(({{ x, y, width, height }}) => ({{ x, y, width, height }}))(document.querySelector({name}).getBoundingClientRect())")

    def picture(self, path, whole=False):
        """A PNG of the window, or of the whole page (all of it drawn)."""
        if whole:
            width = self.evaluate("innerWidth")
            height = min(12000, self.evaluate("document.documentElement.scrollHeight"))
            self.resize(width, height)
            self.frames(4)
        data = base64.b64decode(self.call("Page.captureScreenshot", format="png")["data"])
        pathlib.Path(path).write_bytes(data)
        return data

    def pdf(self, path):
        """What the print dialog would make, as PDF."""
        data = base64.b64decode(self.call("Page.printToPDF", printBackground=True, preferCSSPageSize=True, paperWidth=8.27, paperHeight=11.69)["data"])
        pathlib.Path(path).write_bytes(data)
        return data
