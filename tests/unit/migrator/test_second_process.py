"""The second process: what it answers, and that it never outlives the first one."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

from tests.support.waiting import await_that

# A process of its own, for one that has clients must not be forked.
SCRIPT = """
import os, signal, sys
from migrator.errors import PlanFileError, UnacknowledgedError
from migrator.copy import engine
from migrator.second_process import second_process

def count(number):
    yield from range(1, number + 1)
    yield os.getpid()

def fail():
    yield "begun"
    raise PlanFileError("what, where")

def lost():
    raise UnacknowledgedError("what, where")
    yield

def sleep():
    yield os.getpid()
    signal.pause()

def outcome(second):
    try:
        return list(second.answers(wait=True))
    except Exception as error:
        return [type(error).__name__, str(error)]

with second_process(wanted=False) as nothing:
    print(nothing)
with second_process(wanted=True) as second:
    second.begin(count, 3)
    second.begin(count, 2)
    first, pid = list(second.answers(wait=True)), 0
    print(first[:3], first[4:6], first[3] == first[6] != os.getpid())
    second.begin(fail)
    print(outcome(second))
    print(outcome(second))
with second_process(wanted=True) as second:
    second.begin(sleep)
    pid = next(second.answers(wait=True))
    os.kill(pid, signal.SIGKILL)
    print(outcome(second))
    try:
        second.begin(sleep)
    except Exception as error:
        print(type(error).__name__, error)
engine.copy_all = lambda *_: lost()
with second_process(wanted=True) as second:
    second.begin(engine._copy_others, [])
    print(outcome(second))
with second_process(wanted=True) as second:
    second.begin(sleep)
    print(next(second.answers(wait=True)), flush=True)
    os.kill(os.getpid(), signal.SIGKILL)
"""


def test_it_answers_fails_and_ends_with_the_first_one() -> None:
    done = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == -signal.SIGKILL, done.stderr
    *lines, pid = done.stdout.splitlines()
    assert lines == [
        "None",
        "[1, 2, 3] [1, 2] True",
        "['PlanFileError', 'what, where']",
        "['PlanFileError', 'what, where']",  # again, and nobody waits for more
        "['CopyError', 'the second process was ended: connect-share-migrate resume continues from there']",
        "CopyError the second process was ended: connect-share-migrate resume continues from there",
        "['CopyError', 'what, where']",  # the first process must not take it for its own, and go on
    ]

    def is_gone() -> bool:
        stat = Path(f"/proc/{pid}/stat")
        try:
            return stat.read_text().rpartition(")")[2].split()[0] == "Z"
        except OSError:
            return True

    await_that(is_gone, what="the second process ended")
    assert os.getpid() != int(pid)
