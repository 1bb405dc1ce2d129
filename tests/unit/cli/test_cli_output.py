"""What reaches a terminal or a script: escapes, widths, JSON, errors."""

from __future__ import annotations

import contextlib
import io
import json
import os
import pty
import select
import signal
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import connect_share
from connect_share.console.output import (
    ELLIPSIS,
    Output,
    Result,
    Table,
    json_text,
    printable,
    table,
    text_width,
    truncated,
)
from connect_share.errors import ReadToEndTimeoutError
from tests.support.hostile_records import NAMES
from tests.support.json_values import json_values

any_text = st.text() | st.sampled_from(NAMES) | st.text(alphabet=st.characters(categories=["Cs", "Cf", "Cc", "Lo"]))


@given(any_text)
@example("".join(NAMES))
def test_nothing_that_acts_on_a_terminal_gets_through(text: str) -> None:
    shown = printable(text)
    assert shown.isprintable()
    assert shown == text or not text.isprintable()  # letters, digits and emoji are left alone
    shown.encode("utf-8")


@pytest.mark.parametrize(
    ("text", "shown"),
    [("\x1b[31m", "\\x1b[31m"), ("\u202e", "\\u202e"), ("a\nb", "a\\nb"), ("größe-😀-日本", "größe-😀-日本")],
)
def test_escapes_can_be_recognised(text: str, shown: str) -> None:
    assert printable(text) == shown


@given(any_text.map(printable), st.integers(1, 40))
def test_cut_text_fits(text: str, width: int) -> None:
    shown = truncated(text, width)
    assert text_width(shown) <= width
    assert shown == text or (shown.endswith(ELLIPSIS) and text.startswith(shown[:-1]))


@pytest.mark.parametrize(("text", "width"), [("abc", 3), ("日本", 4), ("😀", 2), ("e\u0301", 1), ("", 0), ("ｱ", 1)])
def test_widths(text: str, width: int) -> None:
    assert text_width(text) == width


@given(
    st.lists(st.lists(any_text | st.integers() | st.none(), min_size=3, max_size=3), min_size=1, max_size=5),
    st.integers(1, 120) | st.none(),
    st.sampled_from([(), ("STATE", "NAME")]),
)
def test_tables_fit_and_have_one_line_for_each_row(
    rows: list[list[object]], width: int | None, spare: tuple[str, ...]
) -> None:
    lines = table(("GROUP", "NAME", "STATE"), rows, width, spare).split("\n")
    assert all(line.isprintable() for line in lines)
    if len(lines) == len(rows) * 4 - 1:  # too narrow: a list
        assert width is not None
        assert width < 3 * 12 + 4
    else:
        assert len(lines) == len(rows) + 1
        assert width is None or all(text_width(line) <= width for line in lines)
        assert spare or lines[0].split() == ["GROUP", "NAME", "STATE"]


def test_columns_line_up_and_the_widest_is_cut() -> None:
    rows = [("(plain)", "größe-😀-日本", 3), ("team.a", "x" * 60, None)]
    assert table(("GROUP", "NAME", "N"), rows, 40) == (
        "GROUP    NAME                          N\n"
        "(plain)  größe-😀-日本                 3\n"
        f"team.a   {'x' * 27}{ELLIPSIS}  -"
    )
    assert "x" * 60 in table(("GROUP", "NAME", "N"), rows)


def test_a_narrow_terminal_gets_a_list_with_nothing_cut() -> None:
    headers = ("GROUP", "CONNECTOR", "TARGET", "STATE", "TASKS", "WORKER")
    rows = [("team.orders.production", f"orders.source.{n}", "STARTED", "RUNNING", 3, "10.0.0.1:8083") for n in (1, 2)]
    shown = [line.split() for line in table(headers, rows, 60).split("\n")]
    cells = [[list(pair) for pair in zip(headers, map(str, row), strict=True)] for row in rows]
    assert shown == [*cells[0], [], *cells[1]]
    assert table(headers, rows, 90).startswith("GROUP  ")
    assert table(("GROUP", "NAME"), [("abcdefghijklmn", "klmnopqrstuvwx")], 1) == (
        "GROUP  abcdefghijklmn\nNAME   klmnopqrstuvwx"
    )
    assert table(headers, [], 10) == "GROUP  CONNECTOR  TARGET  STATE  TASKS  WORKER"


