"""A real headless chromium, asked over its debugging pipe: what a page looks like, and what the browser complains about."""

from __future__ import annotations

import json
import os
import select
import shutil
import subprocess
import sys
import time
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

from tests.support.waiting import await_that

CHROMIUM: Final = shutil.which("chromium")
WITHOUT_CHROMIUM: Final = "no chromium: the page is parsed by other tests only"

_TIMEOUT_S: Final = 60.0
# The browser wants its pipe at the descriptors 3 and 4, which the test's process may have in use.
_AS_3_AND_4: Final = """
import fcntl, os, sys
read, write = (fcntl.fcntl(int(number), fcntl.F_DUPFD, 10) for number in sys.argv[1:3])
os.dup2(read, 3)
os.dup2(write, 4)
os.execvp(sys.argv[3], sys.argv[3:])
"""

# Contrast of every text with what lies behind it, as the accessibility guidelines compute it; lines of a plot that cross
# a text are no background. Texts of one plot must not lie upon each other, nor reach out of it.
_LOOK = """(() => {
  const parsed = colour => (colour.match(/[\\d.]+/g) || []).map(Number);
  const light = colour => parsed(colour).slice(0, 3).map(v => v / 255)
    .map(v => v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)
    .reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
  const behind = element => { for (let e = element; e; e = e.parentElement) {
    const colour = getComputedStyle(e).backgroundColor, parts = parsed(colour);
    if (parts.length === 3 || parts[3] === 1) return colour; } return 'rgb(255, 255, 255)'; };
  const faint = [], outside = [], upon = [];
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  for (let node = walker.nextNode(); node; node = walker.nextNode()) {
    const element = node.parentElement, svg = element.closest('svg');
    if (!node.data.trim() || element.tagName === 'title') continue;
    const style = getComputedStyle(element);
    const [a, b] = [light(svg ? style.fill : style.color), light(behind(svg || element))];
    const contrast = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    if (contrast < 4.5) faint.push([node.data, contrast]);
  }
  for (const svg of document.querySelectorAll('svg')) {
    const frame = svg.viewBox.baseVal, texts = [...svg.querySelectorAll('text')].map(t => [t.textContent, t.getBBox()]);
    for (const [i, [text, box]] of texts.entries()) {
      if (box.x < -1 || box.x + box.width > frame.width + 1 || box.y < -1 || box.y + box.height > frame.height + 3)
        outside.push([svg.ariaLabel, text]);
      for (const [other, second] of texts.slice(0, i))
        if (Math.min(box.x + box.width, second.x + second.width) - Math.max(box.x, second.x) > 1 &&
            Math.min(box.y + box.height, second.y + second.height) - Math.max(box.y, second.y) > 4)
          upon.push([svg.ariaLabel, text, other]);
    }
  }
  return {faint, outside, upon, wide: document.documentElement.scrollWidth - document.documentElement.clientWidth,
    plots: document.querySelectorAll('svg').length, tables: document.querySelectorAll('.scroll').length};
})()"""


class Browser:
    """One page of one browser; complaints are everything that the console would show."""

    def __init__(self, home: Path) -> None:
        assert CHROMIUM is not None, WITHOUT_CHROMIUM
        there, self._to = os.pipe()
        self._from, back = os.pipe()
        options = ["--headless", "--no-sandbox", "--disable-gpu", "--remote-debugging-pipe", "--hide-scrollbars"]
        options += [
            "--no-first-run",
            "--disable-extensions",
            "--disable-background-networking",
            f"--user-data-dir={home}",
        ]
        self._process = subprocess.Popen(
            [sys.executable, "-c", _AS_3_AND_4, str(there), str(back), CHROMIUM, *options, "about:blank"],
            pass_fds=(there, back),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env={**os.environ, "HOME": str(home)},
        )
        os.close(there)
        os.close(back)
        self._received = b""
        self._number = 0
        self._session: str | None = None
        self.complaints: list[str] = []
        target = self._ask("Target.createTarget", url="about:blank")["targetId"]
        self._session = self._ask("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Log", "Runtime"):
            self._ask(f"{domain}.enable")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            os.close(self._to)  # the end of the pipe is the browser's end
            self._process.wait(_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        finally:
            os.close(self._from)

    def open(self, page: Path, *, width: int) -> None:
        """Show a file in a window of this width, in light colours."""
        self._ask(
            "Emulation.setDeviceMetricsOverride", width=width, height=844, deviceScaleFactor=1, mobile=width < 600
        )
        self.prefer("light")
        # Events of a load may come before the answer, or be those of the page before: the page itself is asked.
        self._answer("Runtime.evaluate", expression="window.before = true")
        self._ask("Page.navigate", url=page.as_uri())
        there = "[location.href, document.readyState, 'before' in window]"
        await_that(
            lambda: self._answer("Runtime.evaluate", expression=there, returnByValue=True),
            lambda answer: (
                answer.get("result", {}).get("result", {}).get("value") == [page.as_uri(), "complete", False]
            ),
            what="loaded",
            timeout_s=_TIMEOUT_S,
        )

    def prefer(self, scheme: str) -> None:
        """Make the page believe that the user wants ``light`` or ``dark``."""
        self._ask("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])

    def evaluate(self, expression: str) -> Any:
        """Give what a script sees; the script is no part of the page."""
        answer = self._ask("Runtime.evaluate", expression=expression, returnByValue=True)
        assert "exceptionDetails" not in answer, answer
        return answer["result"].get("value")

    def look(self) -> dict[str, Any]:
        """Give what is wrong with the page's looks.

        ``faint`` texts, texts ``outside`` of a plot or ``upon`` others, pixels that the page is too ``wide``; and how many
        ``plots`` and ``tables`` it has.
        """
        seen: dict[str, Any] = self.evaluate(_LOOK)
        return seen

    def _ask(self, method: str, **parameters: Any) -> dict[str, Any]:
        answer = self._answer(method, **parameters)
        assert "error" not in answer, answer
        result: dict[str, Any] = answer["result"]
        return result

    def _answer(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Give the answer, which may be an error: a script is in a page that just goes."""
        self._number += 1
        number = self._number
        message = {"id": number, "method": method, "params": parameters}
        if self._session is not None:
            message["sessionId"] = self._session
        os.write(self._to, json.dumps(message).encode() + b"\0")
        return self._read_until(lambda received: received.get("id") == number)

    def _read_until(self, wanted: Any) -> dict[str, Any]:
        deadline_s = time.monotonic() + _TIMEOUT_S
        while True:
            while b"\0" in self._received:
                line, _, self._received = self._received.partition(b"\0")
                received: dict[str, Any] = json.loads(line)
                self._note(received)
                if wanted(received):
                    return received
            ready, _, _ = select.select([self._from], [], [], max(0.0, deadline_s - time.monotonic()))
            assert ready, f"chromium did not answer within {_TIMEOUT_S:g} s"
            data = os.read(self._from, 1 << 20)
            assert data, "chromium ended"
            self._received += data

    def _note(self, received: dict[str, Any]) -> None:
        method, parameters = received.get("method", ""), received.get("params", {})
        if method == "Log.entryAdded":
            self.complaints.append(str(parameters["entry"]["text"]))
        elif method in ("Runtime.exceptionThrown", "Runtime.consoleAPICalled"):
            self.complaints.append(json.dumps(parameters))
