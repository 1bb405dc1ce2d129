"""Runs one program and ends it when the parent is gone. Started by path, imports nothing of the package.

usage: supervisor.py GRACE_SECONDS COMMAND...

The parent holds the other end of standard input. When it closes, because the parent asked or because it was killed, the
program gets SIGTERM, after the grace SIGKILL. The first line of output is the program's pid.
"""

import contextlib
import os
import queue
import signal
import subprocess
import sys
import threading


def main() -> int:
    """Run the command until it ends or the parent is gone."""
    grace_s, command = float(sys.argv[1]), sys.argv[2:]
    asked: queue.SimpleQueue[None] = queue.SimpleQueue()  # unlike an event, it may be put to while it is put to
    for name in ("SIGINT", "SIGTERM", "SIGHUP"):
        # Only noted: it may come while the program is being started, when there is nothing to end yet.
        signal.signal(getattr(signal, name), lambda *_: asked.put(None))
    log = os.dup(2)
    child = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
    threading.Thread(target=_ask_when_the_parent_is_gone, args=(asked,), daemon=True).start()
    threading.Thread(target=_end_when_asked, args=(child, asked, grace_s), daemon=True).start()
    with contextlib.suppress(OSError):  # a parent that was killed meanwhile: the program has to be ended all the same
        os.write(1, f"{child.pid}\n".encode())
    code = child.wait()
    return code if code >= 0 else 128 - code


def _ask_when_the_parent_is_gone(asked: "queue.SimpleQueue[None]") -> None:
    while os.read(0, 1024):
        pass
    asked.put(None)


def _end_when_asked(child: "subprocess.Popen[bytes]", asked: "queue.SimpleQueue[None]", grace_s: float) -> None:
    asked.get()
    child.terminate()
    try:
        child.wait(grace_s)
    except subprocess.TimeoutExpired:
        child.kill()


if __name__ == "__main__":
    sys.exit(main())
