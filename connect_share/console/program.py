"""A program, its commands and the run of one: however it ends, the user sees a sentence and an exit code, no traceback."""

from __future__ import annotations

import argparse
import importlib
import logging
import os
import signal
import sys
import threading
from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from functools import partial
from importlib.metadata import version
from itertools import pairwise
from pathlib import Path
from types import FrameType
from typing import Any, ClassVar, Final, NamedTuple

from connect_share.console.options import (
    DEFAULT_TIMEOUT_S,
    EXIT_CODES,
    SHELLS,
    HelpFormatter,
    Parser,
    PrintCompletion,
    add_profile,
    choose_worker_files,
    seconds,
)
from connect_share.console.output import Output, Result, Table, printable, unwritable
from connect_share.errors import BrokerError, ConnectShareError, StoreError
from connect_share.files import repeated
from connect_share.kafka.callbacks import is_in_callback
from connect_share.kafka.waits import ANSWER_S, CHANGES, admins_kept, longest_wait, newest_wait
from connect_share.model.records import TopicType
from connect_share.worker_config.worker import profile_in_use

NOTHING_CHANGED: Final = "nothing was changed; run the same command again"
STAYS: Final = "what was done by then stays; run the same command again to continue"


@dataclass(frozen=True)
class Preview:
    """What a command would do. Only if it may does it go on behind the ``yield`` of its preview.

    Attributes:
        lines: for people; on stderr before a question.
        members: of the JSON object of ``--dry-run``.
        question: without the choice.
        aborted: by topic, how many records are left out because the group's workers do not see them.
        refused: how many they refuse, for the group did not write them, or a newer value has come before.
        objections: why the command refuses as things are now, the worst first; shown by ``--dry-run``, too.
        code: exit code of ``--dry-run`` without objections.
    """

    lines: Iterable[str | Table] = field(repr=False)
    members: Mapping[str, Any] = field(repr=False)
    question: str
    aborted: Mapping[TopicType, int] = field(default_factory=dict)
    refused: Mapping[TopicType, int] = field(default_factory=dict)
    objections: Iterable[ConnectShareError] = ()
    code: int = 0


Steps = Generator[Preview | Result, None, None]
"""What a command yields that shows what it would do before it does it: a preview, then a result."""


@dataclass(frozen=True)
class Command:
    """One command of a program.

    Attributes:
        name: as it is typed, such as ``get groups``.
        run: returns or yields what is to be printed, or prints itself and returns the exit code.
        text: one line for the list of the nouns of a verb; that of a verb without nouns is in the program's list of verbs.
        about: the description in its ``--help``.
        options: adds the options that only this command has.
        changes: help of ``--dry-run``, for a command that writes: it has ``--yes``, too.
        last: adds options that stand behind those that all commands have.
        timeout_s: the default of ``--timeout``; ``None``: longer for a command that writes.
        asks_cluster: it takes ``--timeout`` and ``--profile``.
        after_interruption: says after Ctrl-C what was done and how to continue.
    """

    name: str
    run: Callable[[argparse.Namespace, Output], Result | Steps | int]
    text: str = ""
    about: str | None = None
    examples: Sequence[str] = ()
    options: Callable[[Parser], object] | None = None
    changes: str | None = None
    last: Callable[[Parser], object] | None = None
    timeout_s: float | None = None
    forms: Sequence[str] = ("text", "json")
    asks_cluster: bool = True
    after_interruption: Callable[[argparse.Namespace], str] | None = None

    def declare(self, parser: Parser) -> None:
        """Give a parser what this command says of itself."""
        parser.description = self.about
        parser.formatter_class = HelpFormatter
        parser.epilog = "\n".join(("examples:", *(f"  {line}" for line in self.examples)))
        if self.options is not None:
            self.options(parser)
        if self.changes is not None:
            parser.add_argument("--yes", action="store_true", help="do not ask")
            parser.add_argument("--dry-run", action="store_true", help=self.changes)
        parser.add_argument("--output", choices=self.forms, default="text", help="form of the result")
        if self.asks_cluster:
            limit_s = self.timeout_s or (DEFAULT_TIMEOUT_S if self.changes is None else ANSWER_S)
            parser.add_argument(
                "--timeout",
                metavar="SECONDS",
                type=seconds,
                default=limit_s,
                help=f"longest wait for the cluster, {limit_s:g} by default",
            )
            add_profile(parser)
        parser.add_argument("-v", "--verbose", action="store_true", help="show what the libraries log")
        if self.last is not None:
            self.last(parser)
        parser.set_defaults(command=self, parser=parser)

    def interrupted(self, arguments: argparse.Namespace) -> str:
        """Say after Ctrl-C what was done and how to continue."""
        if self.after_interruption is not None:
            return self.after_interruption(arguments)
        return STAYS if getattr(arguments, "apply", self.changes) and not arguments.dry_run else NOTHING_CHANGED

    def explain(self, error: ConnectShareError, arguments: argparse.Namespace, *, begun: bool) -> None:
        """Say what was done when a cluster has refused something in the middle, if the error does not."""
        if self.changes is None or arguments.dry_run or error.says_what_is_done:
            return
        state = self.interrupted(arguments) if begun else "nothing was written"
        if isinstance(error, (BrokerError, StoreError)) and state not in str(error).lower():
            error.args = (f"{error}. {state[0].upper()}{state[1:]}", *error.args[1:])


