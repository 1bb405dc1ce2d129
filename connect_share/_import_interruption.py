"""Ctrl-C while one of our programs is still being imported: a sentence and the exit code; no effect in other processes."""

import os
import signal
import sys

_PROGRAMS = ("connect-share", "connect-share-migrate")
_MODULES = ("connect_share", "connect_share.cli", "migrator", "migrator.cli")


def _is_ours() -> bool:
    if sys.argv[:1] != ["-m"]:  # Python's value while it imports a package that is to be run
        return bool(sys.argv) and os.path.basename(sys.argv[0]) in _PROGRAMS  # noqa: PTH119 - pathlib is an import more
    given = sys.orig_argv
    return "-m" in given[:-1] and given[given.index("-m") + 1] in _MODULES


def _end(*_: object) -> None:
    os.write(2, b"interrupted: nothing was done\n")
    os._exit(130)


if signal.getsignal(signal.SIGINT) is signal.default_int_handler and _is_ours():
    signal.signal(signal.SIGINT, _end)