def test_a_narrow_terminal_does_without_spare_columns_if_the_rest_fits() -> None:
    headers = ("GROUP", "CONNECTOR", "TARGET", "STATE", "TASKS", "WORKER")
    rows = [("team.orders", "orders.source.1", "STARTED", "RUNNING", "3 (1 FAILED)", "worker-1.example.org:8083")]
    lines = table(headers, rows, 60, ("WORKER", "TARGET")).split("\n")
    assert [line.split() for line in lines] == [
        ["GROUP", "CONNECTOR", "TARGET", "STATE", "TASKS"],
        ["team.orders", "orders.source.1", "STARTED", "RUNNING", "3", "(1", "FAILED)"],
    ]
    assert table(headers, rows, 55, ("WORKER", "TARGET")).startswith("GROUP        CONNECTOR        STATE    TASKS\n")
    assert table(headers, rows, 40, ("WORKER", "TARGET")).startswith("GROUP      team.orders\n")


@given(st.dictionaries(st.text(min_size=1), json_values(st.integers() | st.floats() | st.text()), max_size=4))
def test_json_is_ascii_and_says_what_it_is(members: dict[str, object]) -> None:
    written = json_text("get groups", members)
    assert written.isascii()
    assert not set(written) - {chr(code) for code in range(32, 127)} - {"\n"}
    read = json.loads(written, parse_constant=pytest.fail)
    assert read["_command"] == members.get("_command", "get groups")
    assert set(read) == {*members, "_command", "_version"}


def output(form: str) -> tuple[Output, io.StringIO, io.StringIO]:
    stdout, stderr = io.StringIO(), io.StringIO()
    return Output("get tasks", form, stdout=stdout, stderr=stderr), stdout, stderr


def test_errors_in_json_are_an_object_on_stderr() -> None:
    out, stdout, stderr = output("json")
    assert out.error(ReadToEndTimeoutError("late", topic="t", partition=0, position=1, end_offset=2)) == 1
    assert stdout.getvalue() == ""
    error = json.loads(stderr.getvalue())["error"]
    assert error == {
        "type": "ReadToEndTimeoutError",
        "message": "late",
        "retriable": True,
        "topic": "t",
        "partition": 0,
    }


def test_a_stream_that_cannot_show_a_letter_gets_its_escape() -> None:
    raw = io.BytesIO()
    stream = io.TextIOWrapper(raw, encoding="ascii")
    Output("get groups", stdout=stream).show(Result({}, [Table(("G",), [("größe",)])]))
    stream.flush()
    assert raw.getvalue().split(b"\n")[1] == rb"gr\xf6\xdfe"


BUFFERED = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}


def run(command: list[str], stdout: Any = subprocess.PIPE, **options: Any) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, stdout=stdout, stderr=subprocess.PIPE, text=True, check=False, **options)


def test_a_reader_that_has_gone_ends_a_command_without_a_word() -> None:
    """As behind ``| head``."""
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing, "w") as gone:
        ended = run([sys.executable, "-m", "connect_share.cli", "--help"], stdout=gone, env=BUFFERED)
    assert (ended.returncode, ended.stderr) == (1, "")


@pytest.mark.parametrize("closed", ["<&-", ">&-", "<&- >&- 2>&-"])
def test_what_is_closed_is_not_missed(closed: str) -> None:
    """As some schedulers start their jobs."""
    command = ["sh", "-c", f'exec "$@" {closed}', "sh", sys.executable, "-m", "connect_share.cli"]
    helped = run([*command, "--help"])
    assert (helped.returncode, helped.stderr) == (0, "")
    wrong = run([*command, "no-such"])
    assert (wrong.returncode, "Traceback" in wrong.stderr) == (2, False)


def test_a_full_disk_is_a_sentence() -> None:
    with Path("/dev/full").open("w", encoding="utf-8") as full:
        command = [sys.executable, "-m", "migrator", "--version"]
        ended = run(command, stdout=full, env=BUFFERED)
        assert (ended.returncode, ended.stderr.count("\n")) == (1, 1)
        assert ended.stderr.endswith("error: the result cannot be written: No space left on device\n")
        missing = [sys.executable, "-m", "migrator", "no-such"]
        assert subprocess.run(missing, stderr=full, check=False).returncode == 2


