"""Runs one program and ends it when the parent is gone. Started by path, imports nothing of the package.

usage: supervisor.py GRACE_SECONDS FOLDER_TO_REMOVE_OR_- COMMAND...

The parent holds the other end of standard input. When it closes, because the parent asked or because it was killed, the
program gets SIGTERM, after the grace SIGKILL, and the folder is removed. The first line of output is the program's pid.
"""

import os
import shutil
import signal
import subprocess
import sys
import threading


def main() -> int:
    """Run the command until it ends or the parent is gone."""
    grace_s, folder, command = float(sys.argv[1]), sys.argv[2], sys.argv[3:]
    for name in ("SIGINT", "SIGTERM", "SIGHUP"):
        signal.signal(getattr(signal, name), lambda *_: stop())
    log = os.dup(2)
    child = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)

    def stop() -> None:
        if child.poll() is None:
            child.terminate()

    def watch() -> None:
        while os.read(0, 1024):
            pass
        stop()
        try:
            child.wait(grace_s)
        except subprocess.TimeoutExpired:
            child.kill()

    sys.stdout.write(f"{child.pid}\n")
    sys.stdout.flush()
    threading.Thread(target=watch, daemon=True).start()
    code = child.wait()
    if folder != "-":
        shutil.rmtree(folder, ignore_errors=True)
    return code if code >= 0 else 128 - code


if __name__ == "__main__":
    sys.exit(main())
