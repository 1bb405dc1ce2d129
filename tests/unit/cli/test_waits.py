"""Every command that asks a cluster has one bound, and says every few seconds what it waits for."""

from __future__ import annotations

import io
import shlex
import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from connect_share.cli.__main__ import build_parser
from connect_share.console import program
from connect_share.console.options import choose_worker_files
from connect_share.console.output import Output
from connect_share.console.program import run_command
from connect_share.errors import ConnectShareError
from connect_share.kafka import waits
from connect_share.kafka.waits import Awaited, longest_wait, longest_wait_s, newest_wait
from connect_share.sealing import KEYS_PROPERTY
from connect_share.sealing.key_ring import new_key
from migrator.cli.__main__ import build_parser as migrator_parser
from tests.support.worker_files import properties_of
from tests.unit.cli.test_cli_arguments import COMMANDS

BOUND_S = 2.0
SILENT = """
get groups -w W
get workers -w W
describe group group-a -w W
check all -w W
check topics -w W
discover -B @
admit -w W
create topics -w W --yes
export -w W -o F
alter offsets c -w W --file O --yes
reset offsets c -w W --yes
copy offsets c --to d -w W --yes
delete group group-a -w W --yes
repair order -w W --yes
repair refused -w K --yes
reseal -w K --yes
survey -w W
plan -w W --to-worker-config K -o P
"""


@pytest.mark.parametrize("prog", sorted(COMMANDS))
def test_what_asks_a_cluster_has_a_bound(prog: str) -> None:
    options = {name for action in COMMANDS[prog]._actions for name in action.option_strings}
    assert ("--timeout" in options) is ("--profile" in options)


@pytest.fixture(scope="module")
def silent() -> Iterator[str]:
    """A server that takes connections and never answers."""
    with socket.create_server(("127.0.0.1", 0), backlog=512) as server:
        yield f"127.0.0.1:{server.getsockname()[1]}"


@pytest.fixture(scope="module")
def runs(silent: str, tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[str, str]]:
    """Return of each command the error it ends with, and what it said before."""
    folder = tmp_path_factory.mktemp("silent")
    files = {name: folder / f"{name}.properties" for name in ("W", "K")}
    for name, path in files.items():
        properties = properties_of(silent, "group-a", name, connect_management_topic_sharing_support="enabled")
        if name == "K":
            properties[KEYS_PROPERTY] = new_key()
        path.write_text("".join(f"{key}={value}\n" for key, value in properties.items()))
    (folder / "O").write_text('{"offsets": [{"partition": {"p": 1}, "offset": {"o": 1}}]}')
    paths = {**{name: str(path) for name, path in files.items()}, "@": silent}
    paths |= {name: str(folder / name) for name in ("F", "O", "P")}

    def ran(line: str) -> tuple[str, str]:
        words = [paths.get(word, word) for word in shlex.split(line)]
        parser = next(
            each for each in (build_parser, migrator_parser) if words[0] in each(words[0]).format_help().split()
        )
        arguments = parser(words[0]).parse_args([*words, "--timeout", str(BOUND_S)])
        choose_worker_files(arguments.parser, arguments)
        said = io.StringIO()
        try:
            run_command(arguments.command, arguments, Output(line, stdout=io.StringIO(), stderr=said))
        except ConnectShareError as error:
            return str(error), said.getvalue()
        return "", said.getvalue()

    lines = SILENT.strip().splitlines()
    with pytest.MonkeyPatch.context() as patched, ThreadPoolExecutor(8) as pool:
        patched.setattr(program, "SIGN_EVERY_S", BOUND_S / 6)
        return dict(zip(lines, pool.map(ran, lines), strict=True))


@pytest.mark.parametrize("line", SILENT.strip().splitlines())
def test_a_silent_cluster_ends_it_and_it_says_what_it_waits_for(
    line: str, runs: dict[str, tuple[str, str]], silent: str
) -> None:
    error, said = runs[line]
    assert silent in error + said
    assert f"waiting for an answer of {silent}, " in said
    assert "not looked at" not in said  # it waits once


def test_the_newest_wait_is_shown_and_the_innermost_bound_holds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(waits, "_waits", {})
    assert longest_wait_s(30.0) == 30.0
    with longest_wait(5.0):
        assert longest_wait_s(30.0) == 5.0
        with longest_wait(900.0):
            assert longest_wait_s(30.0) == 900.0
        assert longest_wait_s(30.0) == 5.0
    with Awaited("what is outside"), Awaited("what is inside") as inner:
        assert newest_wait(0.0) is not None
        assert [newest_wait(0.0)[0], newest_wait(60.0)] == ["what is inside", None]  # type: ignore[index]
        inner.over()
        assert newest_wait(0.0)[0] == "what is outside"  # type: ignore[index]
    assert newest_wait(0.0) is None