@pytest.mark.parametrize(
    ("program", "name"), [("connect_share", "connect-share"), ("migrator", "connect-share-migrate")]
)
def test_the_version(program: str, name: str) -> None:
    ended = run([sys.executable, "-m", program, "--version"])
    assert (ended.returncode, ended.stderr) == (0, "")
    assert ended.stdout == f"{name} {version('connect-share')}\n" == f"{name} {connect_share.__version__}\n"


PROGRAM = """
import types
from connect_share.console.program import Command, Program, Verb
sys.modules["of_a_test"] = types.SimpleNamespace(COMMANDS=[Command("go", body, after_interruption=lambda _: after)])
verbs = {"go": Verb("", ["of_a_test"])}
sys.argv.insert(1, "go")
sys.exit(Program("p", "", "", verbs, metavar="VERB", loggers=[], level=0).main())
"""
"""A program with one command: ``body``; ``after`` is what it says after Ctrl-C."""


@pytest.mark.parametrize(("typed", "code"), [("Yes\n", 0), ("n\n", 1), ("\x04", 1), ("\x03", 130)])
def test_answers_to_a_question(typed: str, code: int) -> None:
    """On a real terminal: yes is yes, and after anything else it is said that nothing was done."""
    script = f"""
import fcntl, sys, termios
fcntl.ioctl(0, termios.TIOCSCTTY, 0)  # so that ^C reaches this process
from connect_share.console.program import confirmed
body, after = lambda *_: 0 if confirmed("really?", otherwise="") else 1, "nothing was done"
{PROGRAM}
"""
    mine, theirs = pty.openpty()
    with subprocess.Popen(
        [sys.executable, "-c", script], stdin=theirs, stderr=theirs, stdout=theirs, start_new_session=True
    ) as process:
        os.close(theirs)
        seen = b""
        while b"[yes/no] " not in seen:
            seen += os.read(mine, 1024)
        os.write(mine, typed.encode())
        with contextlib.suppress(OSError):  # the end, on Linux
            while True:
                if select.select([mine], [], [], 5)[0]:
                    seen += os.read(mine, 1024)
                else:
                    os.write(mine, typed.encode())  # Python does not see ^C between the question and its read
        os.close(mine)
    shown = seen.decode()
    assert process.returncode == code
    assert ("nothing was done" in shown) is (code != 0)
    assert "Traceback" not in shown


@pytest.mark.parametrize(
    ("words", "ours"),
    [
        (["-m", "connect_share", "get", "groups"], True),
        (["-m", "migrator.cli", "apply"], True),
        (["-c", "from connect_share import ConnectStorage"], False),
    ],
)
def test_ctrl_c_while_a_program_is_imported(words: list[str], ours: bool, tmp_path: Path) -> None:
    """A program of ours ends with a sentence; whoever imports the library keeps Python's own ways."""
    slow = "import time; print('importing', flush=True); time.sleep(60)"
    (tmp_path / "confluent_kafka.py").write_text(slow)
    env = {**os.environ, "PYTHONPATH": str(tmp_path)}
    with subprocess.Popen(
        [sys.executable, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=env
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "importing\n"
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=180)
    if ours:
        assert (process.returncode, said.partition(": ")[2]) == (130, "interrupted: nothing was done\n")
    else:
        assert (process.returncode, said.splitlines()[-1]) == (-signal.SIGINT, "KeyboardInterrupt")


AT_ANY_MOMENT = """
import os, signal, sys, time
from connect_share import client

@client.callback
def delivered():
    os.kill(os.getpid(), signal.SIGINT)
    time.sleep(0.05)
    print("the callback ended", flush=True)

def body(*_):
    if what == "callback":
        delivered()
    elif what == "error":
        try:
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(5)
        except KeyboardInterrupt:
            raise SystemError("poll returned NULL without setting an exception")
    elif what == "twice":
        try:
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(5)
        finally:
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(60)
    time.sleep(5)

what, after = sys.argv.pop(), "go on"
"""


@pytest.mark.parametrize(
    ("what", "out", "err"),
    [
        ("callback", "the callback ended\n", "p: interrupted: go on\n"),
        ("error", "", "p: interrupted: go on\n"),
        ("twice", "", "p: interrupted\n"),
    ],
)
def test_ctrl_c_at_any_moment(what: str, out: str, err: str) -> None:
    """In a callback of the Kafka library, where an exception is lost; where it became another one; while it ends."""
    ended = run([sys.executable, "-c", AT_ANY_MOMENT + PROGRAM, what])
    assert (ended.returncode, ended.stdout, ended.stderr) == (130, out, err)
