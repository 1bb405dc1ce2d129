"""Values that commands print: real processes, hostile ones too; nothing of what they print is ever shown."""

from __future__ import annotations

import os
import select
import shlex
import sys
import traceback
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from connect_share.checks.finding import Severity
from connect_share.checks.worker_file import check_properties
from connect_share.errors import ConfigError
from connect_share.jar import INTERCEPTOR_CLASS
from connect_share.sealing import KEYS_PROPERTY
from connect_share.worker_config import WorkerConfig
from connect_share.worker_config import config_providers as command_provider
from connect_share.worker_config.config_providers import COMMAND_PROVIDER_CLASS, command_line, resolve_variables
from tests.support import worker_files
from tests.support.sealed import KEYS, key_text

SECRET = "hunter2-zebra"
CLASS = "config.providers.command.class"
PROVIDER = {"config.providers": "command", CLASS: COMMAND_PROVIDER_CLASS}
WORKER = {
    **PROVIDER,
    **worker_files.WORKER,
    **worker_files.SHARING,
    "group.id": "orders",
    "interceptor.classes": INTERCEPTOR_CLASS,
    KEYS_PROPERTY: "${command:keys}",
}


def python(program: str, *arguments: str) -> str:
    return shlex.join([sys.executable, "-c", program, *arguments])


def printed(command: str, reference: str = "${command:it}") -> str:
    return resolve_variables({**PROVIDER, "config.providers.command.param.it": command, "x": reference})["x"]


def refused(command: str, reference: str = "${command:it}") -> str:
    with pytest.raises(ConfigError, match=r"^x: config provider 'command'") as caught:
        printed(command, reference)
    assert caught.value.property_name == "x"
    assert SECRET not in "".join(traceback.format_exception(caught.value))
    return str(caught.value)


def test_keys_that_a_command_prints() -> None:
    command = python("import sys; print(sys.argv[1])", key_text(7))
    given = {**WORKER, "config.providers.command.param.keys": command}
    config = WorkerConfig.from_properties(given)
    assert config.sealing_keys == KEYS
    assert key_text(7)[3:20] not in f"{config!r}{config}"


def test_one_newline_is_taken_away_and_nothing_else_is() -> None:
    for text, expected in (("a", "a"), ("a\n", "a"), (" a\n\n", " a\n"), ("a\r\n", "a\r"), ("ü\n", "ü")):
        write = python("import sys; sys.stdout.buffer.write(sys.argv[1].encode())", text)
        assert printed(write, "<${command:it}>") == f"<{expected}>"
    assert printed(python("import sys; print(sys.argv[1:])", "$HOME", "`id`", "*", "a b"))[1:-1] == (
        "'$HOME', '`id`', '*', 'a b'"
    )


def test_a_command_gets_no_input_and_what_it_says_of_its_failure_is_not_shown() -> None:
    assert printed(python("import sys; print(repr(sys.stdin.read()))")) == "''"
    program = (
        "import sys; print(sys.argv[1], flush=True); print(sys.argv[1], file=sys.stderr); sys.exit(int(sys.argv[2]))"
    )
    assert refused(python(program, SECRET, "3")).endswith("it: the command failed with exit code 3")
    killed = python("import os, sys; print(sys.argv[1], flush=True); os.kill(os.getpid(), 15)", SECRET)
    assert refused(killed).endswith("it: the command failed with exit code -15")


@pytest.mark.parametrize(
    ("command", "says"),
    [
        (f"/no/such/{SECRET} --token {SECRET}", "cannot be run: No such file or directory"),
        (f"/etc/passwd {SECRET}", "cannot be run: Permission denied"),
        (f"true '{SECRET}", "has a quotation or an escape that does not end"),
        ("  ", "the command line is empty"),
        (f"true {SECRET}\0", "has a character that no argument can have"),
        (f"true {SECRET}\ud800", "has a character that no argument can have"),
        (f"true {SECRET}", "the command printed nothing"),
        ("echo", "the command printed nothing"),
        (python("import os; os.write(1, b'\\xff' + b'hunter2-zebra')"), "is not UTF-8 text"),
        (python("while True: print('hunter2-zebra' * 999)"), "printed more than 65,536 bytes"),
    ],
)
def test_commands_that_do_not_work(command: str, says: str) -> None:
    assert says in refused(command)


def test_only_commands_of_the_worker_file_are_run() -> None:
    for reference in ("${command:other}", "${command:echo a}", "${command:/bin:it}", "${command:}"):
        assert "has nothing under" in refused("echo a", reference)


@pytest.mark.parametrize("parent", ["sleep 600", "exec 1>&-; sleep 600", "exit 0"])
def test_a_command_that_hangs_is_ended_with_all_that_it_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, parent: str
) -> None:
    """The pipe ends when nobody has it open for writing any more."""
    monkeypatch.setattr(command_provider, "_TIMEOUT_S", 0.5)
    alive, read = tmp_path / "alive", command_provider._read
    os.mkfifo(alive)
    reading = os.open(alive, os.O_RDONLY | os.O_NONBLOCK)
    # The time is up when all of it runs, however long the machine took to start it.
    monkeypatch.setattr(command_provider, "_read", lambda *of: select.select([reading], [], [], 120) and read(*of))
    try:
        command = shlex.join(["sh", "-c", f"exec 3> '{alive}'; echo {SECRET} >&3; sleep 600 & {parent}"])
        assert "did not end within 0.5 s" in refused(command)
        os.set_blocking(reading, True)
        with os.fdopen(reading, closefd=False) as pipe:
            assert pipe.read() == f"{SECRET}\n"
    finally:
        os.close(reading)


@given(st.lists(st.text(), min_size=1))
def test_arguments_are_what_was_quoted(arguments: list[str]) -> None:
    assert command_line(shlex.join(arguments)) == arguments


@given(st.text(alphabet="ab'\"\\ #$`\n\u2028\0"))
def test_any_text_is_a_command_line_or_refused_without_being_shown(text: str) -> None:
    try:
        assert command_line(text)
    except ConfigError as error:
        assert str(error) in {  # noqa: PT017
            "the command line has a quotation or an escape that does not end",
            "the command line is empty",
        }


def test_check_says_that_a_java_worker_does_not_know_it() -> None:
    checked = check_properties({**WORKER, "config.providers.command.param.keys": shlex.join(["echo", key_text(7)])})
    assert [(one.severity, one.property_name) for one in checked.findings] == [(Severity.ERROR, CLASS)]
    assert "a Java worker does not know it" in checked.findings[0].what
    unused = check_properties(
        {name: value for name, value in WORKER.items() if name != KEYS_PROPERTY} | {"config.providers": ""}
    )
    assert unused.findings == ()
