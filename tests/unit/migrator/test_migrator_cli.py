"""What the console refuses before it talks to anybody, and how it says so."""

import errno
import io
import json
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from unittest.mock import MagicMock, patch

import pytest

from connect_share.console import output
from connect_share.console.output import Output, ProgressLine
from connect_share.files import counted
from migrator.apply import Lag
from migrator.cli import apply
from migrator.cli.__main__ import main


def test_errors_are_json_when_asked_for(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    missing = tmp_path / "no.json"
    assert main(["verify", str(missing), "--output", "json"]) == 1
    out, err = capsys.readouterr()
    assert out == ""
    told = json.loads(err)
    assert (told["_command"], told["error"]["type"]) == ("verify", "PlanFileError")
    assert main(["verify", str(missing)]) == 1
    assert capsys.readouterr().err == f"connect-share-migrate: error: plan {missing} does not exist\n"
    with patch("importlib.util.find_spec", return_value=None):  # before the plan is read
        assert main(["apply", str(missing), "--engine", "spark", "--dry-run"]) == 2
    assert "Spark needs pyspark" in capsys.readouterr().err


class Terminal(io.StringIO):
    """Collects what is written, and says that it is a terminal."""

    def isatty(self) -> bool:
        return True


def test_progress_is_json_lines_without_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(output, "_LINE_EVERY_S", 3600.0)  # however slow the machine is
    stream = io.StringIO()
    with ProgressLine(stream) as progress:
        progress.phase("copying", 10)
        progress.advance(4)
        progress.advance(4)
        progress.follow("2 behind", {"behind": 2})
        progress.follow("1 behind", {"behind": 1})
    *lines, follows = [json.loads(line) for line in stream.getvalue().splitlines()]
    assert follows == {"behind": 2}
    assert [(line["phase"], line["records"], line["of_at_most"], line["ended"]) for line in lines] == [
        ("copying", 0, 10, False),
        ("copying", 8, 10, True),
    ]


def test_progress_is_a_bar_on_a_terminal() -> None:
    stream = Terminal()
    with ProgressLine(stream) as progress:
        progress.phase("copying", 10)
        progress.advance(10)
        progress.follow("2 behind", {"behind": 2})
    *_, bar, follows = stream.getvalue().split("\r")
    assert bar.startswith("\x1b[Kcopying [########################] 10 records, ")
    assert bar.endswith("/s\n")
    assert follows == "\x1b[K2 behind\n"
    Output("apply", stderr=stream).note("a note")
    assert stream.getvalue().endswith("\r\x1b[Kconnect-share: a note\n")


def test_an_error_leaves_the_bar_where_it_was() -> None:
    stream = Terminal()
    with suppress(KeyError), ProgressLine(stream) as progress:
        progress.phase("copying", 10)
        raise KeyError
    assert stream.getvalue().endswith("[........................] 0 records, 0/s\n")


def test_a_stream_that_takes_nothing_does_not_end_the_work(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = Terminal()

    def follow(_: object, *, report: Callable[[Lag], None], **__: object) -> MagicMock:
        report(Lag(2, 3))
        return MagicMock(records_written=5, followed=None)

    monkeypatch.setattr(stream, "write", MagicMock(side_effect=OSError(errno.ENOSPC, "No space left on device")))
    monkeypatch.setattr(apply, "follow_plan", follow)
    monkeypatch.setattr(sys, "stderr", stream)
    with ProgressLine() as progress:
        progress.phase("copying", 10)
        progress.advance(10)
    assert "5 records copied" in str(apply._follow(MagicMock()).lines)


@pytest.mark.parametrize(("number", "reported"), [(0, [0]), (7, [7]), (1_000, [1_000, 0]), (2_001, [1_000, 1_000, 1])])
def test_all_that_was_read_is_reported(number: int, reported: list[int]) -> None:
    seen: list[int] = []
    assert list(counted(range(number), seen.append)) == list(range(number))
    assert seen == reported
