"""Ctrl-C while a command runs.

Log lines of the libraries on stderr, one form for both programs.

The run of one command: however it ends, the user sees a sentence and an exit code, never a traceback.
"""

from __future__ import annotations

import argparse
import atexit
import contextlib
import logging
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import FrameType
from typing import Any, ClassVar, Final, NoReturn

from connect_share.console.options import Parser
from connect_share.console.output import Output, unwritable
from connect_share.console.text import printable
from connect_share.errors import ConnectShareError, UsageError
from connect_share.kafka.callbacks import is_in_callback

_CALLBACK_S: Final = 0.01


class InterruptionError(ConnectShareError):
    """Ctrl-C; the exit code is the one that shells expect."""

    exit_code: ClassVar[int] = 130


class Interruption:
    """A handler of Ctrl-C: the first raises ``KeyboardInterrupt``, so the command cleans up; the second ends the process.

    The Kafka library forgets what its callbacks raise, so the exception waits for the end of a callback.
    """

    def __init__(self, last_words: str) -> None:
        self.came = False
        self._last_words = last_words.encode("ascii", "backslashreplace")

    @contextmanager
    def handled(self, *, process_ends: bool) -> Iterator[None]:
        """Handle it while the block runs. Afterwards the handler is as before, or Python's default if the process ends."""
        before = signal.getsignal(signal.SIGINT)
        # Only the main thread may. A process started with Ctrl-C ignored (nohup, a background job) keeps ignoring it.
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
        """Return a hook for exceptions that cannot be raised, as in a destructor: an interruption is raised again later."""

        def unraisable(what: Any) -> None:
            if self.came and isinstance(what.exc_value, KeyboardInterrupt):
                self._later()
            else:
                otherwise(what)

        return unraisable


class _EscapingFormatter(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        return printable(super().format(record))


@contextmanager
def logs_on_stderr(program: str, names: Sequence[str], level: int) -> Iterator[None]:
    """Send log lines of these loggers to stderr, escaped; afterwards all is as before."""
    handler = logging.StreamHandler()
    handler.setFormatter(_EscapingFormatter(f"{program}: %(levelname)s %(name)s: %(message)s"))
    with ExitStack() as stack:
        for name in names:
            logger = logging.getLogger(name)
            stack.callback(_restore, logger, logger.handlers, logger.level, propagate=logger.propagate)
            logger.handlers, logger.propagate = [handler], False
            logger.setLevel(level)
        yield


def _restore(logger: logging.Logger, handlers: list[logging.Handler], level: int, *, propagate: bool) -> None:
    logger.handlers, logger.propagate = handlers, propagate
    logger.setLevel(level)


def run_program(
    parser: argparse.ArgumentParser,
    argv: Sequence[str] | None,
    run: Callable[[argparse.Namespace, Output], int],
    *,
    command: Callable[[argparse.Namespace], str],
    after_interruption: Callable[[argparse.Namespace], str],
) -> int:
    """Run one command line of a program and flush its results; return the exit code.

    ``argv`` is ``None`` for the arguments of this process, which ends here. ``command`` names the command, such
    as ``get groups``; ``after_interruption`` says after Ctrl-C what was done and how to continue.
    """
    code = _run(parser, argv, run, command, after_interruption)
    if argv is None:
        _end(code)
    return code


def _end(code: int) -> NoReturn:
    """End the process as the interpreter does, but do not take it apart first: that takes a tenth of a second."""
    atexit._run_exitfuncs()  # noqa: SLF001 - there is no other name for it
    with contextlib.suppress(OSError, ValueError):
        sys.stderr.flush()
    os._exit(code)


def _run(
    parser: argparse.ArgumentParser,
    argv: Sequence[str] | None,
    run: Callable[[argparse.Namespace, Output], int],
    command: Callable[[argparse.Namespace], str],
    after_interruption: Callable[[argparse.Namespace], str],
) -> int:
    _open_closed_streams()
    given = list(sys.argv[1:] if argv is None else argv)
    out = Output(given[0] if given else "", _output_form(given), program=parser.prog)
    interruption = Interruption(f"{parser.prog}: interrupted\n")
    with interruption.handled(process_ends=argv is None):
        arguments: argparse.Namespace | None = None
        try:
            try:
                arguments = parser.parse_args(given)
                out.command = command(arguments)
                code = run(arguments, out)
            except BrokenPipeError:  # the reader of the results has ended, as with ``| head``
                code = 1
            except SystemExit as ended:  # --help, --version
                code = ended.code if isinstance(ended.code, int) else 2
            except ConnectShareError as error:
                if interruption.came:
                    raise
                code = out.error(error)
            return _flushed(out, code)
        except BaseException as error:
            if not interruption.came and not isinstance(error, KeyboardInterrupt):
                raise
            state = "nothing was done" if arguments is None else after_interruption(arguments)
            return _flushed(out, _report_interruption(out, InterruptionError(f"interrupted: {state}")))


def _report_interruption(out: Output, error: InterruptionError) -> int:
    if out.is_json:
        return out.error(error)
    out.note(str(error))
    return error.exit_code


def _flushed(out: Output, code: int) -> int:
    """Flush the results; return the exit code, 1 where they could not be written."""
    try:
        sys.stdout.flush()
    except OSError as error:
        # The interpreter must not report it again when it ends.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if code == 0 and not isinstance(error, BrokenPipeError):
            out.error(unwritable(error))
        return code or 1
    return code


def _open_closed_streams() -> None:
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:  # closed, as some schedulers do
            setattr(sys, name, Path(os.devnull).open(mode, encoding="utf-8"))  # noqa: SIM115 - until the end


def _output_form(given: Sequence[str]) -> str:
    """Return ``--output`` before all arguments are parsed: wrong usage is reported in that form too."""
    finder = Parser(add_help=False, allow_abbrev=False)
    finder.add_argument("--output", choices=("text", "json"), default="text")
    try:
        return str(finder.parse_known_args(given)[0].output)
    except UsageError:
        return "text"
