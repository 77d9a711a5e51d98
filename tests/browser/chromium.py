"""Headless Chromium by its own protocol over two pipes: no package beside Python's own is needed."""

import base64
import json
import os
import select
import shutil
import subprocess
import tempfile
import time

NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome", "chrome-headless-shell")


def found():
    """The program, or None."""
    named = os.environ.get("PLUMBLINE_CHROMIUM")
    return named or next((path for path in map(shutil.which, NAMES) if path), None)


class Chromium:
    """One browser with one tab."""

    def __init__(self, program, wait=60):
        self.wait = wait
        # processes that the browser has made may write into it for a moment after it is gone
        self.profile = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        ours_read, theirs_write = os.pipe()
        theirs_read, ours_write = os.pipe()
        self.read_end, self.write_end = ours_read, ours_write
        # The browser reads at 3 and writes at 4; a shell puts them there, as Python runs no code of ours in between.
        wrapper = f'exec "$0" "$@" 3<&{theirs_read} 4>&{theirs_write}'
        words = ["--headless=new", "--no-sandbox", "--disable-gpu", "--remote-debugging-pipe", "--hide-scrollbars",
                 f"--user-data-dir={self.profile.name}", "about:blank"]  # fmt: skip
        self.process = subprocess.Popen(["bash", "-c", wrapper, program, *words], pass_fds=(theirs_read, theirs_write),
                                        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)  # fmt: skip
        os.close(theirs_read)
        os.close(theirs_write)
        self.buffer, self.count, self.said, self.session, self.loaded = b"", 0, [], None, False
        target = self.ask("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.ask("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log"):
            self.ask(domain + ".enable")

    def close(self):
        self.process.kill()
        self.process.wait()
        os.close(self.read_end)
        os.close(self.write_end)
        self.profile.cleanup()

    def message(self):
        end = time.monotonic() + self.wait
        while b"\0" not in self.buffer:
            left = end - time.monotonic()
            if left <= 0 or not select.select([self.read_end], [], [], left)[0]:
                raise TimeoutError("the browser does not answer")
            got = os.read(self.read_end, 1 << 16)
            if not got:
                raise ConnectionError("the browser has ended")
            self.buffer += got
        text, self.buffer = self.buffer.split(b"\0", 1)
        return json.loads(text)

    def note(self, message):
        """What is no answer: the console's words, and that a page is there."""
        method, params = message.get("method"), message.get("params", {})
        if method == "Runtime.consoleAPICalled":
            self.said.append(params["type"] + ": " + " ".join(str(each.get("value")) for each in params["args"]))
        elif method == "Runtime.exceptionThrown":
            self.said.append("exception: " + json.dumps(params["exceptionDetails"])[:300])
        elif method == "Log.entryAdded":
            self.said.append(params["entry"]["level"] + ": " + params["entry"]["text"])
        elif method == "Page.loadEventFired":
            self.loaded = True

    def ask(self, method, **params):
        self.count += 1
        request = {"id": self.count, "method": method, "params": params}
        if self.session:
            request["sessionId"] = self.session
        os.write(self.write_end, json.dumps(request).encode() + b"\0")
        while True:
            message = self.message()
            if message.get("id") == self.count:
                if "error" in message:
                    raise RuntimeError(f"{method}: {message['error']}")
                return message["result"]
            self.note(message)

    def show(self, path, width, dark=False, printed=False):
        """Loads a file in a window of that width; seconds until it is painted."""
        self.ask("Emulation.setDeviceMetricsOverride", width=width, height=900, deviceScaleFactor=1, mobile=False)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.ask("Emulation.setEmulatedMedia", media="print" if printed else "", features=[scheme])
        self.said, self.loaded = [], False
        begin = time.monotonic()
        self.ask("Page.navigate", url="file://" + os.path.abspath(path))
        while not self.loaded:
            self.note(self.message())
        # two frames later all of it has been laid out and painted
        self.value("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")
        return time.monotonic() - begin

    def value(self, expression):
        answer = self.ask("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in answer:
            raise RuntimeError(json.dumps(answer["exceptionDetails"])[:500])
        return answer["result"].get("value")

    def picture(self, path, whole=True):
        data = self.ask("Page.captureScreenshot", format="png", captureBeyondViewport=whole)["data"]
        with open(path, "wb") as file:
            file.write(base64.b64decode(data))
