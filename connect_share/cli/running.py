"""How both programs run a command: whatever ends it, the end is a sentence and an exit code, never a traceback."""

from __future__ import annotations

import argparse
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path
from types import FrameType
from typing import Any, ClassVar, Final, NoReturn

from connect_share.cli.output import Output, unwritable
from connect_share.client import is_in_callback
from connect_share.errors import ConnectShareError, UsageError

EXIT_CODES: Final = "exit codes: 0 ok, 1 failed or findings, 2 wrong usage, 130 interrupted"

_CALLBACK_S: Final = 0.01


class InterruptionError(ConnectShareError):
    """Ctrl-C; the exit code is the one that shells expect."""

    exit_code: ClassVar[int] = 130


class Parser(argparse.ArgumentParser):
    """Raises wrong usage instead of printing it: the form of the error depends on ``--output``."""

    def error(self, message: str) -> NoReturn:
        """Raise it.

        Raises:
            UsageError: always.
        """
        raise UsageError(f"{message}; {self.prog} --help shows what there is")


def add_version(parser: argparse.ArgumentParser) -> None:
    """Add ``--version``."""
    shown = f"{parser.prog} {version('connect-share')}"
    parser.add_argument("--version", action="version", version=shown, help="show the version and exit")


def seconds(text: str, most: int = 3_600) -> float:
    """Read a length of time from the command line."""
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0.1 <= value <= most:
        raise argparse.ArgumentTypeError(f"has to be 0.1 to {most} seconds")
    return value


def run_program(
    parser: argparse.ArgumentParser,
    argv: Sequence[str] | None,
    carry_out: Callable[[argparse.Namespace, Output], int],
    *,
    words: Callable[[argparse.Namespace], str],
    goes_on: Callable[[argparse.Namespace], str],
) -> int:
    """Run one command line of a program and see its results off; gives the exit code.

    Args:
        parser: of the whole command line; its ``prog`` is the program's name.
        argv: the arguments; ``None``: those of this process, which ends afterwards.
        carry_out: runs what was understood.
        words: names the command, such as ``get groups``.
        goes_on: asked after Ctrl-C: what is the case now, and how to go on.
    """
    _open_closed_streams()
    given = list(sys.argv[1:] if argv is None else argv)
    out = Output(given[0] if given else "", _form(given), program=parser.prog)
    interruption = _Interruption(f"{parser.prog}: interrupted\n")
    with interruption.noticed(process_ends=argv is None):
        arguments: argparse.Namespace | None = None
        try:
            try:
                arguments = parser.parse_args(given)
                out.command = words(arguments)
                code = carry_out(arguments, out)
            except BrokenPipeError:  # whoever read the results has gone, as behind ``| head``
                code = 1
            except SystemExit as ended:  # --help, --version
                code = ended.code if isinstance(ended.code, int) else 2
            except ConnectShareError as error:
                if interruption.came:
                    raise
                code = out.error(error)
            return _seen_off(out, code)
        except BaseException as error:
            if not interruption.came and not isinstance(error, KeyboardInterrupt):
                raise
            said = "nothing was done" if arguments is None else goes_on(arguments)
            return _seen_off(out, _interrupted(out, InterruptionError(f"interrupted: {said}")))


def _interrupted(out: Output, error: InterruptionError) -> int:
    if out.is_json:
        return out.error(error)
    out.note(str(error))
    return error.exit_code


def _seen_off(out: Output, code: int) -> int:
    """Let go of the results; gives the exit code, 1 where they could not be written."""
    try:
        sys.stdout.flush()
    except OSError as error:
        # The interpreter must not complain about it once more while it ends.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if code == 0 and not isinstance(error, BrokenPipeError):
            out.error(unwritable(error))
        return code or 1
    return code


def _open_closed_streams() -> None:
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:  # closed, as some schedulers do
            setattr(sys, name, Path(os.devnull).open(mode, encoding="utf-8"))  # noqa: SIM115 - until the end


def _form(given: Sequence[str]) -> str:
    """Find ``--output`` before the arguments are understood: wrong usage is shown in that form too."""
    finder = Parser(add_help=False, allow_abbrev=False)
    finder.add_argument("--output", choices=("text", "json"), default="text")
    try:
        return str(finder.parse_known_args(given)[0].output)
    except UsageError:
        return "text"


class _Interruption:
    """Takes Ctrl-C. The first one raises ``KeyboardInterrupt``, so that the command ends in order; a second one ends at once.

    Where the Kafka library has called back it forgets what is raised, so the exception waits for the end of the callback.

    Args:
        last_words: what is written at the second one.
    """

    def __init__(self, last_words: str) -> None:
        self.came = False
        self._last_words = last_words.encode("ascii", "backslashreplace")

    @contextmanager
    def noticed(self, *, process_ends: bool) -> Iterator[None]:
        """Take it while the block runs; afterwards as before, or by a silent end where the process ends anyway."""
        before = signal.getsignal(signal.SIGINT)
        # Only the main thread may, and who was started with Ctrl-C ignored (nohup, a shell's background) leaves it so.
        if before is signal.SIG_IGN or threading.current_thread() is not threading.main_thread():
            yield
            return
        hook = sys.unraisablehook
        sys.unraisablehook = self._hook(hook)
        signal.signal(signal.SIGINT, self._take)
        try:
            yield
        finally:
            signal.signal(signal.SIGINT, signal.SIG_DFL if process_ends else before)
            sys.unraisablehook = hook

    def _take(self, number: int, frame: FrameType | None) -> None:
        if self.came:
            os.write(2, self._last_words)
            os._exit(InterruptionError.exit_code)
        self.came = True
        self._raise(number, frame)

    def _raise(self, _number: int, frame: FrameType | None) -> None:
        if is_in_callback(frame):
            self._later()
        else:
            raise KeyboardInterrupt

    def _later(self) -> None:
        signal.signal(signal.SIGALRM, self._raise)
        signal.setitimer(signal.ITIMER_REAL, _CALLBACK_S)

    def _hook(self, otherwise: Callable[[Any], object]) -> Callable[[Any], object]:
        """Give what is called where an exception cannot be raised, as in a destructor: an interruption comes again."""

        def unraisable(what: Any) -> None:
            if self.came and isinstance(what.exc_value, KeyboardInterrupt):
                self._later()
            else:
                otherwise(what)

        return unraisable
