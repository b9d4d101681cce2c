"""Speedscope itself (its npm package, in .deps) in Chromium: opens a file as a user would, and saves what it understood."""
import base64
import json
import pathlib
import shutil

from browser import Browser

FOLDER = pathlib.Path(__file__).resolve().parents[2] / ".deps" / "speedscope"
CONTROL = 2


class Speedscope:
    def __init__(self, folder):
        """folder: an empty one; the page reads local files from beside itself."""
        self.folder = pathlib.Path(folder) / "speedscope"
        shutil.copytree(FOLDER, self.folder)
        self.browser = Browser()

    def close(self):
        self.browser.close()

    def open(self, path):
        """What its importer made of a file: its own format, as "save" writes it. None: it refused the file."""
        data = base64.b64encode(pathlib.Path(path).read_bytes()).decode()
        script = self.folder / "profile.js"
        script.write_text(f"speedscope.loadFileFromBase64({json.dumps(pathlib.Path(path).name)}, {json.dumps(data)})")
        self.browser.open(self.folder / "index.html", fragment=f"#localProfilePath={script}")
        self.browser.evaluate("window.saved = null; window.URL.createObjectURL = blob => { window.saved = blob; return 'data:,'; }")
        for _ in range(100):  # until the importer is ready, there is nothing to save
            self.save()
            text = self.browser.evaluate("window.saved ? window.saved.text() : null")
            if text:
                return json.loads(text)
            if "error" in (self.browser.evaluate("document.body.innerText") or "").lower():
                return None
        return None

    def save(self):
        for kind in ("keyDown", "keyUp"):
            self.browser.call("Input.dispatchKeyEvent", type=kind, key="s", code="KeyS", windowsVirtualKeyCode=83, modifiers=CONTROL)
        self.browser.frames()


def total(saved):
    """Sum of the weights of all profiles that were opened."""
    return sum(sum(profile["weights"]) for profile in saved["profiles"])