class Verb(NamedTuple):
    """A verb of a program: its line in ``--help``, and the modules with the ``COMMANDS`` that begin with it.

    They are named as texts: only what a command line needs is imported, for all together would take as long as reading the
    topics of a small cluster.
    """

    text: str
    modules: Sequence[str]


_CALLBACK_S: Final = 0.01
NEEDS_YES: Final = "nothing was written: give --yes to go on without a prompt"


class InterruptionError(ConnectShareError):
    """Ctrl-C; the exit code is the one that shells expect."""

    exit_code: ClassVar[int] = 130


@dataclass(frozen=True)
class Program:
    """A program.

    Attributes:
        metavar: stands for a verb.
        loggers: whose lines are shown.
        level: of these lines without ``--verbose``.
    """

    name: str
    about: str
    examples: str
    verbs: Mapping[str, Verb]
    metavar: str
    loggers: Collection[str]
    level: int

    def parser(self, only: str | None = None) -> Parser:
        """Return the parser of all command lines; with ``only`` all but those of one verb have a name and nothing else."""
        parser = Parser(
            prog=self.name,
            description=self.about,
            epilog=f"{self.examples}\n{EXIT_CODES}",
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        shown = f"{self.name} {version('connect-share')}"
        parser.add_argument("--version", action="version", version=shown, help="show the version and exit")
        parser.add_argument(
            "--print-completion",
            metavar="SHELL",
            action=PrintCompletion,
            const=self.parser,
            choices=SHELLS,
            help=f"show the completion script of a shell and exit: {', '.join(SHELLS)}",
        )
        verbs = parser.add_subparsers(dest="verb", metavar=self.metavar, required=True)
        for name, verb in self.verbs.items():
            of_verb = verbs.add_parser(name, help=verb.text)
            if only not in (None, name):
                continue
            found: list[Command] = [
                command
                for module in verb.modules
                for command in importlib.import_module(module).COMMANDS
                if command.name.split()[0] == name
            ]
            if " " in found[0].name:
                nouns = of_verb.add_subparsers(dest="noun", metavar="NOUN", required=True)
                for command in found:
                    command.declare(nouns.add_parser(command.name.split()[1], help=command.text))
            else:
                found[0].declare(of_verb)
        return parser

    def main(self, argv: Sequence[str] | None = None) -> int:
        """Run one command line and flush its results; return the exit code, see ``--help``.

        ``argv`` is ``None`` for the arguments of this process, which ends then.
        """
        for stream, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
            if getattr(sys, stream) is None:  # closed, as some schedulers do
                setattr(sys, stream, Path(os.devnull).open(mode, encoding="utf-8"))  # noqa: SIM115 - until the end
        given = list(sys.argv[1:] if argv is None else argv)
        verb = given[0] if given else ""
        # Before all arguments are parsed: wrong usage is reported in that form, too.
        is_json = "--output=json" in given or ("--output", "json") in pairwise(given)
        out = Output(verb, "json" if is_json else "text", program=self.name)
        arguments: argparse.Namespace | None = None
        before = CHANGES.total()
        with _Interruption(self.name).handled(process_ends=argv is None) as interruption:
            try:
                try:
                    with files_named():
                        arguments = self.parser(verb).parse_args(given)
                        out.command, out.is_tsv = arguments.command.name, arguments.output == "tsv"
                        level = logging.INFO if arguments.verbose else self.level
                        profile = getattr(arguments, "profile", None)
                        with logs_on_stderr(self.name, self.loggers, level), profile_in_use(profile), admins_kept():
                            choose_worker_files(arguments.parser, arguments)
                            code = run_command(arguments.command, arguments, out)
                except BrokenPipeError:  # the reader of the results has ended, as with ``| head``
                    code = 1
                except SystemExit as ended:  # --help, --version
                    code = ended.code if isinstance(ended.code, int) else 2
                except ConnectShareError as error:
                    if interruption.came:
                        raise
                    if arguments is not None:
                        arguments.command.explain(error, arguments, begun=CHANGES.total() > before)
                    code = out.error(error)
                return _flushed(out, code)
            except BaseException as error:
                if not interruption.came and not isinstance(error, KeyboardInterrupt):
                    raise
                state = "nothing was done" if arguments is None else arguments.command.interrupted(arguments)
                return _flushed(out, _report_interruption(out, InterruptionError(f"interrupted: {state}")))


SIGN_EVERY_S: Final = 3.0


def _sign_of_life(out: Output) -> None:
    """Say what has been waited for so long, if anything."""
    if (late := newest_wait(SIGN_EVERY_S)) is not None:
        out.note(f"waiting for {late[0]}, {late[1]:.0f} s so far")


def run_command(command: Command, arguments: argparse.Namespace, out: Output) -> int:
    """Run a command, ask where it shows what it would do, and print its result; return the exit code."""
    with longest_wait(getattr(arguments, "timeout", ANSWER_S)), repeated(SIGN_EVERY_S, partial(_sign_of_life, out)):
        found = command.run(arguments, out)
        if isinstance(found, int):
            return found
        if isinstance(found, Result):
            return out.show(found)
        code = 0
        with closing(found) as steps:
            for step in steps:
                if isinstance(step, Result):
                    code = out.show(step)
                elif (ended := _ended_by(step, arguments, out)) is not None:
                    return ended
        return code


def _ended_by(preview: Preview, arguments: argparse.Namespace, out: Output) -> int | None:
    """Show a preview, and ask unless ``--yes`` was given; return the exit code of a command that ends here."""
    left_out, members = said_left_out(preview.aborted, preview.refused)
    lines = [*preview.lines, *left_out]
    if arguments.dry_run:
        ends = ["", "dry run: nothing was written"]
        out.show(Result({**preview.members, **members, "dry_run": True}, [*lines, *ends]))
    else:
        Output(out.command, stdout=sys.stderr).show(Result({}, lines))
    codes = [out.error(each) for each in preview.objections]
    if codes or arguments.dry_run:
        return codes[0] if codes else preview.code
    return None if arguments.yes or confirmed(preview.question) else 1


def said_left_out(
    aborted: Mapping[TopicType, int], refused: Mapping[TopicType, int]
) -> tuple[list[str], dict[str, Any]]:
    """Return the lines and members of a preview about what is left out; arguments as of :class:`Preview`."""
    lines, members = list[str](), dict[str, Any]()
    for name, what, left_out in (
        ("aborted", "of aborted transactions", aborted),
        ("refused", "refused, which the group did not write, or wrote before", refused),
    ):
        counts = {topic_type.value: count for topic_type, count in left_out.items()}
        lines += [f"  {kind:6}  left out: {count:,} {what}" for kind, count in counts.items() if count]
        members |= {name: counts} if counts else {}
    return lines, members


def confirmed(question: str, *, otherwise: str = NEEDS_YES) -> bool:
    """Ask on a terminal; only ``y`` and ``yes`` mean yes. Any other answer is followed by a note that nothing was done.

    ``otherwise`` is the note where there is no terminal to ask on, for example in a pipeline; the answer is no then.
    """
    if not sys.stdin.isatty():
        print(otherwise, file=sys.stderr)
        return False
    print(f"\n{question} [yes/no] ", end="", file=sys.stderr, flush=True)
    answer = sys.stdin.readline()
    if not answer.endswith("\n"):  # Ctrl-D leaves the cursor behind the question
        print(file=sys.stderr)
    if answer.strip().lower() in ("y", "yes"):
        return True
    print("nothing was done", file=sys.stderr)
    return False


@dataclass
class _Interruption:
    """Ctrl-C while a command runs: the first raises ``KeyboardInterrupt``, so it cleans up; the second ends the process."""

    program: str
    came: bool = False

    @contextmanager
    def handled(self, *, process_ends: bool) -> Iterator[_Interruption]:
        """Handle it while the block runs. Afterwards the handler is as before; if the process ends, it ends it at once."""
        before = signal.getsignal(signal.SIGINT)
        # Only the main thread may. A process started with Ctrl-C ignored (nohup, a background job) keeps ignoring it.
        if before is signal.SIG_IGN or threading.current_thread() is not threading.main_thread():
            yield self
            return
        signal.signal(signal.SIGINT, self._on_signal)
        try:
            yield self
        finally:
            signal.signal(signal.SIGINT, signal.SIG_DFL if process_ends else before)

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        if self.came and number == signal.SIGINT:
            os.write(2, f"{self.program}: interrupted\n".encode("ascii", "backslashreplace"))
            os._exit(InterruptionError.exit_code)
        self.came = True
        if not is_in_callback(frame):
            raise KeyboardInterrupt
        # The Kafka library forgets what its callbacks raise, so the exception waits for the end of the callback.
        signal.signal(signal.SIGALRM, self._on_signal)
        signal.setitimer(signal.ITIMER_REAL, _CALLBACK_S)


@contextmanager
def files_named() -> Iterator[None]:
    """Raise what the system says of a file as an error of ours: pathlib asks in silence only for what is not there."""
    try:
        yield
    except OSError as error:
        if error.filename is None:
            raise
        raise ConnectShareError(f"{error.filename}: {error.strerror}") from error


@contextmanager
def stopped_by(*numbers: signal.Signals) -> Iterator[threading.Event]:
    """Let these signals set an event while the block runs, so that what it does ends in order."""
    stopped = threading.Event()
    before = {}
    if threading.current_thread() is threading.main_thread():
        before = {number: signal.signal(number, lambda *_: stopped.set()) for number in numbers}
    try:
        yield stopped
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


class _EscapingFormatter(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        return printable(super().format(record))


@contextmanager
def logs_on_stderr(program: str, names: Collection[str], level: int) -> Iterator[None]:
    """Send log lines of these loggers to stderr, escaped; afterwards all is as before."""
    handler = logging.StreamHandler()
    handler.setFormatter(_EscapingFormatter(f"{program}: %(levelname)s %(name)s: %(message)s"))
    loggers = [logging.getLogger(name) for name in names]
    before = [(each.handlers, each.propagate, each.level) for each in loggers]
    for logger in loggers:
        logger.handlers, logger.propagate = [handler], False
        logger.setLevel(level)
    try:
        yield
    finally:
        for logger, (handlers, propagate, old_level) in zip(loggers, before, strict=True):
            logger.handlers, logger.propagate = handlers, propagate
            logger.setLevel(old_level)


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
