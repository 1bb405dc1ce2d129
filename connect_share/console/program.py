"""The run of one command: however it ends, the user sees a sentence and an exit code, never a traceback."""

from __future__ import annotations

import argparse
import atexit
import contextlib
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NoReturn

from connect_share.console.interruption import Interruption, InterruptionError
from connect_share.console.options import Parser
from connect_share.console.output import Output, unwritable
from connect_share.errors import ConnectShareError, UsageError


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
